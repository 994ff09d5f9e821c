from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions
from lengthwise.encodings.comrope import ComRoPE
from lengthwise.query_key import MatrixRotation
from lengthwise.rotation import Rotation

Close = Callable[..., None]
GRID = torch.cartesian_prod(torch.arange(3), torch.arange(5))  # [15, 2]: (row, column), row by row
KINDS = [("ld", 2), ("ld", 4), ("ap", 2), ("ap", 4)]


def at(place: Tensor) -> Positions:
    return Positions(place[None], place[None], causal=False)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def drawn(variant: str = "ld", block: int = 2, seed: int = 0, **settings: float) -> ComRoPE:
    torch.manual_seed(seed)
    return ComRoPE(kv_heads=2, head_dim=8, variant=variant, block=block, **settings)


def exponential(matrix: Tensor) -> Tensor:
    """The exponential of a skew-symmetric matrix by its eigenvalues, another way than that of the encoding."""
    values, vectors = torch.linalg.eigh(1j * matrix)
    return ((vectors * torch.exp(-1j * values)) @ vectors.conj().T).real


@pytest.mark.parametrize(("variant", "block"), KINDS)
@pytest.mark.parametrize("far", [0, 2**20])
def test_blocks_are_multiplied_by_the_exponential_of_their_generators(variant: str, block: int, far: int) -> None:
    encoding = drawn(variant, block, grid=3.0)
    x, place = normal(1, 4, 15, 8), GRID + far
    expected = torch.empty(1, 4, 15, 8, dtype=torch.float64)
    for h in range(4):
        for t, point in enumerate(place.tolist()):
            for b in range(8 // block):
                s = encoding.generators.detach().double()[h // 2, b]
                total = torch.zeros(block, block, dtype=torch.float64)
                for axis in range(2):
                    active = 1.0 if b % 2 == axis else 0.0
                    mu = encoding.weights[axis, b].item() if variant == "ld" else active
                    total += point[axis] / 3 * mu * (s - s.T)
                here = slice(block * b, block * (b + 1))
                expected[0, h, t, here] = exponential(total) @ x[0, h, t, here].double()
    out = encoding.rotation(at(place)).q(x)
    torch.testing.assert_close(out.double(), expected, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize(("variant", "block"), [*KINDS, ("ld", 8)])
@pytest.mark.parametrize("shift", [(7, 0), (0, 7), (1000, -500)])
def test_shifts_along_either_axis_leave_the_logits_as_they_are(
    variant: str, block: int, shift: tuple[int, int], close: Close
) -> None:
    encoding, q, k = drawn(variant, block), normal(1, 4, 15, 8).double(), normal(1, 2, 15, 8).double()

    def logits(place: Tensor) -> Tensor:
        turned_q, turned_k = encoding.rotation(at(place))(q, k)
        return turned_q @ turned_k.repeat_interleave(2, 1).transpose(-1, -2)

    close(logits(GRID + torch.tensor(shift)), logits(GRID), of=torch.float32)


@pytest.mark.parametrize(("variant", "block"), KINDS)
def test_norms_are_kept_and_neighbours_are_told_apart_far_out(variant: str, block: int) -> None:
    x = normal(1, 2, 1, 8).expand(1, 2, 15, 8)
    out = drawn(variant, block).rotation(at(GRID + 2**20)).q(x)
    torch.testing.assert_close(out.norm(dim=-1), x.norm(dim=-1), rtol=1e-6, atol=0)
    flat = out[0].transpose(0, 1).flatten(1)
    assert torch.cdist(flat, flat).fill_diagonal_(9).min() > 0.05


def test_blocks_of_two_are_an_ordinary_rotation_and_larger_ones_are_not() -> None:
    assert isinstance(drawn(block=2).rotation(at(GRID)), Rotation)
    assert isinstance(drawn(block=4).rotation(at(GRID)), MatrixRotation)


def test_one_axis_of_fixed_generators_is_rope(close: Close) -> None:
    encoding = ComRoPE(kv_heads=1, head_dim=8, axes=1, variant="ap")
    with torch.no_grad():
        encoding.generators.zero_()
        encoding.generators[0, :, 1, 0] = 10000.0 ** (-torch.arange(4) / 4)
    x, positions = normal(1, 2, 20, 8), Positions.sequence(20)
    close(encoding.rotation(positions).q(x), lw.Rotary(8, layout="interleaved").rotation(positions).q(x))


def test_one_axis_alone_moves_only_the_blocks_that_serve_it() -> None:
    x = normal(1, 2, 1, 8)
    encoding = drawn("ap")
    for axis in range(2):
        place = torch.zeros(1, 2, dtype=torch.int64)
        place[0, axis] = 1
        moved = (encoding.rotation(at(place)).q(x) != x).all(dim=1).flatten().unflatten(0, (4, 2))
        assert moved.all(dim=1).tolist() == [b % 2 == axis for b in range(4)]


def test_generators_start_normal_with_their_deviation_and_weights_standard_normal() -> None:
    torch.manual_seed(0)
    encoding = ComRoPE(kv_heads=40, head_dim=64, init_std=0.5)
    assert encoding.generators.std().item() == pytest.approx(0.5, rel=0.05)
    torch.manual_seed(0)
    assert ComRoPE(kv_heads=1, head_dim=2000).weights.std().item() == pytest.approx(1.0, rel=0.05)
    assert ComRoPE(1, 8, variant="ap").weights is None


@pytest.mark.parametrize(("variant", "block"), KINDS)
def test_all_that_is_learned_has_a_gradient(variant: str, block: int) -> None:
    encoding = drawn(variant, block, grid=4.0)
    q, k = encoding.rotation(at(GRID))(normal(1, 2, 15, 8), normal(1, 2, 15, 8) + 1)
    (q @ k.transpose(-1, -2)).square().sum().backward()
    for parameter in encoding.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().amax(dim=(-1, -2)).min() > 0


class Turned(nn.Module):
    """Queries turned by an encoding, as a module whose parameters can be put in."""

    def __init__(self, encoding: nn.Module) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, x: Tensor) -> Tensor:
        return self.encoding.rotation(at(GRID[:6])).q(x)


@pytest.mark.parametrize(("variant", "block"), KINDS)
def test_gradients_of_a_float64_module_are_exact(variant: str, block: int) -> None:
    turned, x = Turned(drawn(variant, block, grid=4.0).double()), normal(1, 2, 6, 8).double()
    names = [name for name, _ in turned.named_parameters()]

    def of(*values: Tensor) -> Tensor:
        return torch.func.functional_call(turned, dict(zip(names, values, strict=True)), (x,))

    values = tuple(value.detach().clone().requires_grad_() for value in turned.parameters())
    assert of(*values).dtype == torch.float64
    assert torch.autograd.gradcheck(of, values, fast_mode=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kv_heads": 0}, "kv_heads and axes must be at least 1, not 0 and 2"),
        ({"axes": 0}, "not 2 and 0"),
        ({"block": 3}, "block must be at least 2 and divide head_dim 8, and is 3"),
        ({"block": 1}, "and is 1"),
        ({"variant": "lp"}, r"unknown variant 'lp': did you mean 'ld' or 'ap'\?"),
        ({"variant": "ap", "block": 8}, "each of 2 axes needs a block of its own, and there are 1: smaller ones?"),
        ({"grid": 0.0}, "grid must be above 0 and init_std at least 0, not 0.0 and 1.0"),
        ({"init_std": -1.0}, "and -1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        ComRoPE(**{"kv_heads": 2, "head_dim": 8} | settings)


def test_positions_of_another_number_of_axes_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed here"):
        drawn().rotation(Positions.sequence(3))
