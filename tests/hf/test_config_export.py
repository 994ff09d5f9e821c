from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import nn
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import lengthwise as lw
from lengthwise.errors import InvalidArgument
from lengthwise.hf import encoding_from_config, to_llama_cpp, to_rope_parameters, to_rope_scaling, to_vllm
from lengthwise.spectrum import Spectrum

ROTARY = lw.Rotary(head_dim=16, base=500.0)
METHODS = [
    lw.Interpolate(factor=4.0),
    lw.DynamicNTK(factor=2.0, original_length=128),
    lw.YaRN(factor=4.0, original_length=64),
    lw.YaRN(factor=4.0, original_length=64, beta_fast=16.0, truncate=False, attention_factor=1.5),
    lw.YaRN(factor=4.0, original_length=64, mscale=1.0, mscale_all_dim=0.5),
    lw.LongRoPE([1.0] * 8, [float(1 + m) for m in range(8)], original_length=64, factor=8.0),
    lw.Llama3(factor=8.0, original_length=64),
    lw.Proportional(fraction=0.5, factor=2.0),
]


def config(settings: dict[str, Any]) -> LlamaConfig:
    return LlamaConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=128, rope_parameters=settings)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_what_is_written_makes_transformers_compute_the_same(method: Any, close: Any) -> None:
    encoding: Any = lw.extend(ROTARY, method)
    theirs = config(to_rope_parameters(encoding))
    for length in (64, 128, 1000):
        inv_freq, factor = ROPE_INIT_FUNCTIONS[theirs.rope_parameters["rope_type"]](theirs, seq_len=length)
        ours = encoding.spectrum_at(length)
        close(ours.inv_freq.float(), inv_freq)
        assert factor == pytest.approx(float(ours.attention_factor), rel=1e-12)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_what_is_written_for_either_release_is_read_back(method: Any) -> None:
    encoding = lw.extend(ROTARY, method)
    around = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 128}
    five = json.loads(json.dumps(to_rope_parameters(encoding)))
    assert repr(encoding_from_config(around | {"rope_parameters": five})) == repr(encoding)
    if not isinstance(method, lw.Proportional):
        assert repr(encoding_from_config(around | to_rope_scaling(encoding))) == repr(encoding)


def test_changes_of_the_base_become_a_base(close: Any) -> None:
    encoding: Any = lw.extend(lw.extend(ROTARY, lw.ChangeBase(base=1000.0)), lw.Interpolate(factor=2.0))
    assert to_rope_parameters(encoding) == {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}
    ntk: Any = lw.extend(ROTARY, lw.NTK(factor=4))
    made = to_rope_parameters(ntk)
    assert made["rope_type"] == "default"
    close(Spectrum.of_base(made["rope_theta"], 16).inv_freq, ntk.spectrum.inv_freq)


def test_plain_factors_in_a_row_are_one() -> None:
    twice = lw.extend(lw.extend(ROTARY, lw.Interpolate(factor=2.0)), lw.Interpolate(factor=3.0))
    assert to_rope_parameters(twice)["factor"] == 6.0


def test_settings_are_nested_by_layer_type_where_layers_differ() -> None:
    full, none = lw.extend(ROTARY, lw.Interpolate(factor=8.0)), lw.NoPE()
    types = ["sliding_attention", "full_attention", "linear_attention"]
    assert to_rope_parameters(lw.PerLayer([ROTARY, full, none]), types) == {
        "sliding_attention": {"rope_type": "default", "rope_theta": 500.0},
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 500.0},
        "linear_attention": None,
    }
    with pytest.raises(InvalidArgument, match="different encodings"):
        to_rope_parameters(lw.PerLayer([ROTARY, full, none]), ["a", "a", "b"])
    with pytest.raises(InvalidArgument, match="2 layer_types"):
        to_rope_parameters(lw.PerLayer([ROTARY, full, none]), ["a", "b"])


def test_parts_of_heads_sections_and_temperatures_are_written() -> None:
    assert to_rope_parameters(lw.Rotary(head_dim=16, fraction=0.5))["partial_rotary_factor"] == 0.5
    assert to_rope_scaling(lw.Rotary(head_dim=16)) == {"rope_theta": 10000.0, "rope_scaling": None}
    mrope = to_rope_parameters(lw.MRoPE(head_dim=16, sections=(4, 2, 2), interleaved=True))
    assert (mrope["mrope_section"], mrope["mrope_interleaved"]) == ([4, 2, 2], True)
    both = lw.Combined(lw.extend(ROTARY, METHODS[2]), lw.QueryTemperature(floor=64, scale=0.1, offset=0))
    assert to_rope_parameters(both)["llama_4_scaling_beta"] == 0.1


