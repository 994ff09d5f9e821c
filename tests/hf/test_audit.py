"""An audit finds what is planted, and nothing where nothing is wrong."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

import lengthwise as lw
from lengthwise.errors import DataError, InvalidArgument
from lengthwise.hf.audit import audit
from lengthwise.hf.checks import check_config
from lengthwise.hf.frequencies import pairs


def beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hf_test_{name}", Path(__file__).parent / f"{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


models, configs = beside("models"), beside("wrong_configs")


@pytest.mark.parametrize("fault", configs.WRONG)
def test_a_planted_fault_is_found_and_nothing_else(fault: str) -> None:
    code, config = configs.WRONG[fault]
    found = {one.code for one in check_config(config) if one.level != "note"}
    assert found == {code}


@pytest.mark.parametrize("name", configs.RIGHT)
def test_a_right_config_is_clean(name: str) -> None:
    assert [one for one in check_config(configs.RIGHT[name]) if one.level != "note"] == []


@pytest.mark.parametrize("fault", configs.WRONG)
def test_an_audit_reports_what_the_checks_find(fault: str) -> None:
    code, config = configs.WRONG[fault]
    report = audit(config)
    assert code in {one.code for one in report.findings}
    assert not report.ok
    assert code in str(report)


@pytest.mark.parametrize("name", configs.RIGHT)
def test_an_audit_of_a_right_config_is_clean_and_says_that_nothing_was_measured(name: str) -> None:
    report = audit(configs.RIGHT[name])
    assert report.ok, report.findings
    assert report.used
    assert "Measured: nothing, this is a config without weights" in str(report)


def test_pairs_are_counted_by_hand() -> None:
    # base 10000 and 8 dims: speeds 1, 0.1, 0.01, 0.001; 700 tokens turn the third 700 * 0.01 / 6.283 = 1.11 times
    found = pairs(lw.Rotary(8), trained=700, target=1400)
    assert [pair.full for pair in found] == [True, True, True, False]
    assert [pair.unseen for pair in found] == [False, False, False, True]
    assert found[2].turns == pytest.approx(7 / math.tau)
    assert found[3].wavelength == pytest.approx(1000 * math.tau)
    assert found[3].turns_at == pytest.approx(1.4 / math.tau)


def test_interpolation_brings_every_pair_to_known_angles_and_slows_all() -> None:
    found = pairs(lw.extend(lw.Rotary(8), lw.Interpolate(2)), trained=700, target=1400)
    assert not any(pair.unseen for pair in found)
    assert [pair.slowed for pair in found] == pytest.approx([2.0] * 4)
    assert any(pair.unseen for pair in pairs(lw.extend(lw.Rotary(8), lw.Interpolate(2)), trained=700, target=1401))


def test_a_sound_model_is_measured_as_sound() -> None:
    report = audit(models.make("llama"), to=128)
    assert {one.code for one in report.measured if one.error is not None} == {
        "cached",
        "padded-left",
        "padded-right",
        "shifted",
        "cached-across",
    }
    assert all(one.ok for one in report.measured)
    assert report.ok
    assert "yarn(factor=2, original_length=64)" in report.advice[0]


def test_frequencies_that_follow_the_length_are_measured_to_spoil_a_cache() -> None:
    rope = {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}
    report = audit(models.make("llama", rope_parameters=rope), to=128)
    assert [one.code for one in report.findings] == ["cached-across-differs"]


def test_a_model_whose_mask_is_broken_is_measured_as_broken() -> None:
    model = models.make("llama")
    forward = model.model.forward
    model.model.forward = lambda *args, **more: forward(*args, **{**more, "attention_mask": None})
    codes = {one.code for one in audit(model).findings}
    assert "padded-left-differs" in codes


def test_narrow_frequencies_in_a_model_are_found() -> None:
    model = models.make("llama").bfloat16()
    assert "narrow-tables" in {one.code for one in audit(model).findings}
    rotary = model.model.rotary_emb
    rotary.inv_freq = rotary.inv_freq.bfloat16()
    found = audit(model, measured=True)
    assert "narrow-frequencies" in {one.code for one in found.findings}
    assert found.dtype == "bfloat16"


def test_frequencies_that_are_not_those_of_the_config_are_found() -> None:
    model = models.make("llama")
    model.model.rotary_emb.inv_freq.mul_(0.5)
    assert "frequencies-differ" in {one.code for one in audit(model).findings}


def test_angles_far_out_and_narrow_biases_are_found() -> None:
    far = audit(configs.LLAMA, to=10_000_000)
    assert "float32-angles" in {one.code for one in far.findings}
    bloom = {**configs.RIGHT["bloom"], "torch_dtype": "bfloat16", "seq_length": 2048}
    assert "narrow-bias" in {one.code for one in audit(bloom, to=2048).findings}


def test_json_keeps_its_keys_and_holds_no_infinity() -> None:
    found = audit(configs.RIGHT["yarn"], to=8192).as_dict()
    assert list(found) == [
        "model",
        "model_type",
        "dtype",
        "trained_length",
        "stated_length",
        "target_length",
        "ok",
        "encodings",
        "findings",
        "measured",
        "skipped",
        "advice",
    ]
    assert list(found["encodings"][0]) == ["encoding", "layers", "pairs"]
    json.loads(json.dumps(found, allow_nan=False))
    assert (found["trained_length"], found["stated_length"], found["target_length"]) == (1024, 4096, 8192)


def test_a_folder_with_and_without_weights(tmp_path: Path) -> None:
    models.make("llama").save_pretrained(tmp_path)
    assert audit(tmp_path).measured
    assert "not asked for" in audit(tmp_path, measured=False).skipped
    (tmp_path / "model.safetensors").unlink()
    report = audit(tmp_path)
    assert (report.measured, report.skipped) == ((), "the folder has a config and no weights")
    assert report.ok
    assert audit(tmp_path / "config.json").ok
    (tmp_path / "model.safetensors").write_bytes(b"none")
    assert "not-loaded" in {one.code for one in audit(tmp_path).findings}
    with pytest.raises(DataError, match="no file or folder"):
        audit(tmp_path / "nothing")
    with pytest.raises(InvalidArgument, match="at least 1, not 0"):
        audit(tmp_path, to=0)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**configs.RIGHT["gpt-2"]}, "learned + resample(512)"),
        ({**configs.RIGHT["bloom"], "max_position_embeddings": 256}, "alibi + interpolate(factor=2)"),
        (
            {
                "model_type": "t5",
                "d_model": 64,
                "num_heads": 4,
                "relative_attention_num_buckets": 32,
                "relative_attention_max_distance": 128,
                "n_positions": 256,
            },
            "from distance 128 on",
        ),
    ],
)
def test_other_encodings_are_told_what_a_longer_context_does(config: dict[str, object], words: str) -> None:
    assert words in str(audit(config, to=512))


def test_the_two_dictionaries_of_versions_4_and_5_may_differ_in_where_the_base_stands() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "max_position_embeddings": 256,
        "original_max_position_embeddings": 128,
        "rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
        "rope_scaling": {"rope_type": "linear", "factor": 2.0},
        "rope_theta": 10000.0,
    }
    found = audit(config, to=512)
    assert [one.code for one in found.findings if one.code == "two-dictionaries"] == []
    assert found.trained == 128
    config["rope_scaling"] = {"rope_type": "linear", "factor": 4.0}
    assert "two-dictionaries" in [one.code for one in audit(config, to=512).findings]
