"""A bias of pairs by tiles, as one operator: what test_blocks.py asks of every road is not asked again here."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import PairBias, PairFunction, Positions
from lengthwise.bias import pair_functions
from lengthwise.errors import InvalidArgument

HEADS = 4


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of 16 by 32 pairs of a batch of 2, so that small tests meet several."""
    monkeypatch.setattr(sys.modules["lengthwise.attention.tiles"], "_PAIRS", 2 * HEADS * 16 * 32)
    monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", 2 * HEADS * 16 * 32)


@pytest.fixture
def fire() -> lw.FIRE:
    torch.manual_seed(3)
    return lw.FIRE(HEADS, threshold=20)


@pytest.fixture
def formed() -> Iterator[list[int]]:
    """How many pairs each call of the function "sloped" has formed."""

    def sloped(q: Tensor, k: Tensor, slopes: Tensor, unit: float) -> Tensor:
        calls.append((q - k).numel())
        return slopes.view(-1, *[1] * (q - k).dim()) * (q - k).abs().sqrt() / unit

    calls: list[int] = []
    pair_functions["sloped"] = sloped
    yield calls
    del pair_functions["sloped"]


def inputs(length: int, dtype: torch.dtype = torch.float32, kv_heads: int = HEADS, value: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)
    shapes = (2, HEADS, length, 8), (2, kv_heads, length, 8), (2, kv_heads, length, value)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def outcome(
    backend: str, encoding: nn.Module, given: list[Tensor], positions: Positions | None = None
) -> tuple[Tensor, ...]:
    out = lw.attention(*given, encoding, positions, backend=backend)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1)).to(out.dtype)
    return out, *torch.autograd.grad(out, [*given, *encoding.parameters()], grad)


@pytest.mark.parametrize("window", [0, 7, 40])
def test_a_window_gives_what_the_reference_gives(fire: lw.FIRE, window: int) -> None:
    positions = Positions.sequence(90).replace(window=window)
    for got, wanted in zip(
        outcome("blocks", fire, inputs(90), positions), outcome("reference", fire, inputs(90), positions), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("value", [5, 8, 13])
@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_shared_keys_and_values_of_another_width_get_their_gradients(fire: lw.FIRE, kv_heads: int, value: int) -> None:
    given = inputs(70, torch.float64, kv_heads, value)
    fire.double()
    for got, wanted in zip(outcome("blocks", fire, given), outcome("reference", fire, given), strict=True):
        torch.testing.assert_close(got, wanted)


def test_bf16_is_as_near_as_the_rounding_of_its_result(fire: lw.FIRE) -> None:
    given = inputs(120, torch.bfloat16)
    exact = [x.detach().double().requires_grad_() for x in given]
    for got, wanted in zip(outcome("blocks", fire, given), outcome("reference", fire, exact), strict=True):
        torch.testing.assert_close(got.double(), wanted.double(), rtol=2**-7, atol=4e-3)


def test_autocast_narrows_the_queries_and_not_the_bias(fire: lw.FIRE) -> None:
    given = inputs(100)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = lw.attention(*given, fire, backend="blocks")
    wanted = lw.attention(*(x.bfloat16() for x in given), fire, backend="blocks")
    assert got.dtype == torch.bfloat16
    assert torch.equal(got, wanted)


def test_no_more_pairs_are_formed_at_a_time_than_a_tile_has(formed: list[int]) -> None:
    class Sloped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slopes = nn.Parameter(torch.tensor([-0.1, -0.2, -0.4, 0.3]))

        def logit_bias(self, positions: Positions) -> PairBias:
            return PairBias(PairFunction("sloped", (self.slopes,), (2.0,)), positions)

    encoding, given = Sloped(), inputs(100)
    wanted = outcome("reference", encoding, given)
    formed.clear()
    for got, right in zip(outcome("blocks", encoding, given), wanted, strict=True):
        torch.testing.assert_close(got, right, rtol=1e-4, atol=1e-5)
    assert max(formed) == 16 * 32
    seen = sum(-(-min(start + 16, 100) // 32) for start in range(0, 100, 16))
    assert len(formed) == 2 * seen  # forward and backward, and none above the diagonal


def test_a_function_that_nobody_named_is_told_at_once() -> None:
    with pytest.raises(InvalidArgument, match=r"no function of pairs is called 'fir': pair_functions has .*'fire'"):
        PairFunction("fir", ())


def test_a_bias_of_other_heads_is_refused_and_not_spread() -> None:
    with pytest.raises(InvalidArgument, match="1 heads, and this attention of 2 and 4"):
        lw.attention(*inputs(90), lw.FIRE(1), backend="blocks")


def test_a_frozen_network_lets_the_gradients_of_the_queries_through(fire: lw.FIRE) -> None:
    given = inputs(80)
    grad = torch.ones(2, HEADS, 80, 8)
    wanted = torch.autograd.grad(lw.attention(*given, fire, backend="reference"), given, grad)
    fire.requires_grad_(False)
    got = torch.autograd.grad(lw.attention(*given, fire, backend="blocks"), given, grad)
    for mine, right in zip(got, wanted, strict=True):
        torch.testing.assert_close(mine, right, rtol=1e-4, atol=1e-5)


def test_a_second_derivative_is_refused_with_the_backend_that_has_it(fire: lw.FIRE) -> None:
    given = inputs(80)
    with pytest.raises(NotImplementedError, match="backend='reference'"):
        torch.autograd.grad(lw.attention(*given, fire, backend="blocks").sum(), given, create_graph=True)


def test_a_row_that_sees_nothing_gives_zeros_and_no_nan(fire: lw.FIRE) -> None:
    mask = torch.ones(2, 90, dtype=torch.bool)
    mask[0, :50] = False
    out, *grads = outcome("blocks", fire, inputs(90), Positions.padded(mask))
    assert not out[0, :, :50].any()
    assert all(torch.isfinite(grad).all() for grad in grads)


def test_a_tile_in_which_the_bias_bars_all_keys_of_a_row_adds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def near(q: Tensor, k: Tensor, slopes: Tensor) -> Tensor:
        return slopes.view(-1, 1, 1).masked_fill(q - k > 5, -torch.inf)

    class Near(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.slopes = nn.Parameter(torch.tensor([-0.1, -0.2, -0.4, 0.3]))

        def logit_bias(self, positions: Positions) -> PairBias:
            return PairBias(PairFunction("near", (self.slopes,)), positions)

    monkeypatch.setitem(pair_functions, "near", near)
    for got, wanted in zip(
        outcome("blocks", Near(), inputs(90)), outcome("reference", Near(), inputs(90)), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
