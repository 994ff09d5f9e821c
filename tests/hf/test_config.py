from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING

import lengthwise as lw
from lengthwise.errors import DataError, InvalidArgument
from lengthwise.hf import ConfigNote, dims_from_config, encoding_from_config, first_row

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "max_position_embeddings": 128,
    "rope_theta": 10000.0,
}
BARE = {key: value for key, value in LLAMA.items() if key != "rope_theta"}
LONGROPE = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [4.0] * 8}

# As files of transformers 4 have them.
FOUR: dict[str, dict[str, Any]] = {
    "linear by its old key": LLAMA | {"rope_scaling": {"type": "linear", "factor": 4.0}},
    "dynamic": LLAMA | {"rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "yarn without a length": LLAMA | {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    "yarn with mscale": LLAMA
    | {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mscale": 0.707}},
    "phi3": LLAMA | {"model_type": "phi3", "original_max_position_embeddings": 32, "rope_scaling": LONGROPE},
    "llama without a base": BARE,
    "gpt_neox": BARE | {"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 500},
    "gemma3": LLAMA
    | {
        "model_type": "gemma3_text",
        "head_dim": 16,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "sliding_window_pattern": 3,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
    },
    "olmo3": LLAMA | {"model_type": "olmo3", "rope_theta": 5e5, "rope_scaling": {"rope_type": "linear", "factor": 8.0}},
    "cohere2": LLAMA | {"model_type": "cohere2", "sliding_window_pattern": 2, "head_dim": 16, "sliding_window": 8},
    "smollm3 without its layers": LLAMA | {"model_type": "smollm3"},
    "qwen2_vl": LLAMA | {"model_type": "qwen2_vl_text", "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}},
    "stablelm": LLAMA | {"model_type": "stablelm", "partial_rotary_factor": 0.25},
    "minimax_m2": LLAMA | {"model_type": "minimax_m2", "head_dim": 16, "rotary_dim": 8},
}


def quietly(config: Any, **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConfigNote)
        return encoding_from_config(config, **settings)


def layers(encoding: Any, count: int) -> list[str]:
    return [repr(layer) for layer in encoding] if isinstance(encoding, lw.PerLayer) else [repr(encoding)] * count


@pytest.mark.parametrize("name", FOUR)
def test_a_config_of_transformers_4_is_read_as_transformers_5_reads_it(name: str) -> None:
    config = FOUR[name]
    theirs = CONFIG_MAPPING[config["model_type"]].from_dict(dict(config))
    assert layers(quietly(config), 4) == layers(quietly(theirs), 4)


def test_modernbert_has_a_base_for_each_kind_of_layer() -> None:
    config = BARE | {"model_type": "modernbert", "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0}
    encoding = quietly(config | {"local_rope_theta": 10000.0})
    assert [layer.base for layer in encoding] == [160000.0, 10000.0, 10000.0, 160000.0]


def test_the_first_name_of_longrope_is_known() -> None:
    now = LLAMA | {"model_type": "phi3", "original_max_position_embeddings": 32, "rope_scaling": LONGROPE}
    before = now | {"rope_scaling": LONGROPE | {"type": "su"}}
    assert repr(encoding_from_config(before)) == repr(encoding_from_config(now))


def test_the_length_beside_the_settings_wins_over_the_one_within() -> None:
    within = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
    encoding = encoding_from_config(LLAMA | {"rope_scaling": within, "original_max_position_embeddings": 32})
    assert encoding.method.original_length == 32


def test_truncate_holds_in_settings_by_layer_type_too() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "truncate": False}
    settings = {"full_attention": yarn | {"rope_theta": 1e4}, "sliding_attention": {"rope_theta": 1e4}}
    types = ["full_attention", "sliding_attention"]
    encoding: Any = encoding_from_config(LLAMA | {"rope_parameters": settings, "layer_types": types})
    assert encoding[0].method.truncate is False
    assert repr(encoding[1]) == "Rotary(head_dim=16, base=10000, fraction=1, layout='half')"


def test_a_layer_type_without_settings_is_told_and_null_means_no_rotation() -> None:
    settings = {"full_attention": None, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    config = LLAMA | {"rope_parameters": settings}
    encoding: Any = encoding_from_config(config | {"layer_types": ["full_attention", "sliding_attention"]})
    assert [type(layer).__name__ for layer in encoding] == ["NoPE", "Rotary"]
    with pytest.raises(InvalidArgument, match="'sliding_attention'"):
        encoding_from_config(config | {"layer_types": ["full_attention", "sliding_atention"]})


def test_hunyuan_s_alpha_is_a_base_of_its_own() -> None:
    encoding = encoding_from_config(LLAMA | {"rope_scaling": {"type": "dynamic", "alpha": 1000.0, "factor": 1.0}})
    assert encoding.spectrum.base == pytest.approx(1e4 * 1000 ** (16 / 14))


def test_molmo_scales_some_layers_only() -> None:
    config = LLAMA | {"model_type": "molmo2_text", "rope_scaling_layers": [0, 2]}
    encoding: Any = encoding_from_config(config | {"rope_scaling": {"rope_type": "linear", "factor": 8.0}})
    assert [hasattr(layer, "method") for layer in encoding] == [True, False, True, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "lama"}, "did you mean 'llama'"),
        ({"model_type": None}, "no model_type"),
        ({"rope_scaling": {"rope_type": "yarm", "factor": 2.0}}, "did you mean 'yarn'"),
        ({"rope_scaling": {"rope_type": "linear", "facto": 2.0}}, "did you mean 'factor'"),
        ({"rope_scaling": {"rope_type": "linear"}}, "need 'factor'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, "need 'low_freq_factor'"),
        ({"hidden_size": None}, "no dim: it needs hidden_size"),
        ({"head_dim": 7}, "choose an even head_dim"),
        ({"rope_parameters": {}, "rope_theta": None}, "rope_parameters is empty"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 0.5}}, "at least 1"),
    ],
)
def test_what_a_config_has_wrong_is_told(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        encoding_from_config(LLAMA | change)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**LLAMA, "rope_theta": None}, "rope_theta is not given: 10000"),
        ({**LLAMA, "rope_theta": None, "model_type": "smollm3", "no_rope_layers": [1, 0, 1, 1]}, "2e\\+06 was taken"),
        ({**LLAMA, "model_type": "gpt_neox"}, "partial_rotary_factor is not given: 0.25"),
        ({**LLAMA, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "max_position_embeddings, 128, was taken"),
    ],
)
def test_what_a_config_leaves_to_the_class_of_its_model_is_told(config: dict[str, Any], message: str) -> None:
    with pytest.warns(ConfigNote, match=message):
        encoding_from_config(config)


