"""A bias of few features as extra features of queries and keys: equal to the reference."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import LowRankBias, Positions

Close = Callable[..., None]
HEADS = 2


def features(length: int, rank: int, lead: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    q, k = (torch.randn(*lead, HEADS, length, rank, generator=generator).to(dtype) for _ in range(2))
    row = torch.randn(*lead, HEADS, length, generator=generator).to(dtype)
    return q.requires_grad_(), k.requires_grad_(), row.requires_grad_()


def run(backend: str, bias: LowRankBias, leaves: list[Tensor], length: int, dtype: torch.dtype) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(2, HEADS, length, width, generator=generator).to(dtype).requires_grad_() for width in (6, 6, 5)
    )
    out = lw.attend(q, k, v, bias, backend=backend)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), [q, k, v, *leaves])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("lead", [(), (2,)])
@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 200])
def test_outputs_and_gradients_are_those_of_the_reference(
    length: int, rank: int, lead: tuple[int, ...], dtype: torch.dtype, close: Close, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["lengthwise.attention.low_rank"], "_ROWS", 64)
    q, k, row = features(length, rank, lead, dtype)
    bias = LowRankBias(q, k, row)
    fast = run("low_rank", bias, [q, k], length, dtype)
    for one, right in zip(fast, run("reference", bias, [q, k], length, dtype), strict=True):
        close(one, right, times=8 * max(1.0, float(right.abs().max())))


def test_features_grown_far_keep_their_digits_by_the_centre_of_each_block(
    close: Close, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Sums of a gate over a million tokens: without a centre float32 would know neighbours to a sixteenth only.
    monkeypatch.setattr(sys.modules["lengthwise.attention.low_rank"], "_ROWS", 64)
    sums = 1_000_000 + torch.arange(200, dtype=torch.float64) / 8
    ones = torch.ones(HEADS, 200, 1, dtype=torch.float64)
    bias = LowRankBias(ones, -sums.expand(HEADS, 200).unsqueeze(-1), sums.expand(HEADS, 200), torch.float32)
    q = torch.randn(1, HEADS, 200, 4, generator=torch.Generator().manual_seed(0))
    close(lw.attend(q, q, q, bias, backend="low_rank"), lw.attend(q, q, q, bias, backend="reference"), times=4)


def test_it_is_chosen_for_gates_and_says_what_it_can_not_take() -> None:
    torch.manual_seed(0)
    fox = lw.build("fox", lw.Dims(dim=16, heads=HEADS))
    hidden, q = torch.zeros(1, 300, 16), torch.zeros(1, HEADS, 300, 8)
    assert lw.explain_attention(q, q, q, fox, hidden=hidden).chosen == "low_rank"
    padded = Positions.padded(torch.tensor([[0] * 100 + [1] * 200]))
    cases: list[tuple[Tensor, Positions | None, dict[str, float], str]] = [
        (q.bfloat16(), None, {}, "rounded to the queries' dtype"),
        (q, padded, {}, "plain causal positions"),
        (q, None, {"scale": 0.0}, "divided by the scale"),
        (q, None, {"dropout": 0.1}, "no dropout"),
    ]
    for x, positions, settings, message in cases:
        with pytest.raises(lw.BackendRefused, match=message):
            lw.attention(x, x, x, fox, positions, hidden=hidden, backend="low_rank", **settings)
    with pytest.raises(lw.BackendRefused, match="no product of features"):
        lw.attention(q, q, q, lw.ALiBi(HEADS), backend="low_rank")
