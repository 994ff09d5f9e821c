from __future__ import annotations

import dataclasses

import pytest

from lengthwise import Dims, InvalidArgument

FIELDS = ("dim", "heads", "head_dim", "layers", "max_length")


def test_head_dim_follows_from_dim_and_heads_unless_given() -> None:
    assert Dims(dim=512, heads=8).head_dim == 64
    assert Dims(dim=512, heads=8, head_dim=128).head_dim == 128
    assert Dims(dim=10, heads=3, head_dim=4).head_dim == 4


SIZES = [(name, size) for name in FIELDS for size in (-1, 0, 2.0, "2", True, None) if (name, size) != ("head_dim", 0)]


@pytest.mark.parametrize(("name", "size"), SIZES)
def test_a_size_that_is_no_positive_whole_number_is_refused_by_name(name: str, size: object) -> None:
    sizes = {"dim": 64, "heads": 4, name: size}
    with pytest.raises(InvalidArgument, match=rf"Dims\.{name} must be a positive whole number, not "):
        Dims(**sizes)


def test_heads_that_do_not_divide_the_dim_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="5 heads do not divide dim 64: choose"):
        Dims(dim=64, heads=5)


def test_dims_are_fixed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dims(dim=64, heads=4).dim = 3