@pytest.mark.parametrize(
    ("encoding", "reason"),
    [
        (lw.ALiBi(heads=2), "ALiBi is another"),
        (lw.extend(ROTARY, lw.SelfExtend(group=2, window=8)), "SelfExtend"),
        (lw.extend(ROTARY, lw.NTK(factor=2, variant="su")), "no rope type for NTK"),
        (lw.extend(ROTARY, lw.YaRN(factor=2, original_length=64, ramp="rotations")), "in rotations"),
        (lw.extend(ROTARY, lw.LongRoPE(1.0, 2.0, original_length=64, factor=2)), "list of divisors"),
        (ROTARY.with_spectrum(ROTARY.spectrum.replace(inv_freq=ROTARY.spectrum.inv_freq * 2)), "by hand"),
        (lw.PerLayer([ROTARY, lw.NoPE()]), "layer_types"),
        (lw.Combined(ROTARY, lw.ALiBi(heads=2)), "one rotation"),
        (lw.Combined(ROTARY, lw.QueryTemperature()), "llama_4_scaling_beta has offset 0"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else str(value),
)
def test_what_transformers_can_not_say_is_refused(encoding: nn.Module, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        to_rope_parameters(encoding)


def test_transformers_4_has_no_proportional_type_and_no_layers_that_differ() -> None:
    with pytest.raises(InvalidArgument, match="transformers 5"):
        to_rope_scaling(lw.extend(ROTARY, lw.Proportional(fraction=0.5)))
    with pytest.raises(InvalidArgument, match="no one place"):
        to_rope_scaling(lw.PerLayer([ROTARY, lw.NoPE()]))


def test_vllm_is_told_the_settings_and_the_lengths_that_it_goes_by() -> None:
    yarn = lw.extend(ROTARY, METHODS[2])
    assert to_vllm(yarn) == {"rope_parameters": to_rope_parameters(yarn)}
    long = to_vllm(lw.extend(ROTARY, METHODS[5]))
    assert (long["max_position_embeddings"], long["original_max_position_embeddings"]) == (512, 64)
    su = to_vllm(lw.extend(ROTARY, lw.NTK(factor=4, variant="su")))
    assert su == {"rope_parameters": {"rope_type": "ntk", "factor": 4, "rope_theta": 500.0}}
    assert to_vllm(ROTARY) == {"rope_parameters": {"rope_type": "default", "rope_theta": 500.0}}


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (lw.DynamicNTK(factor=2, original_length=64), "once"),
        (lw.LongRoPE([1.0] * 8, [2.0] * 8, original_length=64, attention_factor=1.0), "lengths of the config"),
        (lw.YaRN(factor=2, original_length=64, mscale=0.7), "alone"),
        (lw.Proportional(fraction=0.5, factor=2), "ignores the factor"),
        (lw.ReRoPE(window=8), "ReRoPE"),
    ],
    ids=repr,
)
def test_what_vllm_would_do_otherwise_is_refused(method: Any, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        to_vllm(lw.extend(ROTARY, method))


def test_layers_that_differ_are_refused_by_engines_whose_settings_are_for_all() -> None:
    for target in (to_vllm, to_llama_cpp):
        with pytest.raises(InvalidArgument, match="differ"):
            target(lw.PerLayer([ROTARY, lw.NoPE()]))


@pytest.mark.parametrize(
    "method",
    [
        lw.YaRN(factor=4.0, original_length=64),
        lw.YaRN(factor=4.0, original_length=256, beta_fast=16.0, beta_slow=2.0, attention_factor=1.5),
        lw.Interpolate(factor=3.0),
        lw.NTK(factor=4),
    ],
    ids=repr,
)
def test_the_arguments_of_llama_cpp_lead_to_the_same_rotation(method: Any, close: Any) -> None:
    encoding: Any = lw.extend(ROTARY, method)
    words = to_llama_cpp(encoding)
    given = dict(zip(words[::2], words[1::2], strict=True))
    inv_freq, factor = of_llama_cpp(given, base=500.0, dims=16)
    close(encoding.spectrum.inv_freq, inv_freq, of=torch.float32)  # arguments have nine digits
    assert encoding.spectrum.attention_factor == pytest.approx(factor, rel=1e-8)


def of_llama_cpp(given: dict[str, str], base: float, dims: int) -> tuple[torch.Tensor, float]:
    """Frequencies and factor of cosines and sines by the formulas of its rotation, written anew from their text."""
    base = float(given.get("--rope-freq-base", base))
    scale = 1 / float(given.get("--rope-scale", 1))
    m = torch.arange(dims // 2, dtype=torch.float64)
    plain = base ** (-2 * m / dims)
    if given["--rope-scaling"] != "yarn":
        return plain * scale, 1.0

    def pair_of(turns: float) -> float:
        length = float(given["--yarn-orig-ctx"])
        return dims * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(base))

    low = max(0, math.floor(pair_of(float(given.get("--yarn-beta-fast", 32)))))
    high = min(dims - 1, math.ceil(pair_of(float(given.get("--yarn-beta-slow", 1)))))
    kept = 1 - ((m - low) / max(0.001, high - low)).clamp(0, 1)
    factor = float(given.get("--yarn-attn-factor", 1)) * (1 + 0.1 * math.log(1 / scale))
    return plain * scale * (1 - kept) + plain * kept, factor


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (lw.Llama3(factor=8.0, original_length=64), "GGUF"),
        (lw.YaRN(factor=2, original_length=64, truncate=False), "rounded ends"),
        (lw.DynamicNTK(factor=2, original_length=64), "no arguments for DynamicNTK"),
        (lw.SelfExtend(group=2, window=8), "SelfExtend"),
    ],
    ids=repr,
)
def test_what_llama_cpp_has_no_arguments_for_is_refused(method: Any, reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        to_llama_cpp(lw.extend(ROTARY, method))
