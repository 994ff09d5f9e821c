"""YaRN in `transformers`: its ramp, its ends, what DeepSeek makes of its factor, and parameters by layer type."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact_extensions as exact
from lengthwise.agreement.comparison import Comparison
from lengthwise.agreement.ours import encoding
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import Place
from lengthwise.agreement.rope_of_transformers import FACTOR, LENGTH, ORIGINAL, PEER, row, turned, typed


def _nested(place: Place) -> Tensor:
    """By the module of Gemma 3, whose layers have parameters by their type."""
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    yarn = {**plain, "rope_type": "yarn", "factor": 16.0, ORIGINAL: LENGTH, "truncate": False}
    config = module("transformers").Gemma3TextConfig(
        hidden_size=256,
        num_attention_heads=4,
        head_dim=64,
        num_hidden_layers=2,
        max_position_embeddings=FACTOR * LENGTH,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": plain, "full_attention": yarn},
    )
    return turned(model("gemma3").Gemma3RotaryEmbedding(config), place, layer_type="full_attention")


def _softmax_scale(place: Place) -> Tensor:
    """What the attention of DeepSeek V3 multiplies its scale by."""
    yarn = {"rope_type": "yarn", "factor": 16.0, ORIGINAL: LENGTH, "mscale": 0.707, "mscale_all_dim": 1.0}
    return torch.tensor([model("deepseek_v3").yarn_apply_mscale(yarn, 1.0)], dtype=torch.float64)


def _yarn(part: str, spec: str, multiplier: float, **parameters: Any) -> Comparison:
    given: dict[str, Any] = {"factor": 16.0, ORIGINAL: LENGTH, **parameters}
    by_formula = exact.rotated(exact.by_index(FACTOR, LENGTH, parameters.get("truncate", True)), multiplier=multiplier)
    return row(f"rotary + yarn(factor=16, original_length=4096{spec})", part, typed("yarn", **given), by_formula)


_RAMP = (
    "The paper's ramp (Peng et al. 2023, section 3.2) is a line in the number of turns of a pair; the code of its "
    "authors, `transformers` and our default have a line in the index of the pair, and checkpoints are made with it. "
    "With `ramp='rotations'` ours follows the paper: at positions 0 to 127 it is {ours_float32} from the paper's "
    "formula, theirs {theirs_float32}, and the two differ by {float32}. For a checkpoint the default is right: its row "
    "is `yarn`."
)
_NESTED = (
    "Where layers of different types have parameters of their own, as in Gemma 3, `transformers` 5.24 looks for "
    "`truncate` beside the types and not within the type: `truncate=False` is not seen there, and the ramp is rounded "
    "to whole pairs. q and k differ by {float32} at positions 0 to 127; from the formula with `truncate=False` theirs "
    "is off by {theirs_float32}, ours by {ours_float32}. Parameters without types are read as given: the row `yarn, "
    "not truncated`."
)
_A = exact.yarn_multiplier(FACTOR)
_DEEPSEEK = "rotary + yarn(factor=16, original_length=4096, mscale=0.707, mscale_all_dim=1.0)"

COMPARISONS = (
    _yarn("yarn", "", _A),
    _yarn("yarn, not truncated", ", truncate=False", _A, truncate=False),
    _yarn(
        "yarn, mscale 0.707",
        ", mscale=0.707, mscale_all_dim=1.0",
        exact.yarn_multiplier(FACTOR, 0.707) / _A,
        mscale=0.707,
        mscale_all_dim=1.0,
    ),
    _yarn("yarn, mscale 1", ", mscale=1.0, mscale_all_dim=1.0", 1.0, mscale=1.0, mscale_all_dim=1.0),
    Comparison(
        _DEEPSEEK,
        PEER,
        "DeepSeek V3, softmax",
        "multiplier",
        lambda place: torch.tensor([encoding(_DEEPSEEK).method.softmax_multiplier], dtype=torch.float64),
        _softmax_scale,
        lambda place: torch.tensor([_A**2], dtype=torch.float64),
        dtypes=(torch.float32,),
        starts=(0,),
    ),
    row(
        "rotary + yarn(factor=16, original_length=4096, ramp='rotations')",
        "yarn, another ramp",
        typed("yarn", factor=16.0, original_max_position_embeddings=LENGTH),
        exact.rotated(exact.by_turns(FACTOR, LENGTH, 1, 32), multiplier=_A),
        _RAMP,
        starts=(0,),
    ),
    row(
        "rotary + yarn(factor=16, original_length=4096, truncate=False)",
        "yarn by layer type",
        _nested,
        exact.rotated(exact.by_index(FACTOR, LENGTH, False), multiplier=_A),
        _NESTED,
        starts=(0,),
    ),
)
