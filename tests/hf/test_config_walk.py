from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest
import transformers
from transformers import CONFIG_MAPPING
from transformers.models.auto.configuration_auto import model_type_to_module_name

import lengthwise as lw
from lengthwise.errors import InvalidArgument
from lengthwise.hf import ConfigNote, encoding_from_config, to_rope_parameters

# Everything with rope settings that can't be read, with the words that say why.
UNREAD = {
    "blt": "several parts",  # five models in one, each of which is read
    "cohere_compass_text": "rope_parameters is empty",  # nor does its own model build from its defaults
    "deepseek_v4": "the last dims",
    "efficientloftr": "row and column",
    "eomt_dinov3": "row and column",
    "esm": "pad_token_id",  # with the default of its class, a learned table and no rotation
    "glm4_moe": "leaves 21",  # the sizes of its class alone are impossible; what is released says head_dim
    "glm4v_moe_text": "for 32 pairs",  # the sizes of its class alone are impossible
    "llama4_vision_model": "row and column",
    "nanochat": "the other way round",
    "qwen3_omni_moe_text": "for 64 pairs",  # the sizes of its class alone are impossible
}
# M-RoPE that MRoPE does not have: axes arranged otherwise, or sections that by default do not fit the head. Read as
# RoPE for text.
TEXT_ONLY = {
    "ernie4_5_vl_moe_text",
    "glm4v_text",
    "glm_image_text",
    "hunyuan_vl_text",
    "qwen3_omni_moe_talker_text",
    "qwen4_exp_text",
}


def with_rope_settings() -> dict[str, dict[str, Any]]:
    """The default config of every class that has rope settings, as a dictionary."""
    found: dict[str, dict[str, Any]] = {}
    folder = Path(transformers.__file__).parent / "models"
    for name in CONFIG_MAPPING:
        module = model_type_to_module_name(name)
        source = folder / module / f"configuration_{module}.py"
        if not source.exists() or "rope_parameters" in source.read_text(encoding="utf-8"):  # spares most imports
            kind = CONFIG_MAPPING[name]
            if "rope_parameters" not in {field.name for field in dataclasses.fields(kind)}:
                continue
            settings = kind().to_dict()
            # What has a text part is read there; its own settings are of something else (Music Flamingo: of time).
            if settings.get("rope_parameters") is not None and "text_config" not in settings:
                found[name] = settings
    return found


@pytest.fixture(scope="module")
def configs() -> dict[str, dict[str, Any]]:
    return with_rope_settings()


def read(name: str, config: dict[str, Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConfigNote)
        return encoding_from_config(config, text_only=name in TEXT_ONLY)


def is_axial(config: dict[str, Any]) -> bool:
    return config["rope_parameters"].get("rope_type") == "axial"


def test_every_config_with_rope_settings_is_read_and_comes_back_the_same(configs: dict[str, dict[str, Any]]) -> None:
    assert len(configs) > 200
    for name, config in configs.items():
        if name in UNREAD or is_axial(config):
            continue
        encoding = read(name, config)
        again = read(name, config | {"rope_parameters": written(encoding, config)})
        assert repr(again) == repr(encoding), name
        if isinstance(encoding, lw.PerLayer):
            assert [repr(layer) for layer in again] == [repr(layer) for layer in encoding], name


def written(encoding: Any, config: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(encoding, lw.PerLayer):
        return config["rope_parameters"] if isinstance(encoding, lw.NoPE) else to_rope_parameters(encoding)
    if any(value is None or isinstance(value, dict) for value in config["rope_parameters"].values()):
        return to_rope_parameters(encoding, config["layer_types"])
    rotating = next(layer for layer in encoding if not isinstance(layer, lw.NoPE | lw.QueryTemperature))
    return to_rope_parameters(rotating)  # which layers do not rotate is said elsewhere in these configs


def test_what_is_written_has_the_type_and_the_base_of_the_config(configs: dict[str, dict[str, Any]]) -> None:
    for name, config in configs.items():
        given = config["rope_parameters"]
        if name in UNREAD or is_axial(config) or "rope_theta" not in given:
            continue
        made = written(read(name, config), config)
        assert (made["rope_type"], made["rope_theta"]) == (given["rope_type"], given["rope_theta"]), name


def test_what_can_not_be_read_says_why(configs: dict[str, dict[str, Any]]) -> None:
    axial = {name for name, config in configs.items() if is_axial(config)}
    assert len(axial) > 30
    for name in axial:
        with pytest.raises(InvalidArgument, match=r"row and column|several parts"):
            encoding_from_config(configs[name])
    for name, reason in UNREAD.items():
        config = configs.get(name) or CONFIG_MAPPING[name]().to_dict()
        with pytest.raises(InvalidArgument, match=reason):
            read(name, config)


def test_m_rope_that_this_package_does_not_have_is_refused_unless_for_text(configs: dict[str, dict[str, Any]]) -> None:
    for name in TEXT_ONLY:
        with pytest.raises(InvalidArgument, match="text_only"):
            read("", configs[name])
