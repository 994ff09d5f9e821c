"""Greedy decoding equals the argmax of full passes, alone and in a padded batch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.errors import InvalidArgument
from lengthwise.models import Decoder, ModelConfig

Make = Callable[..., Decoder]
BIG = ModelConfig(vocabulary=97, dim=32, layers=2, heads=4, tied=False)
# Untied, since a tied model that was never trained repeats its last token, which would hide faults.


@pytest.fixture
def make_lively(make_decoder: Make) -> Make:
    """Models whose layers say more than the last token does, so that what they produce varies."""

    def make(spec: str) -> Decoder:
        model = make_decoder(spec, BIG)
        for block in model.stack.blocks:
            block.attention.out.weight.data.mul_(2)
            block.feed_forward.down.weight.data.mul_(2)
        return model

    return make


def by_full_passes(model: Decoder, tokens: Tensor, new: int) -> Tensor:
    with torch.no_grad():
        for _ in range(new):
            tokens = torch.cat((tokens, model(tokens)[:, -1:].argmax(-1)), dim=1)
    return tokens


@pytest.fixture
def prompts() -> Tensor:
    return torch.randint(97, (3, 6), generator=torch.Generator().manual_seed(2))


def test_generate_is_the_argmax_of_full_passes(make_lively: Make, spec: str, prompts: Tensor) -> None:
    model = make_lively(spec)
    expected = by_full_passes(model, prompts, 12)
    assert len(expected[:, 6:].unique()) > 6
    assert torch.equal(model.generate(prompts, 12), expected)


def test_rows_padded_on_the_left_continue_as_each_does_alone(make_lively: Make, spec: str, prompts: Tensor) -> None:
    model = make_lively(spec)
    lengths = (6, 4, 1)
    mask = torch.tensor([[column >= 6 - length for column in range(6)] for length in lengths])
    batch = model.generate(prompts.masked_fill(~mask, 0), 10, attention_mask=mask)
    for row, length in enumerate(lengths):
        assert torch.equal(batch[row, 6 - length :], by_full_passes(model, prompts[row : row + 1, -length:], 10)[0])


def test_a_mask_of_ones_changes_nothing(make_lively: Make, prompts: Tensor) -> None:
    model = make_lively("rotary")
    mask = torch.ones_like(prompts)
    assert torch.equal(model.generate(prompts, 5, attention_mask=mask), model.generate(prompts, 5))


def test_a_row_that_has_stopped_repeats_the_stop_token_and_leaves_the_others_alone(
    make_lively: Make, prompts: Tensor
) -> None:
    model = make_lively("rotary")
    free = model.generate(prompts, 12)
    stop = int(free[0, 8])  # the third token that row 0 produces
    stopped = model.generate(prompts, 12, stop=stop)
    for row in range(3):
        produced = free[row, 6:].tolist()
        if stop in produced:
            produced[produced.index(stop) :] = [stop] * (12 - produced.index(stop))
        assert stopped[row, 6:].tolist() == produced[: stopped.shape[1] - 6]


def test_generation_ends_when_every_row_has_stopped(make_lively: Make, prompts: Tensor) -> None:
    model = make_lively("rotary")
    free = model.generate(prompts[:1], 12)
    stop = int(free[0, 8])
    first = free[0, 6:].tolist().index(stop)
    assert model.generate(prompts[:1], 12, stop=stop).shape[1] == 6 + first + 1


def test_zero_new_tokens_give_the_prompt(make_lively: Make, prompts: Tensor) -> None:
    assert torch.equal(make_lively("rotary").generate(prompts, 0), prompts)


def test_an_empty_prompt_is_refused(make_lively: Make) -> None:
    with pytest.raises(lw.InvalidArgument, match="at least one token"):
        make_lively("none").generate(torch.zeros(1, 0, dtype=torch.int64), 3)


def test_padding_on_the_right_is_refused(make_lively: Make, prompts: Tensor) -> None:
    with pytest.raises(lw.InvalidArgument, match="left"):
        make_lively("none").generate(prompts, 3, attention_mask=torch.tensor([[1, 1, 1, 1, 1, 0]] * 3))


def test_a_mask_of_another_shape_than_the_prompts_is_refused(make_lively: Make, prompts: Tensor) -> None:
    with pytest.raises(lw.InvalidArgument, match=r"attention_mask.*\[3, 6\]"):
        make_lively("none").generate(prompts, 3, attention_mask=torch.ones(3, 5))


def test_generation_keeps_no_graph(make_lively: Make, prompts: Tensor) -> None:
    assert not make_lively("t5").generate(prompts, 2).requires_grad


def test_fewer_than_no_new_tokens_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="how many tokens to add, and is -3"):
        Decoder(BIG).generate(torch.zeros(1, 2, dtype=torch.int64), -3)
