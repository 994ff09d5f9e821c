"""Sizes that do not fit together are refused with what would."""

from __future__ import annotations

import pytest

import lengthwise as lw
from lengthwise.models import ModelConfig


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"dim": 10, "heads": 4}, "4 heads do not divide dim 10"),
        ({"heads": 4, "kv_heads": 3}, "3 kv_heads do not divide the 4 heads"),
        ({"dim": 0}, "dim must be at least 1, not 0"),
        ({"layers": 0}, "layers must be at least 1, not 0"),
        ({"heads": 0}, "heads must be at least 1, not 0"),
        ({"vocabulary": -1}, "vocabulary must not be negative"),
        ({"hidden": -1}, "hidden must not be negative"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), not 1.0"),
        ({"dropout": -0.1}, "dropout must be in"),
    ],
)
def test_a_size_that_does_not_fit_is_refused(arguments: dict[str, int], said: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=said):
        ModelConfig(**arguments)


def test_dims_are_those_of_the_model() -> None:
    dims = ModelConfig(dim=48, heads=6, layers=3).dims(max_length=77)
    assert dims == lw.Dims(dim=48, heads=6, head_dim=8, layers=3, max_length=77)


def test_a_vocabulary_that_was_given_is_kept() -> None:
    assert ModelConfig().for_vocabulary(9).vocabulary == 9
    assert ModelConfig(vocabulary=5).for_vocabulary(9).vocabulary == 5
