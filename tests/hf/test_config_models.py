from __future__ import annotations

import importlib
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel

import lengthwise as lw
from lengthwise.hf import ConfigNote, encoding_from_config

TINY = {
    "vocab_size": 32,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
EXPERTS = {"n_routed_experts": 2, "num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1}
LATENT = {"q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 16, "qk_nope_head_dim": 16, "v_head_dim": 16}
DEFAULT = {"rope_type": "default", "rope_theta": 1000000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.1 * m for m in range(8)],
    "long_factor": [1.0 + m for m in range(8)],
}
BY_TYPE = {
    "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama linear": ("llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}}),
    "llama dynamic": ("llama", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}}),
    "llama llama3": ("llama", {"rope_parameters": LLAMA3}),
    "qwen2 yarn": ("qwen2", {"rope_parameters": YARN}),
    "qwen3 yarn": ("qwen3", {"rope_parameters": YARN | {"beta_fast": 16.0, "attention_factor": 1.25}}),
    "mistral": ("mistral", {"rope_parameters": DEFAULT}),
    "gemma2": ("gemma2", {}),
    "gemma3": ("gemma3_text", {"rope_parameters": BY_TYPE, "sliding_window": 16}),
    "phi3 longrope": ("phi3", {"rope_parameters": LONGROPE, "original_max_position_embeddings": 64}),
    "phi3 part": ("phi3", {"rope_parameters": DEFAULT | {"partial_rotary_factor": 0.5}}),
    "gpt_neox": ("gpt_neox", {}),
    "gpt_oss": ("gpt_oss", {"rope_parameters": YARN | {"truncate": False}}),
    "smollm3": ("smollm3", {}),
    "cohere2": ("cohere2", {}),
    "glm": ("glm", {}),
    "qwen2_vl": ("qwen2_vl_text", {"rope_parameters": DEFAULT | {"mrope_section": [2, 3, 3]}}),
    "deepseek_v3": ("deepseek_v3", LATENT | {"rope_parameters": YARN | {"mscale": 1.0, "mscale_all_dim": 0.5}}),
    "ministral3": ("ministral3", {"rope_parameters": YARN | {"llama_4_scaling_beta": 0.1}}),
}  # fmt: skip
NEAR = [0, 1, 2, 3, 5, 31, 63]
FAR = [0, 1, 127, 4096, 65535, 131071]


def tiny(case: str) -> tuple[Any, Any, Any]:
    """Config, model and encoding of a case."""
    kind, settings = CASES[case]
    config = AutoConfig.for_model(kind, **{**TINY, **EXPERTS, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConfigNote)
        encoding = encoding_from_config(config)
    return config, AutoModel.from_config(config), encoding


def layer_of(encoding: Any, index: int) -> Any:
    layer = encoding[index] if isinstance(encoding, lw.PerLayer) else encoding
    return layer.parts[0] if isinstance(layer, lw.Combined) else layer


def cos_sin(model: Any, kind: str, positions: list[int], pairs: int) -> tuple[Tensor, Tensor]:
    """What the rotary module of a model makes of positions, one number a pair."""
    place = torch.tensor([positions])
    by_type = (kind,) if kind else ()
    cos, sin = model.rotary_emb(torch.zeros(1, 1), place, *by_type)
    step = 2 if cos.shape[-1] == 2 * pairs and torch.equal(cos[..., ::2], cos[..., 1::2]) else 1
    return cos[0, :, ::step][:, :pairs], sin[0, :, ::step][:, :pairs]


@pytest.mark.parametrize("positions", [NEAR, FAR], ids=["near", "far"])
@pytest.mark.parametrize("case", CASES)
def test_cosines_and_sines_are_those_of_the_model(case: str, positions: list[int]) -> None:
    config, model, encoding = tiny(case)
    kinds = (
        config.layer_types if any(isinstance(value, dict) for value in config.rope_parameters.values()) else [""] * 4
    )
    place = torch.tensor(positions)
    compared = 0
    for index, kind in enumerate(kinds):
        layer = layer_of(encoding, index)
        if isinstance(layer, lw.NoPE):
            continue
        ours = layer.rotation(lw.Positions(place, place))
        theirs = cos_sin(model, kind, positions, ours.q_cos.shape[-1])
        # They form angles in float32: a few roundings of the angle itself, of the largest frequency here.
        allowed = 4 * torch.finfo(torch.float32).eps * (2 + place.double())[:, None] * frequencies(layer, positions)
        for mine, other in zip((ours.q_cos, ours.q_sin), theirs, strict=True):
            assert mine.shape == other.shape
            assert ((mine - other).abs() <= allowed + 4e-7).all()
        compared += 1
    assert compared


def frequencies(layer: Any, positions: list[int]) -> Tensor:
    if isinstance(layer, lw.MRoPE):
        return layer.base ** -(torch.arange(0, layer.head_dim, 2, dtype=torch.float64) / layer.head_dim)
    at = getattr(layer, "spectrum_at", None)
    return (layer.spectrum if at is None else at(max(positions) + 1)).inv_freq


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("gemma3", "qwen2_vl")])
def test_frequencies_and_their_factor_are_those_of_the_model(case: str, close: Any) -> None:
    _, model, encoding = tiny(case)
    layer = layer_of(encoding, 0)
    spectrum = layer.spectrum_at(None) if hasattr(layer, "spectrum_at") else layer.spectrum
    close(spectrum.inv_freq.float(), model.rotary_emb.inv_freq)
    assert spectrum.attention_factor == pytest.approx(model.rotary_emb.attention_scaling, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("llama", "apply_rotary_pos_emb"),
        ("cohere2", "apply_rotary_pos_emb"),
        ("glm", "apply_rotary_pos_emb"),
        ("phi3 part", "apply_rotary_pos_emb"),
        ("gpt_oss", "apply_rotary_pos_emb"),
        ("deepseek_v3", "apply_rotary_pos_emb_interleave"),
    ],
)
def test_logits_are_those_of_the_models_own_rotation(kind: str, function: str, close: Any) -> None:
    _, model, encoding = tiny(kind)
    own = getattr(importlib.import_module(type(model).__module__), function)
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, len(NEAR), 16)
    place = torch.tensor(NEAR)
    theirs = own(q, k, *model.rotary_emb(q, place[None]))
    ours = layer_of(encoding, 0).rotation(lw.Positions(place, place))(q, k)
    close(ours[0] @ ours[1].mT, theirs[0] @ theirs[1].mT, times=64)  # sums of 16 products up to 10 each


