"""Models with tables and biases of their own: GPT-2, OPT, BERT, T5, BLOOM, MPT."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.errors import InvalidArgument, PositionOutOfRange
from lengthwise.hf.adapters.tables import table_of
from lengthwise.hf.apply import apply_to

spec = importlib.util.spec_from_file_location("hf_test_models", Path(__file__).parent / "models.py")
assert spec
assert spec.loader
models = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
spec.loader.exec_module(models)
mask, tokens = models.mask, models.tokens
TABLE = 16


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def with_table(kind: str) -> Any:
    common = {"vocab_size": 48, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    sizes: dict[str, Any] = {
        "gpt2": {"n_positions": TABLE, "n_embd": 32, "n_layer": 2, "n_head": 4},
        "opt": {"max_position_embeddings": TABLE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
        "bert": {"max_position_embeddings": TABLE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    }
    more = {
        "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
        "bert": {"intermediate_size": 48},
    }.get(kind, {})
    config = transformers.AutoConfig.for_model(kind, **common, **sizes[kind], **more)
    make = transformers.AutoModelForMaskedLM if kind == "bert" else transformers.AutoModelForCausalLM
    model = make.from_config(config).eval()
    models.randomize(model)
    return model


def with_bias(kind: str) -> Any:
    common = {"vocab_size": 48, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    sizes: dict[str, Any] = {
        "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4},
        "mpt": {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": TABLE},
        "t5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0},
    }
    config = transformers.AutoConfig.for_model(kind, **common, **sizes[kind])
    make = transformers.AutoModelForSeq2SeqLM if kind == "t5" else transformers.AutoModelForCausalLM
    model = make.from_config(config).eval()
    models.randomize(model)
    return model


def same(actual: Tensor, expected: Tensor, allowed: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=allowed * float(expected.std()))


@pytest.mark.parametrize("kind", ["gpt2", "opt", "bert"])
def test_a_models_own_table_leaves_its_logits_as_they_are(kind: str) -> None:
    model, ids = with_table(kind), tokens()
    keys = set(model.state_dict())
    for padding in (mask(), mask(left=3), mask(right=3)):
        expected = model(ids, attention_mask=padding).logits
        with apply_to(model, table_of(model)):
            actual = model(ids, attention_mask=padding).logits
            assert set(model.state_dict()) == keys
        same(actual[padding.bool()], expected[padding.bool()])
        assert torch.equal(model(ids, attention_mask=padding).logits, expected)


@pytest.mark.parametrize("kind", ["gpt2", "opt"])
def test_a_models_own_table_generates_what_the_model_does(kind: str) -> None:
    model = with_table(kind)
    settings = {"attention_mask": mask(length=8, left=3), "max_new_tokens": 5, "do_sample": False}
    expected = model.generate(tokens(length=8), **settings)
    with apply_to(model, table_of(model)):
        assert torch.equal(model.generate(tokens(length=8), **settings), expected)


@pytest.mark.parametrize("kind", ["gpt2", "opt", "bert"])
def test_a_table_resampled_reaches_further_and_keeps_its_ends(kind: str) -> None:
    model = with_table(kind)
    longer = lw.extend(table_of(model), lw.Resample(2 * TABLE))
    long, short = tokens(length=2 * TABLE), tokens(length=TABLE)
    with apply_to(model, longer):
        assert model(long).logits.isfinite().all()
    with pytest.raises((IndexError, RuntimeError)):
        model(long)
    with apply_to(model, lw.extend(table_of(model), lw.Extrapolate(2 * TABLE))):
        first = model(short).logits
        with pytest.raises((PositionOutOfRange, IndexError, RuntimeError)):
            model(tokens(length=2 * TABLE + 1))
    same(first, model(short).logits)


def test_a_table_takes_sinusoids_and_no_rotation() -> None:
    model, ids = with_table("gpt2"), tokens()
    with apply_to(model, lw.Sinusoidal(32)):
        actual = model(ids).logits
    table = lw.Sinusoidal(32).embed_positions(torch.zeros(1, TABLE, 32), lw.Positions.sequence(TABLE))[0]
    model.transformer.wpe.weight.copy_(table)
    same(actual, model(ids).logits)
    with pytest.raises(InvalidArgument, match="adds a table"):
        apply_to(model, lw.Rotary(8))
    with pytest.raises(InvalidArgument, match="no table of positions"):
        table_of(models.make("llama"))


@pytest.mark.parametrize("kind", ["bloom", "mpt"])
def test_alibi_in_a_model_with_alibi_changes_nothing(kind: str) -> None:
    model, ids = with_bias(kind), tokens()
    for padding in (mask(), mask(left=3)):
        expected = model(ids, attention_mask=padding).logits
        with apply_to(model, lw.ALiBi(4)):
            actual = model(ids, attention_mask=padding).logits
        same(actual[padding.bool()], expected[padding.bool()])
        assert torch.equal(model(ids, attention_mask=padding).logits, expected)


@pytest.mark.parametrize("kind", ["bloom", "mpt"])
def test_another_bias_is_computed_with_a_cache_as_without(kind: str) -> None:
    model, ids = with_bias(kind), tokens(length=TABLE + 4)
    encoding = lw.KERPLE(4)
    with apply_to(model, encoding):
        whole = model(ids).logits
        first = model(ids[:, :10], use_cache=True)  # MPT's config says False
        rest = model(ids[:, 10:], cache=first.cache, use_cache=True).logits
    same(torch.cat((first.logits, rest), dim=1), whole)
    with apply_to(model, lw.NoPE()):
        assert not torch.allclose(model(ids).logits, whole)


def t5_bias(module: Any, bidirectional: bool) -> nn.Module:
    made = lw.T5Bias(4, bidirectional=bidirectional)
    weight = module.block[0].layer[0].SelfAttention.relative_attention_bias.weight
    (own,) = made.parameters()
    own.copy_(weight if own.shape == weight.shape else weight.T)
    return made


def test_t5_takes_its_own_biases_back_one_for_each_stack() -> None:
    model, ids = with_bias("t5"), tokens()
    expected = model(input_ids=ids, decoder_input_ids=ids).logits
    encoder, decoder = t5_bias(model.encoder, True), t5_bias(model.decoder, False)
    with apply_to(model.encoder, encoder), apply_to(model.decoder, decoder):
        same(model(input_ids=ids, decoder_input_ids=ids).logits, expected)
    with apply_to(model, decoder):  # causal: the decoder alone
        same(model(input_ids=ids, decoder_input_ids=ids).logits, expected)
    with apply_to(model, lw.NoPE()):
        assert not torch.allclose(model(input_ids=ids, decoder_input_ids=ids).logits, expected)
    assert torch.equal(model(input_ids=ids, decoder_input_ids=ids).logits, expected)
    with pytest.raises(InvalidArgument, match="none of that kind"):
        apply_to(model.encoder, decoder)
    with pytest.raises(InvalidArgument, match="adds one bias"):
        apply_to(model, lw.Rotary(8))
