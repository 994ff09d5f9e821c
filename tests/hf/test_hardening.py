"""Faults that were found by trying to break applied models: checkpoints, copies, threads, caches whose rows move."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.hf import apply_to, encoding_from_config

pytest.importorskip("transformers")
spec = importlib.util.spec_from_file_location("hf_test_models", Path(__file__).parent / "models.py")
assert spec is not None
assert spec.loader is not None
models: Any = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
spec.loader.exec_module(models)
VOCABULARY, make = models.VOCABULARY, models.make

DIMS = lw.Dims(dim=32, heads=4, head_dim=8, layers=3, max_length=64, kv_heads=2, trained_length=16)


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(3, VOCABULARY, (2, 12), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def gradients(model: Any, encoding: Any, ids: Tensor) -> list[Tensor]:
    torch.manual_seed(0)
    model.zero_grad()
    encoding.zero_grad()
    model(ids, labels=ids).loss.backward()
    return [
        weight.grad.clone() for part in (model, encoding) for weight in part.parameters() if weight.grad is not None
    ]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("llama", "rotary + ssmax"),
        ("llama", "t5"),
        ("phi", "randomized(alibi, 40)"),
        ("phi", "rotary + pose(40) + ssmax"),
    ],
)
def test_checkpoints_give_the_gradients_of_a_plain_pass(kind: str, spec: str, reentrant: bool, ids: Tensor) -> None:
    # Phi drops out at random: a layer that is computed again must draw again what it drew, and nothing more.
    model, encoding = make(kind, **({"resid_pdrop": 0.3} if kind == "phi" else {})).train(), lw.build(spec, DIMS)
    with apply_to(model, encoding, raw=True):
        expected = gradients(model, encoding, ids)
        model.model._set_gradient_checkpointing(True, _checkpoint(reentrant))
        actual = gradients(model, encoding, ids)
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)


def _checkpoint(reentrant: bool) -> Any:
    def checkpoint(function: Any, *args: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=reentrant)

    return checkpoint


@pytest.mark.parametrize("spec", ["alibi", "rotary + self_extend(group=3, window=4)", "rotary + log_n(8)"])
@pytest.mark.parametrize("change", ["select", "repeat", "reorder"])
def test_rows_of_a_padded_cache_may_be_chosen_repeated_and_put_in_another_order(
    spec: str, change: str, ids: Tensor
) -> None:
    model = make("llama")
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    with apply_to(model, lw.build(spec, DIMS)), torch.no_grad():
        whole = model(ids, attention_mask=mask).logits[:, 8:]
        cache = model(ids[:, :8], attention_mask=mask[:, :8], use_cache=True).past_key_values
        if change == "select":
            rows = torch.tensor([1])
            cache.batch_select_indices(rows)
        elif change == "repeat":
            rows = torch.tensor([0, 0, 1, 1])
            cache.batch_repeat_interleave(2)
        else:
            rows = torch.tensor([1, 0])
            cache.reorder_cache(rows)
        more = model(ids[rows, 8:], attention_mask=mask[rows], cache=cache).logits
    torch.testing.assert_close(more, whole[rows], rtol=1e-4, atol=1e-4)


def test_rows_that_nothing_places_are_refused(ids: Tensor) -> None:
    model = make("llama")
    mask = torch.ones_like(ids)
    mask[1, :4] = 0
    with apply_to(model, lw.build("alibi", DIMS)), torch.no_grad():
        cache = model(ids[:, :8], attention_mask=mask[:, :8], use_cache=True).past_key_values
        cache.batch_repeat_interleave(2)
        with pytest.raises(lw.InvalidArgument, match="filled by 2 padded rows, and now has 4"):
            model(ids[[0, 0, 1, 1], 8:], attention_mask=None, cache=cache, position_ids=torch.arange(4).expand(4, -1))


def test_a_pickle_of_an_applied_model_is_refused_and_one_after_is_not(ids: Tensor) -> None:
    for kind, spec in (
        ("llama", "rotary + yarn(factor=4)"),
        ("llama", "alibi"),
        ("gpt2", "sinusoidal"),
        ("bloom", "t5"),
    ):
        model = make(kind)
        with apply_to(model, lw.build(spec, DIMS)), pytest.raises(lw.InvalidArgument, match="undo that"):
            pickle.dumps(model)
        with torch.no_grad():
            torch.testing.assert_close(pickle.loads(pickle.dumps(model))(ids).logits, model(ids).logits)


@pytest.mark.parametrize(("kind", "spec"), [("llama", "alibi"), ("gpt2", "sinusoidal"), ("bloom", "alibi")])
def test_a_copy_goes_its_own_way(kind: str, spec: str, ids: Tensor) -> None:
    model = make(kind)
    with apply_to(model, lw.build(spec, DIMS)), torch.no_grad():
        before = model(ids).logits
        other = copy.deepcopy(model).double()
        for weight in model.parameters():
            weight.zero_()
        assert other(ids).logits.dtype == torch.float64
        torch.testing.assert_close(other(ids).logits.float(), before, rtol=1e-3, atol=1e-3)


def test_a_copy_in_evaluation_draws_nothing_while_the_model_trains(ids: Tensor) -> None:
    model = make("llama")
    with apply_to(model, lw.build("rotary + pose(target_length=1000)", DIMS)), torch.no_grad():
        other = copy.deepcopy(model).eval()
        model.train()
        assert torch.equal(other(ids).logits, other(ids).logits)
        assert not torch.equal(model(ids).logits, model(ids).logits)


@pytest.mark.usefixtures("quick_switches")
def test_threads_do_not_see_each_others_positions(ids: Tensor) -> None:
    model = make("llama")
    wrong: list[object] = []
    with apply_to(model, lw.build("rotary + self_extend(group=3, window=4)", DIMS)):
        with torch.no_grad():
            expected = {length: model(ids[:, :length]).logits for length in (5, 8, 12)}

        def work(length: int) -> None:
            try:
                with torch.no_grad():
                    for _ in range(12):
                        logits = model(ids[:, :length]).logits
                        torch.testing.assert_close(logits, expected[length], rtol=1e-4, atol=1e-4)
            except (AssertionError, RuntimeError, IndexError, ValueError) as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(length,)) for length in expected]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 256,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
}
STRANGE = ["abc", True, False, [], [1], {"a": 1}, 0, -1, 2.5, float("nan"), float("inf"), 10**30, b"x", object()]
BESIDE = ["head_dim", "rope_parameters", "layer_types", "layer_rope_theta", "rope_scaling_layers", "per_layer_config"]
BESIDE += ["partial_rotary_factor", "rotary_dim", "sliding_window_pattern", "no_rope_layers", "no_rope_layer_interval"]


@pytest.mark.filterwarnings("ignore::lengthwise.hf.rope.ConfigNote")
@pytest.mark.parametrize("kind", ["llama", "smollm3", "gemma3_text", "phi", "gpt2", "falcon"])
def test_a_config_with_a_strange_value_is_read_or_refused_in_words(kind: str) -> None:
    # Any other error ends the test.
    for key in [*CONFIG, *BESIDE]:
        for value in STRANGE:
            with contextlib.suppress(lw.errors.LengthwiseError):
                encoding_from_config({**CONFIG, "model_type": kind, key: value})


@pytest.mark.filterwarnings("ignore::lengthwise.hf.rope.ConfigNote")
@pytest.mark.parametrize(
    "key", ["factor", "original_max_position_embeddings", "beta_fast", "mscale", "attention_factor"]
)
def test_rope_settings_with_a_word_for_a_number_are_refused(key: str) -> None:
    scaling = CONFIG["rope_scaling"] | {key: "abc"}
    with pytest.raises(lw.InvalidArgument, match="abc"):
        encoding_from_config({**CONFIG, "rope_scaling": scaling})


@pytest.mark.parametrize(
    ("key", "value"), [("hidden_size", "abc"), ("num_attention_heads", False), ("layer_types", True)]
)
def test_a_value_of_another_kind_is_told_by_its_key(key: str, value: object) -> None:
    with pytest.raises(lw.InvalidArgument, match=f"{key} must be .* not {value!r}"):
        encoding_from_config({**CONFIG, key: value})
