from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import Positions, StickBreaking

Close = Callable[..., None]


def tensors(queries: int = 7, keys: int = 7, heads: int = 2, kv_heads: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, heads, queries, 4, generator=generator, dtype=torch.float64)
    return q, torch.randn(2, kv_heads, keys, 4, generator=generator, dtype=torch.float64)


def product_by_product(q: Tensor, k: Tensor, positions: Positions, current: bool) -> Tensor:
    """Weights from the paper's formula, plain products; keys stand in order and the queries are the last."""
    visible, past = positions.visible(), k.shape[2] - q.shape[2]
    out = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.float64)
    for b in range(q.shape[0]):
        mask = visible if visible.dim() == 2 else visible[b % visible.shape[0]]
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                left = 1.0
                for j in reversed(range(i + past + current)):
                    if mask[i, j]:
                        part = 1 / (1 + math.exp(-float(q[b, h, i] @ k[b, h, j]) / 2))
                        out[b, h, i, j] = left * part
                        left *= 1 - part
    return out


PLACES = {
    "a sequence": lambda: Positions.sequence(7),
    "a step": lambda: Positions.step(4, 3),
    "a window": lambda: Positions.sequence(7).replace(window=2),
    "padding": lambda: Positions.padded(torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 0, 1, 0, 0]])),
    "documents": lambda: Positions.packed([3, 0, 1, 3]),
}


@pytest.mark.parametrize("current", [False, True])
@pytest.mark.parametrize("place", PLACES)
def test_weights_are_the_products_of_the_paper(place: str, current: bool, close: Close) -> None:
    positions, encoding = PLACES[place](), StickBreaking(attend_current=current)
    q, k = tensors(queries=positions.q_length)
    weights = lw.attention_weights(q, k, encoding, positions)
    close(weights, product_by_product(q, k, positions, current))
    close(weights.sum(-1) + encoding.remainder(q, k, positions, 0.5), torch.ones(weights.shape[:3]).double())


def test_weights_are_those_of_the_formula_sheet() -> None:
    q, k = torch.ones(1, 1, 1, 1).double(), torch.tensor([0.2, 0.3, 0.4, 7.0]).double().view(1, 1, 4, 1)
    encoding, positions = StickBreaking(), Positions.step(3)
    weights = encoding.attention_logits(q, k, positions, 1.0).exp()[0, 0, 0]
    expected = torch.tensor([0.093901458, 0.230530871, 0.59868766, 0.0], dtype=torch.float64)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-8)
    assert encoding.remainder(q, k, positions, 1.0).item() == pytest.approx(0.0768800114, abs=1e-9)


def test_the_output_is_the_sum_of_values_without_a_softmax(close: Close) -> None:
    q, k = tensors()
    positions = Positions.sequence(7)
    out = lw.attention(q, k, k, StickBreaking(), positions)
    close(out, product_by_product(q, k, positions, False) @ k)
    assert not out[:, :, 0].any()  # the first token sees nothing but itself


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("current", [False, True])
def test_keys_in_another_order_have_the_weights_of_their_own(rows: bool, current: bool, close: Close) -> None:
    encoding, (q, k) = StickBreaking(current), tensors()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    other = torch.tensor([6, 5, 0, 1, 2, 4, 3])
    orders = torch.stack((order, other)) if rows else order[None].expand(2, -1)
    mixed_q, mixed_k = (torch.stack([x[b][:, orders[b]] for b in range(2)]) for x in (q, k))
    kept = orders if rows else order
    positions = Positions(kept, kept, q_order=kept, k_order=kept)
    whole = encoding.attention_logits(q, k, Positions.sequence(7), 0.5).exp()
    expected = torch.stack([whole[b][:, orders[b]][:, :, orders[b]] for b in range(2)])
    close(encoding.attention_logits(mixed_q, mixed_k, positions, 0.5).exp(), expected)


@pytest.mark.parametrize("place", PLACES)
def test_gradients_are_those_of_the_weights_and_never_nan(place: str) -> None:
    positions = PLACES[place]()
    q, k = tensors(queries=positions.q_length)

    def out(q: Tensor, k: Tensor) -> Tensor:
        return lw.attention(q, k, k, StickBreaking(), positions)

    assert torch.autograd.gradcheck(out, (q.requires_grad_(), k.requires_grad_()), fast_mode=True)


def test_rows_that_see_nothing_are_minus_infinity_with_gradients_of_zero() -> None:
    q, k = (x.requires_grad_() for x in tensors())
    positions = Positions.padded(torch.zeros(2, 7).long())
    logits = StickBreaking().attention_logits(q, k, positions, 0.5)
    assert (logits == float("-inf")).all()
    logits.exp().sum().backward()
    assert not q.grad.any()
    assert (StickBreaking().remainder(q, k, positions, 0.5) == 1).all()


def test_large_logits_stay_finite_in_half_precision_with_their_gradients() -> None:
    q = torch.full((1, 1, 5, 4), 100.0, dtype=torch.float16, requires_grad=True)
    k = torch.full((1, 1, 5, 4), 100.0, dtype=torch.float16) * torch.tensor([1, -1, 1, -1, 1])[:, None]
    positions = Positions.sequence(5)
    logits = StickBreaking().attention_logits(q, k, positions, 0.5)
    below = torch.ones(5, 5).tril(-1).bool()
    assert logits.dtype == torch.float32
    assert logits[..., below].isfinite().all()
    lw.attention(q, k, k, StickBreaking(), positions).sum().backward()
    assert q.grad.isfinite().all()


def test_a_remainder_far_below_rounding_is_exact(close: Close) -> None:
    q, k = torch.ones(1, 1, 1, 1), torch.full((1, 1, 5, 1), 20.0)
    remainder = StickBreaking().remainder(q, k, Positions.step(4), 1.0)
    close(remainder.double().log(), torch.full((1, 1, 1), -4 * math.log1p(math.exp(20.0))).double(), of=torch.float32)


def test_grouped_keys_are_the_keys_of_each_query_head_written_out() -> None:
    encoding, (q, k) = StickBreaking(), tensors(heads=4)
    grouped = encoding.attention_logits(q, k, Positions.sequence(7), 0.5)
    assert torch.equal(grouped, encoding.attention_logits(q, k.repeat_interleave(2, 1), Positions.sequence(7), 0.5))


def test_no_keys_at_all_are_served() -> None:
    q = torch.zeros(1, 1, 0, 4)
    for positions in (Positions.sequence(0), Positions(*[torch.arange(0)] * 2, k_order=torch.arange(0))):
        assert StickBreaking().attention_logits(q, q, positions, 1.0).shape == (1, 1, 0, 0)


def test_without_causality_it_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="StickBreaking is made for causal attention"):
        lw.prepare(StickBreaking(), Positions.sequence(3, causal=False))
