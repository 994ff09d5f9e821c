"""`apply_to` against the untouched models of `transformers`, and against masks that were built by hand."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

import lengthwise as lw
from lengthwise.errors import InvalidArgument
from lengthwise.hf.apply import apply_to, supported

pytest.importorskip("transformers")

spec = importlib.util.spec_from_file_location("hf_test_models", Path(__file__).parent / "models.py")
assert spec
assert spec.loader
models = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
spec.loader.exec_module(models)
make, mask, own_encoding, tokens = models.make, models.mask, models.own_encoding, models.tokens

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


@pytest.fixture(autouse=True)
def _no_gradients() -> Any:
    with torch.no_grad():
        yield


def same(actual: Tensor, expected: Tensor, allowed: float = 1e-5) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=allowed * float(expected.std()))


@pytest.mark.parametrize("raw", [False, True], ids=["turned", "raw"])
@pytest.mark.parametrize("kind", models.KINDS)
def test_a_models_own_encoding_leaves_its_logits_as_they_are(kind: str, raw: bool) -> None:
    model, ids = make(kind), tokens()
    for padding in (mask(), mask(left=4), mask(right=4)):
        expected = model(ids, attention_mask=padding).logits
        with apply_to(model, own_encoding(model), raw=raw):
            actual = model(ids, attention_mask=padding).logits
        same(actual[padding.bool()], expected[padding.bool()])
        assert torch.equal(model(ids, attention_mask=padding).logits, expected)


@pytest.mark.parametrize("raw", [False, True], ids=["turned", "raw"])
@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma2", "gemma3_text", "smollm3", "gpt_neox"])
def test_a_models_own_encoding_generates_what_the_model_does_from_rows_padded_on_the_left(kind: str, raw: bool) -> None:
    model = make(kind)
    expected = generate(model)
    with apply_to(model, own_encoding(model), raw=raw):
        actual = generate(model)
    same(actual, expected)


def generate(model: Any) -> Tensor:
    out = model.generate(
        tokens(),
        attention_mask=mask(left=4),
        max_new_tokens=6,
        min_new_tokens=6,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return torch.stack(out.logits)


@pytest.mark.parametrize("encoding", [lw.ALiBi(4), lw.T5Bias(4), lw.NoPE()], ids=lambda made: type(made).__name__)
@pytest.mark.parametrize("kind", ["llama", "gpt_neox"])
def test_a_bias_is_what_a_mask_built_by_hand_adds(kind: str, encoding: nn.Module) -> None:
    if isinstance(encoding, lw.T5Bias):
        nn.init.normal_(next(encoding.parameters()))
    length = 12
    model, ids = make(kind, attn_implementation="eager"), tokens()
    bias = torch.zeros(1, 4, length, length)
    if hasattr(encoding, "logit_bias"):
        bias = bias + encoding.logit_bias(lw.Positions.sequence(length)).dense()
    later = torch.ones(length, length).triu(1).bool()
    standing = torch.zeros(1, length, dtype=torch.long)  # all at position 0: no rotation
    expected = model(ids, attention_mask=bias.masked_fill(later, -torch.inf), position_ids=standing).logits
    with apply_to(model, encoding):
        actual = model(ids).logits
    same(actual, expected)


@pytest.mark.parametrize("spec", ["alibi", "rotary + alibi", "rotary(layout='interleaved')", "rotary(fraction=0.5)"])
def test_a_cache_gives_what_a_whole_pass_gives(spec: str) -> None:
    model, ids, padding = make("llama"), tokens(), mask(left=3)
    with apply_to(model, lw.build(spec, lw.Dims(32, 4))):
        whole = model(ids, attention_mask=padding).logits
        first = model(ids[:, :7], attention_mask=padding[:, :7])
        parts = [first.logits]
        for at in range(7, 12):
            step = model(ids[:, at : at + 1], attention_mask=padding[:, : at + 1], cache=first.cache)
            parts.append(step.logits)
    real = padding.bool()
    same(torch.cat(parts, dim=1)[real], whole[real])


@pytest.mark.parametrize("spec", ["alibi", "rotary", "rotary + alibi"])
def test_a_padded_row_is_what_it_is_alone(spec: str) -> None:
    model, ids, padding = make("llama"), tokens(), mask(left=4)
    with apply_to(model, lw.build(spec, lw.Dims(32, 4))):
        together = model(ids, attention_mask=padding).logits[0, 4:]
        alone = model(ids[:1, 4:]).logits[0]
    same(together, alone)


@pytest.mark.parametrize("raw", [False, True], ids=["turned", "raw"])
def test_documents_in_one_row_do_not_see_each_other(raw: bool) -> None:
    model, ids = make("llama"), tokens(1, 10)
    places = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 1, 2, 3]])
    with apply_to(model, lw.Rotary(8), raw=raw):
        packed = model(ids, position_ids=places, use_cache=False).logits
        alone = model(ids[:, 6:]).logits
    same(packed[:, 6:], alone)


def test_gradients_reach_the_weights_through_checkpoints() -> None:
    model, ids = make("llama"), tokens()
    model.train()
    with torch.enable_grad(), apply_to(model, lw.ALiBi(4)):
        model(ids, labels=ids, use_cache=False).loss.backward()
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        model.gradient_checkpointing_enable()
        loss = model(ids, labels=ids, use_cache=False).loss
        model(ids[:, :5], use_cache=False)  # another pass between: each carries its own positions
        loss.backward()
    for parameter, grad in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, grad)


def test_weights_buffers_and_settings_are_the_same_before_during_and_after() -> None:
    model = make("llama")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    config, rotary = model.config, model.model.rotary_emb
    as_text = config.to_json_string()
    with apply_to(model, lw.FIRE(4)):
        assert {*model.state_dict()} == {*before}
    assert model.config is config
    assert model.config.to_json_string() == as_text
    assert model.model.rotary_emb is rotary
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())


def test_a_model_that_shares_the_config_is_left_alone() -> None:
    model = make("llama")
    other = type(model)(model.config).eval()
    expected = other(tokens()).logits
    with apply_to(model, lw.ALiBi(4)):
        model(tokens())
        assert torch.equal(other(tokens()).logits, expected)


@pytest.mark.parametrize(
    ("kind", "encoding"),
    [("llama", lw.T5Bias(4)), ("llama", lw.Combined(lw.Rotary(8), lw.ALiBi(4))), ("gemma2", lw.Rotary(8))],
    ids=["bias", "both", "capped logits"],
)
def test_no_tensor_of_all_pairs_arises(kind: str, encoding: nn.Module) -> None:
    length, heads = 2048, 4
    settings = {"max_position_embeddings": length, "num_hidden_layers": 1}
    model, ids = make(kind, **settings), tokens(1, length)
    with apply_to(model, encoding, raw=True), _Largest() as largest:
        model(ids, logits_to_keep=1)
    assert largest.numel < heads * length * length / 4


class _Largest(TorchDispatchMode):
    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for one in out if isinstance(out, tuple | list) else (out,):
            if isinstance(one, Tensor):
                self.numel = max(self.numel, one.untyped_storage().nbytes() // one.element_size())
        return out


def test_a_second_application_is_refused() -> None:
    model = make("llama")
    with apply_to(model, lw.NoPE()):
        for target in (model, model.model):
            with pytest.raises(InvalidArgument, match="undo that first"):
                apply_to(target, lw.NoPE())
    with apply_to(model, lw.NoPE()) as applied:
        applied.undo()
        applied.undo()
    assert "undone" in repr(applied)


def test_an_unknown_architecture_names_those_that_are_known() -> None:
    model = nn.Linear(2, 2)
    with pytest.raises(InvalidArgument, match="a loaded model of transformers, not Linear"):
        apply_to(model, lw.NoPE())
    model.config = type("Config", (), {"model_type": "mamba"})()  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(InvalidArgument, match=r"'mamba'; it knows .*llama.*qwen3"):
        apply_to(model, lw.NoPE())
    assert {*models.KINDS} <= {*supported()}


@pytest.mark.parametrize(
    ("encoding", "words"),
    [
        (lw.Sinusoidal(32), "acts on token embeddings"),
        (lw.PerLayer([lw.NoPE()]), "holds 1 encodings, and the model has 3 layers"),
        ("rotary", "lengthwise.build"),
    ],
)
def test_what_the_model_gives_no_access_to_is_refused_and_nothing_is_changed(encoding: Any, words: str) -> None:
    model = make("llama")
    expected = model(tokens()).logits
    with pytest.raises(InvalidArgument, match=words):
        apply_to(model, encoding)
    assert torch.equal(model(tokens()).logits, expected)


def test_a_model_that_sees_later_tokens_takes_a_rotation_only() -> None:
    model, ids = make("gemma3_text", use_bidirectional_attention=True), tokens()
    expected = model(ids).logits
    with apply_to(model, own_encoding(model)):
        same(model(ids).logits, expected)
    with pytest.raises(InvalidArgument, match="sees later tokens"):
        apply_to(model, lw.ALiBi(4))


def test_a_cache_from_before_is_refused() -> None:
    model, ids = make("llama"), tokens()
    cache = model(ids).cache
    with apply_to(model, lw.ALiBi(4)), pytest.raises(InvalidArgument, match="start with an empty cache"):
        model(ids[:, :1], cache=cache)


def test_a_mask_of_pairs_is_refused() -> None:
    model = make("llama")
    with apply_to(model, lw.ALiBi(4)), pytest.raises(InvalidArgument, match="mask of the tokenizer"):
        model(tokens(), attention_mask=torch.zeros(2, 1, 12, 12))


def test_raw_keys_are_turned_in_float32_whatever_the_dtype_of_the_model() -> None:
    model, ids = make("llama").double(), tokens(1, 12)
    far = torch.arange(100_000, 100_012)[None]
    exact = model(ids, position_ids=far - 100_000).logits
    narrow = model.to(torch.bfloat16)
    errors = {}
    for raw in (False, True):
        with apply_to(narrow, lw.Rotary(8), raw=raw):
            errors[raw] = float((narrow(ids, position_ids=far).logits.double() - exact).norm())
    assert errors[True] < errors[False]