def test_deepseek_s_softmax_scale_is_told_since_it_is_no_rotation() -> None:
    yarn = {
        "type": "yarn",
        "factor": 40,
        "original_max_position_embeddings": 4096,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
    }
    config = LLAMA | {"model_type": "deepseek_v3", "qk_rope_head_dim": 16, "rope_scaling": yarn}
    with pytest.warns(ConfigNote, match="by 1.87385"):
        encoding = encoding_from_config(config)
    assert encoding.spectrum.attention_factor == 1.0
    assert encoding.unextended.layout == "interleaved"
    assert quietly(config | {"rope_interleave": False}).unextended.layout == "half"


def test_the_text_part_of_a_config_is_found() -> None:
    whole = {"model_type": "llava", "text_config": LLAMA, "vision_config": {"model_type": "clip_vision_model"}}
    assert repr(encoding_from_config(whole)) == repr(encoding_from_config(LLAMA))
    with pytest.raises(InvalidArgument, match="give one of decoder, encoder"):
        encoding_from_config({"model_type": "encoder-decoder", "encoder": LLAMA, "decoder": LLAMA})


def test_a_file_a_folder_and_a_config_object_give_the_same(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA))
    made = {repr(encoding_from_config(one)) for one in (LLAMA, file, str(file), tmp_path)}
    made.add(repr(encoding_from_config(CONFIG_MAPPING["llama"].from_dict(dict(LLAMA)))))
    assert made == {"Rotary(head_dim=16, base=10000, fraction=1, layout='half')"}


def test_a_folder_without_transformers_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InvalidArgument, match=r"pip install 'lengthwise\[hf\]'"):
        encoding_from_config(tmp_path)


