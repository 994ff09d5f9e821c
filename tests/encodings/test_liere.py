from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions
from lengthwise.encodings.liere import LieRE

Close = Callable[..., None]
GRID = torch.cartesian_prod(torch.arange(3), torch.arange(5))  # [15, 2]: (row, column), row by row


def at(place: Tensor) -> Positions:
    return Positions(place[None], place[None], causal=False)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def drawn(*args: int, seed: int = 0, **settings: float) -> LieRE:
    torch.manual_seed(seed)
    return LieRE(*args, **settings)


def skew(encoding: LieRE, axis: int, head: int, block: int) -> Tensor:
    """U - U^T by its entries, row by row above the diagonal, float64."""
    size, out = encoding.block, torch.zeros(encoding.block, encoding.block, dtype=torch.float64)
    entries = iter(encoding.upper[axis, head, block].tolist())
    for row in range(size):
        for column in range(row + 1, size):
            out[row, column] = next(entries)
            out[column, row] = -out[row, column]
    return out


def exponential(matrix: Tensor) -> Tensor:
    """The exponential of a skew-symmetric matrix by its eigenvalues, another way than that of the encoding."""
    values, vectors = torch.linalg.eigh(1j * matrix)
    return ((vectors * torch.exp(-1j * values)) @ vectors.conj().T).real


@pytest.mark.parametrize("generators", [1, 2])
@pytest.mark.parametrize("far", [0, 2**20])
def test_each_block_is_multiplied_by_the_exponential_of_its_weighted_sum(generators: int, far: int) -> None:
    encoding = drawn(8, block=4, generators=generators, grid=3)
    x, place = normal(1, 4, 15, 8), GRID + far
    expected = torch.empty(1, 4, 15, 8, dtype=torch.float64)
    for h in range(4):
        for t, (row, column) in enumerate(place.tolist()):
            for b in range(2):
                head = h // 2 if generators == 2 else 0
                total = row / 3 * skew(encoding, 0, head, b) + column / 3 * skew(encoding, 1, head, b)
                here = slice(4 * b, 4 * b + 4)
                expected[0, h, t, here] = exponential(total) @ x[0, h, t, here].double()
    out = encoding.rotation(at(place)).q(x)
    torch.testing.assert_close(out.double(), expected, rtol=2e-6, atol=2e-6)


def test_matrices_are_rotations_and_position_zero_turns_nothing(close: Close) -> None:
    matrix = drawn(8, block=8).rotation(at(GRID)).q_matrix[0, 0, :, 0]
    close(matrix @ matrix.transpose(-1, -2), torch.eye(8).expand(15, 8, 8))
    close(torch.linalg.det(matrix), torch.ones(15))
    assert torch.equal(matrix[0], torch.eye(8))


@pytest.mark.parametrize("block", [2, 8])
def test_far_rotations_keep_norms_and_neighbours_are_told_apart(block: int) -> None:
    x = normal(1, 1, 1, 8).expand(1, 1, 15, 8)
    out = drawn(8, block=block).rotation(at(GRID + 2**20)).q(x)[0, 0]
    torch.testing.assert_close(out.norm(dim=-1), x[0, 0].norm(dim=-1), rtol=1e-6, atol=0)
    assert torch.cdist(out, out).fill_diagonal_(9).min() > 0.05


def products(encoding: LieRE, shift: tuple[int, int]) -> Tensor:
    matrix = encoding.rotation(at(GRID + torch.tensor(shift))).q_matrix[0, 0].double()
    return torch.einsum("ibxy,jbxz->ijbyz", matrix, matrix)


@pytest.mark.parametrize("shift", [(7, 0), (0, 7), (3, -5)])
def test_products_depend_on_differences_only_in_blocks_of_two_dims(shift: tuple[int, int], close: Close) -> None:
    pairs, whole = drawn(8, block=2), drawn(8, block=4)
    close(products(pairs, shift), products(pairs, (0, 0)), of=torch.float32)
    assert (products(whole, shift) - products(whole, (0, 0))).abs().max() > 0.1
    assert "translation_invariant" in lw.claims(pairs)
    assert "translation_invariant" not in lw.claims(whole)
    assert "translation_invariant" in lw.claims(LieRE(8, axes=1))
    assert "translation_invariant" not in lw.claims(LieRE(8))


def test_one_axis_is_a_relative_encoding_at_any_block(close: Close) -> None:
    encoding = drawn(8, axes=1)

    def product(start: int) -> Tensor:
        place = torch.arange(start, start + 6)
        matrix = encoding.rotation(Positions(place, place)).q_matrix[0, 0, :, 0]
        return torch.einsum("ixy,jxz->ijyz", matrix, matrix)

    close(product(100), product(0), times=2)


def test_entries_start_uniform_up_to_a_full_turn() -> None:
    entries = drawn(64).upper
    assert entries.shape == (2, 1, 1, 64 * 63 // 2)
    assert 0 <= entries.min() < 0.1
    assert 2 * math.pi - 0.1 < entries.max() < 2 * math.pi
    assert entries.mean().item() == pytest.approx(math.pi, rel=0.03)


def test_every_entry_learns_and_position_zero_is_no_obstacle() -> None:
    encoding = drawn(8, block=4, grid=4)
    weight = normal(2, 4, 4)
    (encoding.rotation(at(GRID)).q_matrix * weight).sum().backward()
    assert encoding.upper.grad is not None
    assert encoding.upper.grad.isfinite().all()
    assert (encoding.upper.grad != 0).all()


class Turned(nn.Module):
    """Queries turned by an encoding, as a module whose parameters can be put in."""

    def __init__(self, encoding: nn.Module) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, x: Tensor) -> Tensor:
        return self.encoding.rotation(at(GRID[:6])).q(x)


def test_gradients_of_a_float64_module_are_exact() -> None:
    turned, x = Turned(drawn(8, block=4, grid=4).double()), normal(1, 2, 6, 8).double()
    names = [name for name, _ in turned.named_parameters()]

    def of(*values: Tensor) -> Tensor:
        return torch.func.functional_call(turned, dict(zip(names, values, strict=True)), (x,))

    values = tuple(value.detach().clone().requires_grad_() for value in turned.parameters())
    assert of(*values).dtype == torch.float64
    assert torch.autograd.gradcheck(of, values, fast_mode=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"block": 3}, "block must be at least 2 and divide head_dim 8, and is 3"),
        ({"block": 1}, "and is 1"),
        ({"head_dim": 1}, "divide head_dim 1, and is 1"),
        ({"axes": 0}, "axes and generators must be at least 1, not 0 and 1"),
        ({"generators": 0}, "not 2 and 0"),
        ({"grid": 0.0}, "grid must be above 0, not 0.0: positions are divided by it"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        LieRE(**{"head_dim": 8} | settings)


def test_positions_of_another_number_of_axes_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed here"):
        LieRE(8).rotation(Positions.sequence(3))
    with pytest.raises(lw.InvalidArgument, match="positions of one axis are needed here"):
        LieRE(8, axes=1).rotation(at(GRID))
