from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import lengthwise as lw
from lengthwise import Positions
from lengthwise.extension import move_keys

DIMS = lw.Dims(dim=32, heads=2, max_length=64)
OLD = torch.arange(10)


def at(place: torch.Tensor) -> Positions:
    return Positions(place, place, causal=False)


@pytest.mark.parametrize(
    "spec",
    [
        "rotary",
        "rotary(layout='interleaved', fraction=0.5)",
        "rotary + interpolate(factor=4)",
        "rotary + yarn(factor=4)",
    ],
)
@pytest.mark.parametrize("by", [5, -7, torch.arange(10) * 3, torch.tensor([[4], [-2]]).expand(2, 10)])
def test_moved_keys_are_keys_rotated_at_their_new_positions(
    spec: str, by: int | torch.Tensor, close: Callable[..., None]
) -> None:
    encoding = lw.build(spec, DIMS)
    keys = torch.randn(2, 1, 10, 16, generator=torch.Generator().manual_seed(0))
    moved = move_keys(encoding.rotation(at(OLD)).k(keys), encoding, by)
    close(moved, encoding.rotation(at(OLD + by)).k(keys))


def test_the_attention_factor_of_yarn_is_not_applied_again() -> None:
    yarn = lw.build("rotary + yarn(factor=4)", DIMS)
    keys = yarn.rotation(at(OLD)).k(torch.randn(1, 1, 10, 16))
    torch.testing.assert_close(move_keys(keys, yarn, 3).norm(dim=-1), keys.norm(dim=-1))


def test_an_encoding_of_several_axes_moves_keys_along_each(close: Callable[..., None]) -> None:
    encoding = lw.build("mrope", lw.Dims(dim=128, heads=2))
    place, by = torch.randint(0, 9, (1, 10, 3)), torch.tensor([[[1, 0, -2]]]).expand(1, 10, 3)
    keys = torch.randn(1, 1, 10, 64)
    moved = move_keys(encoding.rotation(at(place)).k(keys), encoding, by)
    close(moved, encoding.rotation(at(place + by)).k(keys))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("alibi", "rotates no keys"),
        ("xpos", "keys that are raw"),
        ("rotary + dynamic_ntk(factor=2)", "rotated_at_target_length"),
        ("rotary + self_extend(group=2, window=4)", "rotates no keys"),
        ("fope", "not rotate by distance alone"),
        ("temperature", "not rotate by distance alone"),
    ],
)
def test_keys_that_a_rotation_can_not_move_are_an_error_that_says_why(spec: str, message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        move_keys(torch.randn(1, 1, 10, 16), lw.build(spec, DIMS), 1)
