"""The Encoder with every encoding: shapes, padding, order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.models import Encoder, ModelConfig
from lengthwise.positions import Positions

Make = Callable[..., Encoder]
Close = Callable[..., None]


def test_there_is_a_row_of_logits_for_every_token(make_encoder: Make, spec: str, tokens: Tensor) -> None:
    assert make_encoder(spec)(tokens).shape == (3, 7, 11)


def test_every_token_sees_those_behind_it(make_encoder: Make, spec: str, tokens: Tensor) -> None:
    model = make_encoder(spec)
    changed = tokens.clone()
    changed[:, -1] = (changed[:, -1] + 1) % 11
    difference = (model(tokens) - model(changed)).abs().amax(-1)
    assert (difference > 1e-6).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_changes_no_real_logit(
    make_encoder: Make, spec: str, tokens: Tensor, side: str, close: Close
) -> None:
    model = make_encoder(spec)
    lengths = (7, 5, 1)
    columns = torch.arange(7)
    mask = torch.stack([columns < length if side == "right" else columns >= 7 - length for length in lengths])
    padded = model(tokens, Positions.padded(mask, causal=False))
    assert padded.isfinite().all()
    for row in range(3):
        close(padded[row, mask[row]], model(tokens[row : row + 1, mask[row]])[0])


def test_without_an_encoding_an_encoder_is_permutation_equivariant(
    make_encoder: Make, tokens: Tensor, close: Close
) -> None:
    model = make_encoder("none")
    order = torch.randperm(7, generator=torch.Generator().manual_seed(0))
    close(model(tokens[:, order]), model(tokens)[:, order])


@pytest.mark.parametrize("spec", ["learned", "sinusoidal", "rotary", "alibi", "t5"])
def test_with_an_encoding_an_encoder_tells_orders_apart(make_encoder: Make, spec: str, tokens: Tensor) -> None:
    model = make_encoder(spec, ModelConfig(vocabulary=11, dim=32, layers=2, heads=4))
    swapped = [1, 0, 2, 3, 4, 5, 6]
    assert not torch.allclose(model(tokens[:, swapped]), model(tokens)[:, swapped], atol=1e-4)


def test_an_encoding_for_causal_attention_is_refused(config: ModelConfig, tokens: Tensor) -> None:
    with pytest.raises(lw.InvalidArgument, match="bidirectional"):
        Encoder(config, lw.T5Bias(heads=4))(tokens)


def test_an_encoder_needs_a_vocabulary() -> None:
    with pytest.raises(lw.InvalidArgument, match="vocabulary"):
        Encoder(ModelConfig())


def test_weights_are_tied_where_asked(make_encoder: Make, config: ModelConfig) -> None:
    tied, apart = (make_encoder(None, replace(config, tied=tied)) for tied in (True, False))
    assert tied.head.weight is tied.embedding.weight
    assert apart.head.weight is not apart.embedding.weight


def test_the_gradient_reaches_every_parameter(make_encoder: Make, spec: str, tokens: Tensor) -> None:
    model = make_encoder(spec)
    model(tokens).logsumexp(-1).sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in model.parameters())
