"""Every registered encoding keeps the contract, with the settings that change most."""

from __future__ import annotations

import pytest

import lengthwise as lw
from lengthwise.testing import check_encoding, registered
from lengthwise.testing.makers import OfSpec

DIMS = lw.Dims(dim=32, heads=4, head_dim=8, max_length=128)
SETTINGS = [
    "rotary(layout='interleaved')",
    "rotary(fraction=0.5, base=100)",
    "sinusoidal(variant='half')",
    "sinusoidal(variant='tensor2tensor')",
    "t5(bidirectional=True)",
    "t5(buckets=8, max_distance=6)",
    "alibi(learned=True)",
    "kerple(kernel='power')",
    "window(window=3)",
    "randomized(learned, longest=128)",
    "randomized(fire)",
    "rotary + alibi",
    "sinusoidal + t5",
    "rotary + fox",
]


@pytest.mark.parametrize("make", registered(DIMS), ids=lambda make: make.label)
def test_every_registered_encoding_keeps_the_contract(make: OfSpec) -> None:
    check_encoding(make, dims=DIMS).raise_if_failed()


@pytest.mark.parametrize("spec", SETTINGS)
def test_settings_and_combinations_keep_the_contract(spec: str) -> None:
    check_encoding(OfSpec(spec, DIMS), dims=DIMS).raise_if_failed()


@pytest.mark.parametrize("heads", [1, 3, 6])
@pytest.mark.parametrize("spec", ["alibi", "rotary", "t5", "learned", "none"])
def test_other_numbers_of_heads_keep_the_contract(spec: str, heads: int) -> None:
    dims = lw.Dims(dim=heads * 8, heads=heads, head_dim=8, max_length=64)
    check_encoding(OfSpec(spec, dims), dims=dims).raise_if_failed()


def test_an_encoding_that_sizes_alone_do_not_make_has_an_example_of_itself() -> None:
    names = [make.label.partition("(")[0] for make in registered(DIMS)]
    assert names == list(lw.encodings.encodings)
