"""Extensions of rotary in `transformers`: every `rope_type`, by its own module, as a model calls it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact_extensions as exact
from lengthwise.agreement.comparison import TOLERANCE, Comparison, Make
from lengthwise.agreement.ours import encoding, rotated
from lengthwise.agreement.peers import model, module, quiet
from lengthwise.agreement.place import STARTS, Place
from lengthwise.positions import Positions

PEER = "transformers"
LENGTH, FACTOR = 4096, 16
"""Trained length and how many times longer, of most comparisons."""
STATED = 8192
"""Another length, of the whole sequence, where a method follows it."""
_ORIGINAL = "original_max_position_embeddings"
SHORT, LONG = (1.0, 1.1, 1.5, 2.0), (1.0, 2.0, 8.0, 16.0)


def _module(rope: dict[str, Any], head_dim: int = 64) -> Any:
    """Llama's rotary module with these parameters."""
    longest = int(rope["factor"]) * rope[_ORIGINAL] if _ORIGINAL in rope else LENGTH
    with quiet(PEER):  # it says that it does not know the factor of proportional, and divides by it
        config = module("transformers").LlamaConfig(
            hidden_size=4 * head_dim,
            num_attention_heads=4,
            num_key_value_heads=4,
            num_hidden_layers=1,
            max_position_embeddings=longest,
            rope_parameters={"rope_theta": 10000.0, **rope},
        )
        return model("llama").LlamaRotaryEmbedding(config)


def _turned(rotary: Any, place: Place, length: int = 0, head_dim: int = 64, **settings: Any) -> Tensor:
    """Queries and keys at a place of a sequence of `length` tokens, or of one that ends there."""
    q, k = place.queries_and_keys(head_dim=head_dim)
    index = place.index if not length else torch.cat((place.index, torch.tensor([length - 1])))
    cos, sin = (x[:, : place.length] for x in rotary(q, index[None], **settings))
    return torch.stack(model("llama").apply_rotary_pos_emb(q, k, cos, sin))


def _typed(name: str, length: int = 0, head_dim: int = 64, **parameters: Any) -> Make:
    return lambda place: _turned(_module({"rope_type": name, **parameters}, head_dim), place, length, head_dim)


def _after(longer: int, length: int) -> Make:
    """At a stated length, by a module that was called with a longer sequence before."""

    def made(place: Place) -> Tensor:
        rotary = _module({"rope_type": "dynamic", "factor": 2.0})
        rotary(place.draw(1), torch.tensor([[longer - 1]]))
        return _turned(rotary, place, length)

    return made


def _nested(place: Place) -> Tensor:
    """By the module of Gemma 3, whose layers have parameters by their type."""
    plain = {"rope_type": "default", "rope_theta": 10000.0}
    yarn = {**plain, "rope_type": "yarn", "factor": 16.0, _ORIGINAL: LENGTH, "truncate": False}
    config = module("transformers").Gemma3TextConfig(
        hidden_size=256,
        num_attention_heads=4,
        head_dim=64,
        num_hidden_layers=2,
        max_position_embeddings=FACTOR * LENGTH,
        layer_types=["sliding_attention", "full_attention"],
        rope_parameters={"sliding_attention": plain, "full_attention": yarn},
    )
    return _turned(model("gemma3").Gemma3RotaryEmbedding(config), place, layer_type="full_attention")


def _softmax_scale(place: Place) -> Tensor:
    """What the attention of DeepSeek V3 multiplies its scale by."""
    yarn = {"rope_type": "yarn", "factor": 16.0, _ORIGINAL: LENGTH, "mscale": 0.707, "mscale_all_dim": 1.0}
    return torch.tensor([model("deepseek_v3").yarn_apply_mscale(yarn, 1.0)], dtype=torch.float64)


def _stated(length: int) -> Callable[[Place], Positions]:
    """The positions in a sequence of a stated length."""
    return lambda place: place.positions.with_target(length)


def _length(place: Place) -> int:
    return place.start + place.length


_FAR = (
    "The methods are the same; as without one, frequencies and angles are float32. At far positions an angle is known "
    "to few digits: q and k differ from ours by {far32} in float32 and {far16} in bfloat16. From the formula in "
    "float64 theirs is then off by {theirs_far32} in float32, ours, which forms angles in float64, by {ours_far32}. At "
    "positions 0 to 127 the two differ by {float32} at most: powers of the base are rounded to float32, and so are "
    "angles."
)
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
    "truncate=False`."
)
_DYNAMIC = (
    "The module of `transformers` 5.24 keeps the frequencies of the longest sequence so far, until one is shorter than "
    "the trained length. After a call that reached position 65,535 it answers for 8,192 tokens, and for just the "
    "trained 4,096, with the frequencies of the longer call: {float32} from ours at positions 0 to 127, "
    "{theirs_float32} from the formula; ours is {ours_float32} from it. Here frequencies follow the length of the "
    "sequence alone, whatever was called before. The first call of a module is as the formula says: the row `dynamic, "
    "8,192 tokens`."
)


def _row(
    spec: str,
    part: str,
    theirs: Make,
    by_formula: Make,
    why: str = _FAR,
    *,
    length: int = 0,
    head_dim: int = 64,
    starts: tuple[int, ...] = STARTS,
    dtypes: tuple[torch.dtype, ...] = tuple(TOLERANCE),
) -> Comparison:
    ours = rotated(spec, _stated(length) if length else None, head_dim)
    return Comparison(spec, PEER, part, "rotated q and k", ours, theirs, by_formula, dtypes, starts, why)


