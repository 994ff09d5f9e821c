"""A bias of pairs by tiles, as one operator: what test_blocks.py asks of every road is not asked again here."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.library import opcheck
from torch.utils.flop_counter import FlopCounterMode

import lengthwise as lw
from lengthwise import PairBias, PairFunction, Positions
from lengthwise.bias import pair_functions
from lengthwise.errors import BackendRefused, InvalidArgument

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
    with pytest.raises(InvalidArgument, match=r"needs \[1 or 2, 4 query heads"):
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
    with pytest.raises(BackendRefused, match="backend='reference'"):
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


@pytest.mark.parametrize("backend", ["blocks", "toeplitz"])
def test_what_is_no_number_at_padding_reaches_no_token(backend: str, fire: lw.FIRE) -> None:
    """A cache may hold anything where nothing was written."""
    mask = torch.ones(2, 90, dtype=torch.bool)
    mask[0, :20] = False
    mask[1, 70:] = False
    q, k, v = (x.detach() for x in inputs(90))
    positions, encoding = Positions.padded(mask), fire if backend == "blocks" else lw.ALiBi(HEADS)
    wanted = lw.attention(q, k, v, encoding, positions, backend=backend)
    k, v = (x.masked_fill(~mask[:, None, :, None], torch.nan).requires_grad_() for x in (k, v))
    got = lw.attention(q, k, v, encoding, positions, backend=backend)
    assert torch.equal(got, wanted)
    assert all(torch.isfinite(grad).all() for grad in torch.autograd.grad(got.sum(), [k, v]))


@pytest.mark.parametrize("backend", ["blocks", "toeplitz"])
def test_a_backward_pass_within_autocast_is_none_the_worse(backend: str) -> None:
    torch.manual_seed(3)
    encoding = lw.FIRE(HEADS) if backend == "blocks" else lw.KERPLE(HEADS)
    q, k, v = inputs(90)
    leaves = [q, k, v, *encoding.parameters()]
    out = lw.attention(q * 30, k, v, encoding, backend=backend).square().sum()
    wanted = torch.autograd.grad(out, leaves, retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for got, right in zip(torch.autograd.grad(out, leaves), wanted, strict=True):
            assert torch.equal(got, right)


def test_operations_can_be_counted_in_the_backward_pass(fire: lw.FIRE) -> None:
    given = inputs(90)
    wanted = outcome("blocks", fire, given)
    with FlopCounterMode(display=False):
        for got, right in zip(outcome("blocks", fire, given), wanted, strict=True):
            torch.testing.assert_close(got, right)


@pytest.mark.parametrize("transposed", [False, True])
def test_the_operators_say_of_themselves_what_they_do(fire: lw.FIRE, transposed: bool) -> None:
    given = [x.transpose(1, 2).contiguous().transpose(1, 2) if transposed else x for x in inputs(90)]
    given = [x.detach().requires_grad_() for x in given]
    function = fire.logit_bias(Positions.sequence(90)).of_pair
    assert isinstance(function, PairFunction)
    row = torch.cat([x.flatten() for x in function.tensors]).detach().requires_grad_()
    shapes = [size for x in function.tensors for size in (x.dim(), *x.shape)]
    place = torch.arange(90)
    rest = (row, place, place, None, None, None, None, "fire", shapes, list(function.numbers), 0.3, True, -1)
    opcheck(torch.ops.lengthwise.tiles.default, (*given, *rest))
    with torch.no_grad():
        out, lse = torch.ops.lengthwise.tiles(*given, *rest)
        asked = torch.randn_like(out), out, lse, True, *given, *rest
        opcheck(torch.ops.lengthwise.tiles_backward.default, asked, test_utils=("test_schema", "test_faketensor"))


def test_tensors_that_a_function_does_not_use_get_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    def near(q: Tensor, k: Tensor, slopes: Tensor) -> Tensor:
        apart = q - k
        return torch.zeros(HEADS, *apart.shape) if apart.max() > 40 else slopes.view(-1, 1, 1) * apart

    monkeypatch.setitem(pair_functions, "near", near)
    positions, slopes = Positions.sequence(90), torch.ones(HEADS, requires_grad=True)
    bias = lw.PairBias(PairFunction("near", (slopes,)), positions)
    lw.attend(*inputs(90), bias, positions, backend="blocks").square().sum().backward()
    assert slopes.grad is not None
    assert slopes.grad.abs().min() > 0


def test_values_of_another_shape_are_refused_and_not_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pair_functions, "keys", lambda q, k: k.float().expand(HEADS, 1, -1))
    positions = Positions.sequence(90)
    bias = PairBias(PairFunction("keys", ()), positions)
    with pytest.raises(InvalidArgument, match="4 query heads, 16 queries, 16 keys"):
        lw.attend(*inputs(90), bias, positions, backend="blocks")


class _Clamped(PairFunction):
    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        return super().__call__(q, k).clamp(-1, 1)


@pytest.mark.parametrize("case", ["a subclass", "tensors of two dtypes", "two axes"])
def test_what_the_operator_can_not_say_goes_by_blocks(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_pair(q: Tensor, k: Tensor, slopes: Tensor, *_: Tensor) -> Tensor:
        apart = (q - k).float()
        apart = apart if case != "two axes" else apart.abs().sum(-1)
        return slopes.view(-1, 1, 1) * apart

    monkeypatch.setitem(pair_functions, "any", of_pair)
    slopes, axes = torch.tensor([-0.1, -0.2, -0.4, 0.3]), 2 if case == "two axes" else 1
    tensors = (slopes, torch.ones(1, dtype=torch.float64)) if case == "tensors of two dtypes" else (slopes,)
    made = _Clamped("any", tensors) if case == "a subclass" else PairFunction("any", tensors)
    positions = Positions.grid(9, 10) if axes == 2 else Positions.sequence(90)
    bias = PairBias(made, positions, axes)
    got, wanted = (lw.attend(*inputs(90), bias, positions, backend=way) for way in ("blocks", "reference"))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_huge_logits_make_no_weight_larger_than_one(fire: lw.FIRE) -> None:
    """Logits of some 1e7, of which float32 tells whole numbers only: formed twice, they are not quite the same."""
    q, k, v = inputs(90)
    got, wanted = (
        torch.autograd.grad(lw.attention(q * 3e3, k * 3e3, v, fire, backend=way).square().sum(), v)[0]
        for way in ("blocks", "reference")
    )
    assert (got - wanted).norm() < 0.5 * wanted.norm()  # without a limit it is several times as large
