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
