from __future__ import annotations

import math

import pytest
import torch

import lengthwise as lw
from lengthwise import Positions, Window


def test_so_many_tokens_back_are_seen_and_the_token_itself_is_not_counted() -> None:
    bias = Window(2, heads=1).logit_bias(Positions.sequence(6)).dense()[0]
    seen = (bias == 0) & Positions.sequence(6).visible()
    assert seen.sum(-1).tolist() == [1, 2, 3, 3, 3, 3]
    assert bias[5].tolist() == [-math.inf, -math.inf, -math.inf, 0, 0, 0]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("window", [0, 1, 3, 100])
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_attention_is_that_of_positions_with_the_same_window(causal: bool, window: int, backend: str) -> None:
    q = torch.randn(2, 3, 9, 4, generator=torch.Generator().manual_seed(0))
    positions = Positions.sequence(9, causal=causal)
    out = lw.attention(q, q, q, Window(window, heads=3), positions, backend=backend)
    masked = lw.attention(q, q, q, None, positions.replace(window=window), backend="reference")
    torch.testing.assert_close(out, masked)


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_padded_rows_and_gradients_stay_finite(backend: str) -> None:
    q = torch.randn(2, 2, 5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    positions = Positions.padded(torch.tensor([[0, 0, 0, 1, 1], [1, 1, 1, 1, 1]]))
    out = lw.attention(q, q, q, Window(1, heads=2), positions, backend=backend)
    out.square().sum().backward()
    assert out.isfinite().all()
    assert q.grad.isfinite().all()
    alone = lw.attention(*[q[:1, :, 3:]] * 3, Window(1, heads=2), backend=backend)
    torch.testing.assert_close(out[:1, :, 3:], alone)


def test_the_edge_is_sharp_far_away_and_for_fractions() -> None:
    encoding = Window(2**20, heads=2).bfloat16()
    bias = encoding.of_distance(torch.tensor([2**20 - 1, 2**20, 2**20 + 1, -(2**20), -(2**20) - 1]))
    assert bias.dtype == torch.float32
    assert bias.tolist() == [[0, 0, -math.inf, 0, -math.inf]] * 2
    assert Window(1, heads=1).of_distance(torch.tensor([[1.0], [1.001]])).tolist() == [[[0], [-math.inf]]]


def test_distance_is_that_of_positions_and_not_of_order() -> None:
    place = torch.tensor([0, 0, 1, 5])
    bias = Window(1, heads=1).logit_bias(Positions(place, place)).dense()[0]
    assert (bias[2] == 0).tolist() == [True, True, True, False]
    assert (bias[3] == 0).tolist() == [False, False, False, True]


def test_build_takes_the_window_from_the_spec_and_the_heads_from_the_model() -> None:
    dims = lw.Dims(dim=16, heads=4)
    assert repr(lw.build("window(7)", dims)) == repr(lw.build("window(window=7)", dims)) == "Window(window=7, heads=4)"
    assert isinstance(lw.build(Window.example, dims), Window)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": -1, "heads": 1}, r"window must be at least 0 \(a token then sees itself only\), not -1"),
        ({"window": 1, "heads": 0}, "Window needs at least 1 head, not 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        Window(**settings)
