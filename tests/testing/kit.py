"""Runs the kit in a process without the shape checks of these tests, which would make it five times as slow.

    python kit.py encodings   every encoding of this package
    python kit.py settings    settings and combinations, other numbers of heads
    python kit.py wrong       every second wrong encoding
    python kit.py others      the other wrong ones

Each is a file of tests of its own, so that they run side by side.
Prints one JSON object: from a label to the failures, `{check: message}`.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Sequence

import torch

import lengthwise as lw
from lengthwise.attention import backends
from lengthwise.testing import CHECKS, check_encoding, registered
from lengthwise.testing.broken import BROKEN, Wrong
from lengthwise.testing.broken import DIMS as WRONG_DIMS
from lengthwise.testing.broken import state as state_faults
from lengthwise.testing.makers import OfSpec

DIMS = lw.Dims(dim=32, heads=4, head_dim=8, max_length=128)
SETTINGS = (
    "rotary(layout='interleaved')",
    "rotary(fraction=0.5, base=100)",
    "sinusoidal(variant='half')",
    "sinusoidal + t5",
    "axial(axes=3, split=(2, 1, 1))",
    "liere(axes=1)",
    "liere(axes=3, generators=2)",
    "liere(block=4)",
    "comrope(axes=1)",
    "comrope(variant='ap')",
    "axial(axes=1)",
    "mrope(interleaved=True)",
    "fourier(axes=2)",
    "shaw(max_distance=3)",
    "shaw(values=True)",
    "transformer_xl(clamp=5)",
    "deberta(buckets=4, max_distance=6)",
    "deberta(norm=True)",
    "xpos(layout='half')",
    "fope(learned=True)",
    "cope(max_positions=3)",
    "cope(nodiv=True)",
    "kerple(kernel='power')",
    "sandwich(first=1)",
    "gaussian(learned=True)",
    "gaussian(width=2.0)",
    "cape(max_global_shift=3.0, max_local_shift=0.3, max_scale=1.5)",
    "shape(max_shift=7)",
    "hierarchical(max_length=9)",
    "temperature(floor=3)",
    "chunks(chunk=3)",
    "window(window=3)",
    "alibi(learned=True)",
    "dape(t5)",
    "dape(alibi)",
    "randomized(fire)",
    "randomized(learned, longest=128)",
    "randomized(rotary, evaluation='given')",
    "rotary + alibi + fox",
    "sinusoidal + rotary + shaw",
    "rotary(layout='interleaved', fraction=0.5, base=100)",
    "sinusoidal(variant='tensor2tensor')",
    "t5(bidirectional=True)",
    "t5(buckets=8, max_distance=6)",
    "selective_rope(conv=1)",
    "rotary + shaw",
    "rotary + path",
    "rotary + deberta",
    "rotary + cope",
    "rotary + dape(kerple)",
    "selective_rope + path",
    "randomized(fope)",
    "cape(normalize=True)",
)
HEADS = (1, 3, 6)


def encodings() -> dict[str, dict[str, str]]:
    """Failures of every encoding of this package."""
    return {make.label: dict(check_encoding(make, dims=DIMS).failures) for make in registered(DIMS, others=False)}


def settings() -> dict[str, dict[str, str]]:
    """Failures of settings that change most, and of other numbers of heads."""
    failures = {spec: dict(check_encoding(OfSpec(spec, DIMS), dims=DIMS).failures) for spec in SETTINGS}
    for heads in HEADS:
        dims = lw.Dims(dim=heads * 8, heads=heads, head_dim=8, max_length=64)
        for spec in ("alibi", "rotary", "t5", "learned", "none", "mixed", "fox"):
            label = f"{spec}, {heads} heads"
            failures[label] = dict(check_encoding(OfSpec(spec, dims), dims=dims).failures)
    return failures


def wrong(half: Sequence[Wrong]) -> dict[str, dict[str, str]]:
    """Failures of wrong encodings; those of slow checks only where it is one of them that must catch it."""
    fast = [name for name, check in CHECKS.items() if check.speed == "fast"]
    failures: dict[str, dict[str, str]] = {}
    for fault in half:
        state_faults.forget()
        if fault.backend is not None:
            backends._things["wrong"] = fault.backend
        chosen = fast if fault.caught_by in fast else [*fast, fault.caught_by]
        failures[fault.made.__name__] = dict(check_encoding(fault.made, dims=WRONG_DIMS, checks=chosen).failures)
        backends._things.pop("wrong", None)
    return failures


if __name__ == "__main__":
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    runs = {
        "encodings": encodings,
        "settings": settings,
        "wrong": lambda: wrong(BROKEN[::2]),
        "others": lambda: wrong(BROKEN[1::2]),
    }
    print(json.dumps(runs[sys.argv[1]]()))
