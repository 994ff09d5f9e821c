"""Extended encodings in a loaded model: those of `transformers` against it, the others against themselves."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.hf import encoding_from_config
from lengthwise.hf.apply import apply_to

spec = importlib.util.spec_from_file_location("hf_test_models", Path(__file__).parent / "models.py")
assert spec
assert spec.loader
models = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
spec.loader.exec_module(models)
make, mask, tokens = models.make, models.mask, models.tokens

LENGTH = 40
"""Twice and a half the trained length, 16."""

ROPES: dict[str, dict[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "longrope": {
        "rope_type": "longrope",
        "short_factor": [1.0, 1.1, 1.2, 1.3],
        "long_factor": [1.0, 2.0, 3.0, 4.0],
        "factor": 4.0,
        "original_max_position_embeddings": 16,
    },
}
METHODS = [
    "yarn(factor=4)",
    "self_extend(group=2, window=8)",
    "rerope(window=8)",
    "dual_chunk(chunk=12, local=4)",
    "streaming_llm(sinks=2, recent=8)",
    "lm_infinite(sinks=2, local=8)",
    "log_n",
]


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def same(actual: Tensor, expected: Tensor, allowed: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=allowed * float(expected.std()))


def built(method: str) -> Any:
    return lw.build(f"rotary + {method}", lw.Dims(32, 4, max_length=64, trained_length=16))


@pytest.mark.parametrize(
    ("kind", "rope"), [*(("llama", rope) for rope in ROPES), ("qwen3", "yarn"), ("qwen3", "dynamic")]
)
@pytest.mark.parametrize("length", [12, LENGTH])
def test_a_method_applied_is_the_model_built_with_its_settings(kind: str, rope: str, length: int) -> None:
    trained = 16 if rope == "dynamic" else 64  # dynamic reads no other
    settings = {**ROPES[rope], "rope_theta": 10000.0}
    theirs = make(kind, max_position_embeddings=trained, rope_parameters=settings)
    plain = make(kind, max_position_embeddings=trained)
    encoding = encoding_from_config(theirs.config)
    ids = tokens(length=length)
    expected = theirs(ids).logits
    with apply_to(plain, encoding):
        same(plain(ids).logits, expected)


@pytest.mark.parametrize("method", METHODS)
def test_a_cache_and_padding_change_nothing(method: str) -> None:
    model, ids, padding = make("llama"), tokens(length=LENGTH), mask(length=LENGTH, left=5)
    with apply_to(model, built(method)):
        whole = model(ids, attention_mask=padding).logits
        alone = model(ids[:1, 5:]).logits[0]
        first = model(ids[:, :30], attention_mask=padding[:, :30])
        parts = [first.logits]
        for at in range(30, LENGTH):
            step = model(ids[:, at : at + 1], attention_mask=padding[:, : at + 1], cache=first.cache)
            parts.append(step.logits)
    same(whole[0, 5:], alone)
    same(torch.cat(parts, dim=1)[:, 30:], whole[:, 30:], 3e-5)


def test_keys_of_a_method_that_follows_the_length_are_turned_anew_at_each_length() -> None:
    # One layer: deeper ones read what the first computed at the lengths of then, as any cache has them.
    model, ids = make("llama", num_hidden_layers=1), tokens(length=LENGTH)
    with apply_to(model, built("dynamic_ntk(factor=4)")):
        first = model(ids[:, :10])
        steps = [model(ids[:, at : at + 1], cache=first.cache).logits for at in range(10, LENGTH)]
        for at in (10, 20, LENGTH - 1):
            same(steps[at - 10][:, 0], model(ids[:, : at + 1]).logits[:, -1])


@pytest.mark.parametrize("method", ["self_extend(group=2, window=64)", "rerope(window=64)", "log_n"])
def test_within_its_window_a_method_leaves_the_model_as_it_is(method: str) -> None:
    model, ids = make("llama"), tokens(length=14)
    expected = model(ids).logits
    with apply_to(model, built(method)):
        same(model(ids).logits, expected)


def test_a_fixed_length_lets_turned_keys_wait_in_the_cache() -> None:
    model, ids = make("llama"), tokens(length=LENGTH)
    method = built("dynamic_ntk(factor=4)")
    with apply_to(model, method, target_length=LENGTH):
        whole = model(ids).logits
        first = model(ids[:, :10])
        rest = model(ids[:, 10:], cache=first.cache).logits
        assert model.config._attn_implementation != "lengthwise"
    same(torch.cat((first.logits, rest), dim=1), whole)


def test_sliding_layers_keep_their_window_with_pairs_that_move() -> None:
    model, ids = make("mistral", sliding_window=6), tokens(length=20)
    changed = ids.clone()
    changed[:, 0] = (ids[:, 0] + 1 - 3) % 40 + 3
    with apply_to(model, built("rerope(window=4)")):
        one, other = model(ids).logits, model(changed).logits
    assert torch.equal(one[:, 16:], other[:, 16:])  # three layers of five tokens back
    assert not torch.equal(one[:, :15], other[:, :15])