def _yarn(part: str, spec: str, multiplier: float, **parameters: Any) -> Comparison:
    given: dict[str, Any] = {"factor": 16.0, _ORIGINAL: LENGTH, **parameters}
    by_formula = exact.rotated(exact.by_index(FACTOR, LENGTH, parameters.get("truncate", True)), multiplier=multiplier)
    return _row(f"rotary + yarn(factor=16, original_length=4096{spec})", part, _typed("yarn", **given), by_formula)


_A = exact.yarn_multiplier(FACTOR)
_DEEPSEEK = "rotary + yarn(factor=16, original_length=4096, mscale=0.707, mscale_all_dim=1.0)"
_DYNAMIC_SPEC = "rotary + dynamic_ntk(factor=2, original_length=4096)"
_LONGROPE_SPEC = (
    f"rotary(head_dim=8) + longrope(short_factor={SHORT}, long_factor={LONG}, original_length=4096, factor=16)"
)
_LONGROPE: dict[str, Any] = {
    "short_factor": list(SHORT),
    "long_factor": list(LONG),
    "factor": 16.0,
    "original_max_position_embeddings": LENGTH,
    "head_dim": 8,
}
_LONGROPE_MULTIPLIER = (1 + 4 / 12) ** 0.5  # ln 16 / ln 4096

COMPARISONS = (
    _row(
        "rotary + interpolate(factor=16)",
        "linear",
        _typed("linear", factor=16.0),
        exact.rotated(exact.powers() / FACTOR),
    ),
    _row(
        _DYNAMIC_SPEC,
        "dynamic",
        _typed("dynamic", factor=2.0),
        exact.rotated(lambda place: exact.dynamic_ntk(2, LENGTH, _length(place))),
    ),
    _row(
        _DYNAMIC_SPEC,
        "dynamic, 8,192 tokens",
        _typed("dynamic", STATED, factor=2.0),
        exact.rotated(exact.dynamic_ntk(2, LENGTH, STATED)),
        length=STATED,
        starts=(0,),
    ),
    _row(
        _DYNAMIC_SPEC,
        "dynamic, 8,192 tokens after 65,536",
        _after(65536, STATED),
        exact.rotated(exact.dynamic_ntk(2, LENGTH, STATED)),
        _DYNAMIC,
        length=STATED,
        starts=(0,),
    ),
    _row(
        _DYNAMIC_SPEC,
        "dynamic, 4,096 tokens after 65,536",
        _after(65536, LENGTH),
        exact.rotated(exact.powers()),
        _DYNAMIC,
        length=LENGTH,
        starts=(0,),
    ),
    _yarn("yarn", "", _A),
    _yarn("yarn, truncate=False", ", truncate=False", _A, truncate=False),
    _yarn(
        "yarn, mscale 0.707 and 1",
        ", mscale=0.707, mscale_all_dim=1.0",
        exact.yarn_multiplier(FACTOR, 0.707) / _A,
        mscale=0.707,
        mscale_all_dim=1.0,
    ),
    _yarn("yarn, mscale 1 and 1", ", mscale=1.0, mscale_all_dim=1.0", 1.0, mscale=1.0, mscale_all_dim=1.0),
    Comparison(
        _DEEPSEEK,
        PEER,
        "DeepSeek V3, scale of the softmax",
        "multiplier",
        lambda place: torch.tensor([encoding(_DEEPSEEK).method.softmax_multiplier], dtype=torch.float64),
        _softmax_scale,
        lambda place: torch.tensor([_A**2], dtype=torch.float64),
        dtypes=(torch.float32,),
        starts=(0,),
    ),
    _row(
        "rotary + yarn(factor=16, original_length=4096, ramp='rotations')",
        "yarn, beside the paper's ramp",
        _typed("yarn", factor=16.0, original_max_position_embeddings=LENGTH),
        exact.rotated(exact.by_turns(FACTOR, LENGTH, 1, 32), multiplier=_A),
        _RAMP,
        starts=(0,),
    ),
    _row(
        "rotary + yarn(factor=16, original_length=4096, truncate=False)",
        "yarn, truncate=False, by layer type",
        _nested,
        exact.rotated(exact.by_index(FACTOR, LENGTH, False), multiplier=_A),
        _NESTED,
        starts=(0,),
    ),
    _row(
        _LONGROPE_SPEC,
        "longrope, short and past 4,096 long",
        _typed("longrope", **_LONGROPE),
        exact.rotated(
            lambda place: exact.longrope(LONG if _length(place) > LENGTH else SHORT),
            multiplier=_LONGROPE_MULTIPLIER,
            head_dim=8,
        ),
        head_dim=8,
    ),
    _row(
        _LONGROPE_SPEC,
        "longrope, 8,192 tokens",
        _typed("longrope", STATED, **_LONGROPE),
        exact.rotated(exact.longrope(LONG), multiplier=_LONGROPE_MULTIPLIER, head_dim=8),
        length=STATED,
        head_dim=8,
        starts=(0,),
    ),
    _row(
        "rotary(base=500000) + llama3(factor=8, original_length=8192)",
        "llama3",
        _typed(
            "llama3",
            rope_theta=500000.0,
            factor=8.0,
            original_max_position_embeddings=8192,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
        ),
        exact.rotated(exact.by_turns(8, 8192, 1, 4, 500000.0)),
    ),
    _row(
        "rotary + proportional(fraction=0.25)",
        "proportional",
        _typed("proportional", partial_rotary_factor=0.25),
        exact.rotated(exact.proportional(0.25, 1)),
    ),
    _row(
        "rotary + proportional(fraction=0.25, factor=8)",
        "proportional, factor 8",
        _typed("proportional", partial_rotary_factor=0.25, factor=8.0),
        exact.rotated(exact.proportional(0.25, 8)),
    ),
)