def test_gpt_j_rotates_the_first_dims_in_neighbouring_pairs(close: Any) -> None:
    from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb, create_sinusoidal_positions

    encoding: Any = encoding_from_config({"model_type": "gptj", "n_embd": 64, "n_head": 4, "rotary_dim": 8})
    torch.manual_seed(0)
    x = torch.randn(1, 5, 4, 16)
    sin, cos = create_sinusoidal_positions(5, 8)[None].chunk(2, dim=-1)
    theirs = torch.cat((apply_rotary_pos_emb(x[..., :8], sin, cos), x[..., 8:]), dim=-1)
    close(encoding.rotation(lw.Positions.sequence(5)).q(x.transpose(1, 2)), theirs.transpose(1, 2))


def test_layers_without_rotation_are_those_of_the_model() -> None:
    _, model, encoding = tiny("smollm3")
    assert [bool(layer.self_attn.use_rope) for layer in model.layers] == [
        not isinstance(layer, lw.NoPE) for layer in encoding
    ]
    _, model, encoding = tiny("cohere2")
    assert [layer.self_attn.sliding_window is not None for layer in model.layers] == [
        not isinstance(layer, lw.NoPE) for layer in encoding
    ]


def test_m_rope_turns_each_pair_by_the_axis_of_the_model(close: Any) -> None:
    from transformers.models.qwen2_vl.modeling_qwen2_vl import apply_rotary_pos_emb

    _, model, encoding = tiny("qwen2_vl")
    place = torch.tensor([[[0, 0, 0], [1, 1, 2], [1, 3, 1], [7, 4, 9]]])
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 2, 4, 16)
    theirs = apply_rotary_pos_emb(q, k, *model.rotary_emb(q, place.permute(2, 0, 1)))
    ours = encoding.rotation(lw.Positions(place, place))(q, k)
    close(ours[0], theirs[0])
    close(ours[1], theirs[1])


def test_the_temperature_of_ministral_is_that_of_its_model(close: Any) -> None:
    from transformers.models.ministral3.modeling_ministral3 import get_llama_4_attn_scale

    _, _, encoding = tiny("ministral3")
    place = torch.tensor([0, 63, 64, 1000, 131071])
    theirs = get_llama_4_attn_scale(place[None], 0.1, 64)
    close(encoding.parts[1].rotation(lw.Positions(place, place)).factor.flatten(), theirs.flatten())


def test_llama_4_has_its_temperature_in_layers_without_rotation_only() -> None:
    config = AutoConfig.for_model("llama4_text", **{**TINY, **EXPERTS, "floor_scale": 16, "attn_scale": 0.2})
    encoding: Any = encoding_from_config(config)
    assert [type(layer).__name__ for layer in encoding] == ["Rotary", "Rotary", "Rotary", "QueryTemperature"]
    assert encoding[0].layout == "interleaved"
    assert repr(encoding[3]) == "QueryTemperature(floor=16, scale=0.2, offset=1)"


def test_gemma_4_has_heads_of_two_widths() -> None:
    encoding: Any = encoding_from_config(AutoConfig.for_model("gemma4_text"))
    assert repr(encoding[0]) == "Rotary(head_dim=256, base=10000, fraction=1, layout='half')"
    wide = "Rotary(head_dim=512, base=1e+06, fraction=1, layout='half')"
    assert repr(encoding[5]) == f"{wide} + Proportional(fraction=0.25)"
