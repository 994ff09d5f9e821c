"""Runs the kit over extensions, in a process without the shape checks of these tests, which make it much slower.

Each registered extension that changes frequencies, by its own example, on a rotation, and one on sinusoids: some 30 s.
Prints one JSON object: from a spec to the failures, `{check: message}`.
"""

from __future__ import annotations

import json
import warnings

import torch

import lengthwise as lw
from lengthwise.extension.registry import example, extensions
from lengthwise.testing import check_encoding
from lengthwise.testing.makers import OfSpec

# Trained to fewer tokens than the kit fixes lengths to, so that what follows the length acts.
DIMS = lw.Dims(dim=32, heads=4, head_dim=8, max_length=128, trained_length=64)


def specs() -> list[str]:
    """Each method of frequencies on a rotation."""
    of_frequencies = [name for name, kind in extensions.items() if hasattr(kind, "map_spectrum")]
    return [*(f"rotary + {example(name)}" for name in of_frequencies), "sinusoidal + dynamic_ntk(factor=2)"]


if __name__ == "__main__":
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    print(json.dumps({spec: dict(check_encoding(OfSpec(spec, DIMS), dims=DIMS).failures) for spec in specs()}))
