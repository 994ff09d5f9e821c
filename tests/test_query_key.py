"""Maps of queries and keys: angles that differ between heads, matrices, several in a row."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.query_key import Composed, MatrixRotation, QueryKeyMap
from lengthwise.rotation import Layout, Rotation

Close = Callable[..., None]


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("layout", ["half", "interleaved"])
@pytest.mark.parametrize("length", [5, 5000])  # by calls, and by memory
def test_heads_with_angles_of_their_own_turn_as_each_would_alone(layout: Layout, length: int, close: Close) -> None:
    angles, x = normal(1, 2, length, 8), normal(2, 4, length, 18)
    together = Rotation.of_angles(angles, angles, layout).q(x)
    for head in range(4):
        alone = angles[0, head // 2]  # query heads 0 and 1 share key head 0
        close(together[:, head : head + 1], Rotation.of_angles(alone, alone, layout).q(x[:, head : head + 1]))


def test_angles_of_heads_get_the_gradients_of_all_query_heads_that_share_them() -> None:
    angles, x = normal(1, 2, 3, 2).double().requires_grad_(), normal(2, 4, 3, 4).double()

    def turn(angles: Tensor) -> Tensor:
        cos, sin = angles.cos(), angles.sin()
        return Rotation(cos, sin, cos, sin).q(x)

    assert torch.autograd.gradcheck(turn, (angles,))


def test_angles_for_more_heads_than_there_are_are_refused() -> None:
    rotation = Rotation.of_angles(torch.zeros(1, 3, 5, 2), torch.zeros(1, 3, 5, 2))
    with pytest.raises(InvalidArgument, match="a multiple of 3 heads"):
        rotation.q(torch.zeros(1, 4, 5, 4))


@pytest.mark.parametrize("lead", [(), (1, 2), (2, 1)])
def test_a_matrix_rotation_multiplies_each_run_of_dims_and_leaves_the_rest(lead: tuple[int, ...], close: Close) -> None:
    matrix, x = normal(*lead, 5, 3, 4, 4), normal(2, 4, 5, 14)
    out = MatrixRotation(matrix, matrix).q(x)
    assert torch.equal(out[..., 12:], x[..., 12:])
    full = (
        matrix.expand(*(lead or (1, 1)), 5, 3, 4, 4)
        .expand(2, -1, -1, -1, -1, -1)
        .repeat_interleave(4 // (lead or (1, 1))[1], dim=1)
    )
    close(out[..., :12], torch.einsum("bhlnij,bhlnj->bhlni", full, x[..., :12].unflatten(-1, (3, 4))).flatten(-2))


def test_a_matrix_rotation_of_narrow_tensors_is_rounded_once(close: Close) -> None:
    matrix, x = normal(5, 2, 4, 4), normal(1, 2, 5, 8).bfloat16()
    out = MatrixRotation(matrix, matrix).q(x)
    assert out.dtype == torch.bfloat16
    assert torch.equal(out, MatrixRotation(matrix, matrix).q(x.float()).bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(out, MatrixRotation(matrix, matrix).q(x))


@pytest.mark.parametrize("shape", [(1, 2, 4, 8), (1, 2, 5, 7), (2, 5, 8)])
def test_matrices_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument, match="do not fit"):
        MatrixRotation(torch.zeros(5, 2, 4, 4), torch.zeros(5, 2, 4, 4)).q(torch.zeros(shape))


def test_composed_maps_act_in_order_on_queries_and_keys(close: Close) -> None:
    angles = normal(5, 4)
    turn, stretch = Rotation.of_angles(angles, 2 * angles), MatrixRotation(normal(5, 2, 4, 4), normal(5, 2, 4, 4))
    both: QueryKeyMap = Composed((turn, stretch))
    q, k = normal(1, 2, 5, 8), normal(1, 1, 5, 8)
    close(both(q, k)[0], stretch.q(turn.q(q)))
    close(both(q, k)[1], stretch.k(turn.k(k)))
    assert all(isinstance(one, QueryKeyMap) for one in (turn, stretch, both))
