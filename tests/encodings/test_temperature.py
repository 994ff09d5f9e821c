from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from transformers import Llama4TextConfig
from transformers.models.llama4.modeling_llama4 import Llama4TextAttention

import lengthwise as lw
from lengthwise import Positions, QueryTemperature

Close = Callable[..., None]


def factor(place: list[int], **settings: float) -> torch.Tensor:
    return QueryTemperature(**settings).rotation(Positions(torch.tensor(place), torch.tensor(place))).factor


def test_factors_equal_the_numbers_of_the_formula_sheet() -> None:
    expected = torch.tensor([1.0, 1.0, 1.06931472, 1.10986123, 1.28332133])
    torch.testing.assert_close(factor([0, 8190, 8191, 16383, 131071]), expected, rtol=1e-7, atol=0)


def test_without_the_offset_the_steps_begin_one_later() -> None:
    expected = torch.tensor([1.0, 1.06931472, 1.06931472, 1.10986123])
    torch.testing.assert_close(factor([8191, 8192, 16383, 16384], offset=0), expected, rtol=1e-7, atol=0)


def test_the_step_of_every_position_is_that_of_whole_numbers() -> None:
    place = [*range(50), 2**24 - 2, 2**24 - 1, 2**24]
    expected = [1 + 0.3 * math.log(1 + (p + 1) // 4) for p in place]
    torch.testing.assert_close(factor(place, floor=4, scale=0.3), torch.tensor(expected), rtol=1e-6, atol=0)


def test_the_defaults_are_those_of_llama_4_in_transformers() -> None:
    config = Llama4TextConfig(num_hidden_layers=1, hidden_size=8, num_attention_heads=1, num_key_value_heads=1)
    theirs = Llama4TextAttention(config, layer_idx=0)
    ours = QueryTemperature()
    assert (theirs.floor_scale, theirs.attn_scale) == (ours.floor, ours.scale)


def test_queries_alone_are_multiplied_and_keep_their_dtype() -> None:
    q = k = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    scale = QueryTemperature(floor=2, scale=1.0).rotation(Positions.sequence(5))
    turned, kept = scale(q, k)
    assert kept is k
    by_hand = torch.stack([q[:, :, p] * (1 + math.log(1 + (p + 1) // 2)) for p in range(5)], dim=2)
    torch.testing.assert_close(turned, by_hand)
    narrow = scale.q(q.bfloat16())
    assert narrow.dtype == torch.bfloat16
    assert torch.equal(narrow, (q.bfloat16().float() * scale.factor[:, None]).bfloat16())


def test_rows_with_positions_of_their_own_have_factors_of_their_own() -> None:
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    scale = QueryTemperature(floor=2).rotation(Positions.padded(mask))
    x = torch.ones(2, 1, 4, 1)
    alone = QueryTemperature(floor=2).rotation(Positions.sequence(2))
    assert torch.equal(scale.q(x)[0, :, 2:], alone.q(x[:1, :, :2])[0])


def test_attention_with_it_is_attention_of_sharper_queries(close: Close) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 6, 4, generator=generator) for _ in range(3))
    encoding = QueryTemperature(floor=2, scale=0.5)
    sharper = q * torch.tensor([1 + 0.5 * math.log(1 + (p + 1) // 2) for p in range(6)])[:, None]
    close(lw.attention(q, k, v, encoding), lw.attention(sharper, k, v))


def test_queries_that_do_not_fit_are_refused_and_never_broadcast() -> None:
    scale = QueryTemperature().rotation(Positions.sequence(1))
    with pytest.raises(lw.InvalidArgument, match="do not fit"):
        scale.q(torch.ones(1, 1, 5, 2))


@pytest.mark.parametrize("settings", [{"floor": 0}, {"scale": -1.0}, {"offset": -1}])
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(lw.InvalidArgument, match="QueryTemperature needs a floor of at least 1"):
        QueryTemperature(**settings)