def test_files_that_can_not_be_read_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing is downloaded"):
        encoding_from_config("meta-llama/Llama-3.1-8B")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(DataError, match="is not JSON"):
        encoding_from_config(tmp_path / "bad.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(DataError, match="no object"):
        encoding_from_config(tmp_path / "list.json")
    with pytest.raises(DataError, match="can't read a config"):
        encoding_from_config(tmp_path)
    with pytest.raises(InvalidArgument, match="not int"):
        encoding_from_config(3)


def test_the_package_reads_dictionaries_without_loading_transformers() -> None:
    code = (
        f"import sys; from lengthwise.hf import encoding_from_config; encoding_from_config({LLAMA!r}); "
        "assert 'transformers' not in sys.modules"
    )
    source = Path(__file__).parents[2] / "src"
    subprocess.run([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(source)}, check=True)


def test_bloom_and_mpt_have_alibi_at_the_slopes_of_their_models(close: Any) -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor
    from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

    bloom: Any = encoding_from_config({"model_type": "bloom", "hidden_size": 64, "n_head": 6})
    last = build_alibi_tensor(torch.ones(1, 4), 6, torch.float32)[:, 0, 1]
    close(torch.tensor(bloom.slopes), last)
    mpt: Any = encoding_from_config({"model_type": "mpt", "n_heads": 6, "attn_config": {"alibi_bias_max": 4}})
    close(-bloom_like(mpt), build_mpt_alibi_tensor(6, 2, alibi_bias_max=4)[:, 0, 0])


def bloom_like(encoding: Any) -> torch.Tensor:
    return torch.tensor(encoding.slopes)


def test_falcon_divides_its_bias_by_the_root_of_head_dim(close: Any) -> None:
    falcon: Any = encoding_from_config(
        {"model_type": "falcon", "alibi": True, "hidden_size": 64, "num_attention_heads": 4}
    )
    positions = lw.Positions.sequence(5)
    close(falcon.logit_bias(positions).dense(), lw.ALiBi(heads=4).logit_bias(positions).dense() / 4)
    assert isinstance(quietly(CONFIG_MAPPING["falcon"]()), lw.Rotary)


def test_t5_has_two_biases_and_asks_which() -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    config = CONFIG_MAPPING["t5"](num_heads=2)
    with pytest.raises(InvalidArgument, match="bidirectional=True is that of the encoder"):
        encoding_from_config(config)
    distance = torch.arange(-200, 200)
    for both in (False, True):
        encoding: Any = encoding_from_config(config, bidirectional=both)
        with torch.no_grad():
            encoding.table.copy_(torch.arange(32.0)[:, None].expand(32, 2))
        theirs = T5Attention._relative_position_bucket(-distance, both, 32, 128)
        assert torch.equal(encoding.of_distance(distance)[0], theirs.float())
    with pytest.raises(InvalidArgument, match="one encoding"):
        encoding_from_config(LLAMA, bidirectional=True)


@pytest.mark.parametrize(
    ("kind", "row", "length"),
    [("gpt2", 0, 1024), ("opt", 2, 2048), ("bert", 0, 512), ("bart", 2, 1024), ("roberta", 2, 510)],
)
def test_learned_tables_have_the_positions_of_their_models(kind: str, row: int, length: int) -> None:
    config = CONFIG_MAPPING[kind]()
    encoding: Any = encoding_from_config(config)
    assert isinstance(encoding, lw.Learned)
    assert (first_row(config), encoding.max_position) == (row, length)


def test_models_without_any_encoding_have_none() -> None:
    assert isinstance(encoding_from_config({"model_type": "jamba"}), lw.NoPE)
    assert isinstance(quietly(CONFIG_MAPPING["granitemoehybrid"]()), lw.NoPE)
    with pytest.raises(InvalidArgument, match="no learned table"):
        first_row(LLAMA)


def test_sizes_are_found_under_all_their_names() -> None:
    assert dims_from_config(LLAMA | {"num_key_value_heads": 2, "original_max_position_embeddings": 32}) == lw.Dims(
        dim=64, heads=4, head_dim=16, layers=4, max_length=128, kv_heads=2, trained_length=32
    )
    gpt2 = dims_from_config(CONFIG_MAPPING["gpt2"]())
    assert gpt2 == lw.Dims(dim=768, heads=12, layers=12, max_length=1024)
    assert dims_from_config(CONFIG_MAPPING["falcon"]()).kv_heads == 1
    deepseek = dims_from_config(CONFIG_MAPPING["deepseek_v3"]())
    assert (deepseek.head_dim, deepseek.heads, deepseek.kv_heads) == (64, 128, 128)
    with pytest.raises(InvalidArgument, match="no layers: it needs num_hidden_layers"):
        dims_from_config(LLAMA | {"num_hidden_layers": None})
