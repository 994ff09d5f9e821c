"""What the pages of `docs/` share: sizes, words and the encodings that they show."""

from __future__ import annotations

import torch
from torch import nn

from lengthwise.build import build
from lengthwise.dims import Dims
from lengthwise.encodings.registry import encodings, example

DIMS = Dims(64, 4, layers=12, max_length=64)
"""Sizes of all that is built for a page."""
MARK = "Written by `make docs` from the registry; do not edit."
CACHE = {
    "rotated": "keys may wait in a cache as they were rotated",
    "rotated_at_target_length": "keys may wait in a cache as they were rotated, at one target length for all",
    "raw": "keys wait in a cache unrotated",
    "none": "no cache: later tokens change earlier keys",
}


def own() -> list[str]:
    """Names of the encodings of this package alone."""
    return [name for name, made in encodings.items() if made.__module__.startswith("lengthwise.")]


def built(name: str) -> nn.Module:
    """The encoding of the examples, the same each time."""
    return built_from(example(name))


def built_from(spec: str) -> nn.Module:
    """The encoding of a spec, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build(spec, DIMS)


def cell(text: str) -> str:
    """Text within a table of Markdown."""
    return text.replace("|", "\\|")
