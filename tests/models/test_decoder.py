"""The Decoder with every encoding: shapes, causality, training and evaluation, what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.models import Decoder, ModelConfig
from lengthwise.positions import Positions

Make = Callable[..., Decoder]


def test_there_is_a_row_of_logits_for_every_token(make_decoder: Make, spec: str, tokens: Tensor) -> None:
    logits = make_decoder(spec)(tokens)
    assert logits.shape == (3, 7, 11)
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()


@pytest.mark.parametrize("length", [0, 1])
def test_lengths_zero_and_one_are_no_special_case(make_decoder: Make, spec: str, length: int) -> None:
    assert make_decoder(spec)(torch.zeros(2, length, dtype=torch.int64)).shape == (2, length, 11)


def test_a_later_token_changes_no_earlier_logit(make_decoder: Make, spec: str, tokens: Tensor) -> None:
    model = make_decoder(spec)
    changed = tokens.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 11
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


def test_packed_documents_give_what_each_gives_alone(
    make_decoder: Make, spec: str, tokens: Tensor, close: Callable[..., None]
) -> None:
    model = make_decoder(spec)
    packed = model(tokens[:1], Positions.packed([3, 4]))
    close(packed[:, :3], model(tokens[:1, :3]))
    close(packed[:, 3:], model(tokens[:1, 3:]))


def test_without_an_encoding_order_still_reaches_a_decoder_through_its_mask(make_decoder: Make, tokens: Tensor) -> None:
    model = make_decoder("none")
    swapped = tokens[:1, [1, 0, 2, 3, 4, 5, 6]]
    assert tokens[0, 0] != tokens[0, 1]
    assert not torch.allclose(model(tokens[:1])[:, -1], model(swapped)[:, -1])


def test_no_encoding_is_the_encoding_none(make_decoder: Make, tokens: Tensor) -> None:
    assert torch.equal(make_decoder(None)(tokens), make_decoder("none")(tokens))


def test_the_gradient_reaches_every_parameter(make_decoder: Make, spec: str, tokens: Tensor) -> None:
    config = ModelConfig(vocabulary=11, dim=16, layers=2, heads=4, kv_heads=2, activation="swiglu", tied=False)
    model = make_decoder(spec, config).train()
    model(tokens).logsumexp(-1).sum().backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == []


@pytest.mark.parametrize("norm", ["rms", "layer", "none"])
@pytest.mark.parametrize("activation", ["gelu", "relu", "swiglu"])
def test_a_fresh_model_is_nearly_indifferent_whatever_its_norm_and_activation(
    make_decoder: Make, tokens: Tensor, norm: str, activation: str
) -> None:
    config = ModelConfig(vocabulary=11, dim=64, norm=norm, activation=activation, tied=False)
    model = make_decoder("rotary", config)
    loss = torch.nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    assert abs(loss.item() - torch.tensor(11.0).log().item()) < 1.0


def test_parameters_are_those_of_the_formula(make_decoder: Make) -> None:
    config = ModelConfig(
        vocabulary=50, dim=24, layers=3, heads=6, kv_heads=2, hidden=40, activation="swiglu", tied=True
    )
    attention = 24 * 24 * 2 + 24 * 8 * 2
    block = attention + 3 * 24 * 40 + 2 * 24
    assert _count(make_decoder(None, config)) == 50 * 24 + 3 * block + 24
    assert _count(make_decoder(None, replace(config, tied=False))) == 2 * 50 * 24 + 3 * block + 24
    assert _count(make_decoder(None, replace(config, norm="none"))) == 50 * 24 + 3 * (block - 48)


def test_tied_weights_are_one_tensor_in_training_too(make_decoder: Make, config: ModelConfig, tokens: Tensor) -> None:
    model = make_decoder("rotary", replace(config, tied=True))
    assert model.head.weight is model.embedding.weight
    before = model.embedding.weight.detach().clone()
    model(tokens).logsumexp(-1).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    assert torch.equal(model.head.weight, model.embedding.weight)
    assert not torch.equal(before, model.embedding.weight)
    apart = make_decoder("rotary", replace(config, tied=False))
    assert not torch.equal(apart.head.weight, apart.embedding.weight)


def test_grouped_queries_equal_full_heads_with_repeated_keys_and_values(
    make_decoder: Make, spec: str, config: ModelConfig, tokens: Tensor, close: Callable[..., None]
) -> None:
    grouped = make_decoder(spec, replace(config, kv_heads=2))
    full = make_decoder(spec, config)
    state = grouped.state_dict()
    for name, weight in state.items():
        if name.endswith((".attention.k.weight", ".attention.v.weight")):
            state[name] = weight.view(2, 1, 4, 16).expand(2, 2, 4, 16).reshape(16, 16)  # [kv_heads, group, 4, dim]
    full.load_state_dict(state)
    close(grouped(tokens), full(tokens))


def test_dropout_acts_in_training_only(make_decoder: Make, spec: str, config: ModelConfig, tokens: Tensor) -> None:
    model = make_decoder(spec, replace(config, dropout=0.3))
    assert torch.equal(model(tokens), make_decoder(spec, config)(tokens))
    model.train()
    assert not torch.allclose(model(tokens), model(tokens))


def test_dropout_reaches_the_attention_weights(make_decoder: Make, config: ModelConfig) -> None:
    model = make_decoder(None, replace(config, dropout=0.5, layers=1)).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    tokens = torch.arange(8)[None]
    assert not torch.allclose(model(tokens), model(tokens))


def test_autocast_to_bfloat16_stays_close_to_float32(make_decoder: Make, spec: str, tokens: Tensor) -> None:
    model = make_decoder(spec)
    exact = model(tokens)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = model(tokens)
    assert rough.dtype == torch.bfloat16
    # Roundings of 2^-9 in some 20 places of two layers, as independent errors.
    assert (rough.float() - exact).norm() < 20**0.5 * 2**-8 * exact.norm()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_model_in_another_dtype_stays_close_to_float32(
    make_decoder: Make, spec: str, tokens: Tensor, dtype: torch.dtype
) -> None:
    exact = make_decoder(spec)(tokens)
    other = make_decoder(spec).to(dtype)(tokens)
    assert other.dtype == dtype
    allowed = 1e-5 if dtype == torch.float64 else 40**0.5 * 2**-8  # the stream is rounded too
    assert (other.float() - exact).norm() < allowed * exact.norm()


def test_a_state_dict_carries_all_there_is(make_decoder: Make, spec: str, config: ModelConfig, tokens: Tensor) -> None:
    model = make_decoder(spec)
    torch.manual_seed(9)
    other = Decoder(config, lw.build(spec, config.dims(max_length=32))).eval()
    assert not torch.allclose(other(tokens), model(tokens))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(tokens), model(tokens))
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters(remove_duplicate=False)}


def test_a_decoder_needs_a_vocabulary() -> None:
    with pytest.raises(lw.InvalidArgument, match="vocabulary"):
        Decoder(ModelConfig())


def test_past_a_learned_table_the_error_names_its_limit(make_decoder: Make) -> None:
    with pytest.raises(lw.PositionOutOfRange, match="32"):
        make_decoder("learned")(torch.zeros(1, 33, dtype=torch.int64))


def test_positions_of_another_length_than_the_tokens_are_refused(make_decoder: Make, tokens: Tensor) -> None:
    with pytest.raises(lw.InvalidArgument, match="positions are of 5 queries"):
        make_decoder(None)(tokens, Positions.sequence(5))


def _count(model: Decoder) -> int:
    return sum(weight.numel() for weight in model.parameters())
