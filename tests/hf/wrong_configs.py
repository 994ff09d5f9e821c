"""Configs with one planted fault each, and configs that are right: what an audit must find, and where it must not."""

from __future__ import annotations

from typing import Any

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "vocab_size": 64,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}
YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 1024,
}
LONGROPE: dict[str, Any] = {"rope_type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
PHI3: dict[str, Any] = {**LLAMA, "model_type": "phi3", "original_max_position_embeddings": 1024}
GEMMA3: dict[str, Any] = {
    **LLAMA,
    "model_type": "gemma3_text",
    "head_dim": 16,
    "rope_theta": None,
    "layer_types": ["sliding_attention", "full_attention"],
    "rope_parameters": {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    },
}


def scaled(settings: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**LLAMA, "rope_scaling": {**settings, **changes}}


def without(config: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name != key}


WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "a factor that is not max / original": ("factor-not-ratio", scaled(YARN, factor=8.0)),
    "a trained length above the longest": ("original-above-max", scaled(YARN, original_max_position_embeddings=8192)),
    "yarn betas in the wrong order": ("beta-order", scaled(YARN, beta_fast=1.0, beta_slow=32.0)),
    "llama3 factors in the wrong order": ("frequency-order", scaled(LLAMA3, low_freq_factor=4.0, high_freq_factor=1.0)),
    "an attention factor that contradicts the factor": ("attention-factor-differs", scaled(YARN, attention_factor=2.0)),
    "an attention factor of 0": ("attention-factor-range", scaled(YARN, attention_factor=0.0)),
    "one mscale without the other": ("mscale-alone", scaled(YARN, mscale=0.7)),
    "a longrope list of another model": (
        "longrope-list",
        {**PHI3, "rope_scaling": {**LONGROPE, "long_factor": [2.0] * 48}},
    ),
    "a longrope list that is a number": ("longrope-list", {**PHI3, "rope_scaling": {**LONGROPE, "short_factor": 1.0}}),
    "longrope divisors below 1": (
        "longrope-below-1",
        {**PHI3, "rope_scaling": {**LONGROPE, "long_factor": [0.5] + [2.0] * 7}},
    ),
    "no base": ("base-missing", without(LLAMA, "rope_theta")),
    "a base of 1": ("base-range", {**LLAMA, "rope_theta": 1.0}),
    "a key that is read by nothing": ("unknown-key", scaled(YARN, beta_quick=32.0)),
    "an old and a new dictionary": (
        "two-dictionaries",
        {**LLAMA, "rope_scaling": YARN, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}},
    ),
    "two bases": ("two-bases", {**LLAMA, "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "two types": ("two-types", scaled(YARN, type="linear")),
    "a factor below 1": ("factor-below-1", scaled({"rope_type": "linear"}, factor=0.25)),
    "a factor that is text": ("not-a-number", scaled({"rope_type": "linear"}, factor="4x")),
    "a type with a typing error": ("unknown-type", scaled(YARN, rope_type="yarm")),
    "a factor without a type": ("scaling-without-type", scaled({"factor": 4.0})),
    "a missing key": ("missing-key", {**LLAMA, "rope_scaling": without(LLAMA3, "low_freq_factor")}),
    "no trained length": (
        "original-missing",
        {**LLAMA, "rope_scaling": without(YARN, "original_max_position_embeddings")},
    ),
    "two trained lengths": (
        "two-originals",
        {**scaled(YARN, original_max_position_embeddings=2048), "original_max_position_embeddings": 1024},
    ),
    "a trained length that dynamic does not read": (
        "original-not-read",
        scaled({"rope_type": "dynamic", "factor": 4.0}, original_max_position_embeddings=1024),
    ),
    "two parts of a head": (
        "two-fractions",
        {**scaled(YARN, partial_rotary_factor=0.5), "partial_rotary_factor": 0.25},
    ),
    "a kind of layer without settings": (
        "layer-type-without-settings",
        {**GEMMA3, "rope_parameters": without(GEMMA3["rope_parameters"], "sliding_attention")},
    ),
    "settings for a kind of layer that is not there": (
        "settings-without-layer",
        {**GEMMA3, "layer_types": ["full_attention", "full_attention"]},
    ),
    "settings by kind of layer, and no kinds": ("layers-without-types", without(GEMMA3, "layer_types")),
}
"""For each planted fault, the code of the finding and the config."""

RIGHT: dict[str, dict[str, Any]] = {
    "plain": LLAMA,
    "transformers 5": {
        **without(LLAMA, "rope_theta"),
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    },
    "both spellings of one dictionary": {
        **LLAMA,
        "rope_parameters": {**YARN, "rope_theta": 10000.0},
        "rope_scaling": {**YARN, "rope_theta": 10000.0},
    },
    "linear": scaled({"type": "linear", "factor": 4.0}),
    "dynamic": scaled({"type": "dynamic", "factor": 2.0}),
    "yarn": scaled(YARN),
    "yarn as DeepSeek has it": scaled(YARN, mscale=1.0, mscale_all_dim=1.0, beta_fast=32, beta_slow=1),
    "yarn with the attention factor that it implies": scaled(YARN, attention_factor=1.13863),
    "yarn as Qwen advises it, with max_position_embeddings as it was": {
        **scaled(YARN, original_max_position_embeddings=4096),
        "model_type": "qwen2",
    },
    "llama 3.1, whose factor is no ratio of lengths": {**scaled(LLAMA3), "max_position_embeddings": 16384},
    "phi 3": {**PHI3, "rope_scaling": {**LONGROPE, "type": "longrope"}},
    "phi 3 by its old name": {
        **PHI3,
        "rope_scaling": {"type": "su", **{key: LONGROPE[key] for key in ("short_factor", "long_factor")}},
    },
    "gemma 3": GEMMA3,
    "gpt-neox": {
        **without(LLAMA, "rope_theta"),
        "model_type": "gpt_neox",
        "rotary_pct": 0.25,
        "rotary_emb_base": 10000,
    },
    "gpt-2": {"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 128},
    "bloom": {"model_type": "bloom", "hidden_size": 64, "n_head": 4, "n_layer": 2},
    "text part of a larger config": {"model_type": "gemma3", "text_config": GEMMA3},
}
"""Configs without any error or warning."""
