"""Extensions of rotary in `transformers`: every `rope_type` but YaRN's."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact_extensions as exact
from lengthwise.agreement.comparison import Make
from lengthwise.agreement.place import Place
from lengthwise.agreement.rope_of_transformers import FACTOR, LENGTH, ORIGINAL, rotary_module, row, turned, typed

STATED = 8192
"""Another length, of the whole sequence, where a method follows it."""
SHORT, LONG = (1.0, 1.1, 1.5, 2.0), (1.0, 2.0, 8.0, 16.0)


def _after(longer: int, length: int) -> Make:
    """At a stated length, by a module that was called with a longer sequence before."""

    def made(place: Place) -> Tensor:
        rotary = rotary_module({"rope_type": "dynamic", "factor": 2.0})
        rotary(place.draw(1), torch.tensor([[longer - 1]]))
        return turned(rotary, place, length)

    return made


def _length(place: Place) -> int:
    return place.start + place.length


_DYNAMIC = (
    "The module of `transformers` 5.24 keeps the frequencies of the longest sequence so far, until one is shorter than "
    "the trained length. After a call that reached position 65,535 it answers for 8,192 tokens, and for just the "
    "trained 4,096, with the frequencies of the longer call: {float32} from ours at positions 0 to 127, "
    "{theirs_float32} from the formula; ours is {ours_float32} from it. Here frequencies follow the length of the "
    "sequence alone, whatever was called before. The first call of a module is as the formula says: the row `dynamic "
    "at 8,192`."
)
_DYNAMIC_SPEC = "rotary + dynamic_ntk(factor=2, original_length=4096)"
_LONGROPE_SPEC = (
    f"rotary(head_dim=8) + longrope(short_factor={SHORT}, long_factor={LONG}, original_length=4096, factor=16)"
)
_LONGROPE: dict[str, Any] = {
    "short_factor": list(SHORT),
    "long_factor": list(LONG),
    "factor": 16.0,
    ORIGINAL: LENGTH,
    "head_dim": 8,
}
_LONGROPE_MULTIPLIER = (1 + 4 / 12) ** 0.5  # ln 16 / ln 4096

COMPARISONS = (
    row(
        "rotary + interpolate(factor=16)",
        "linear",
        typed("linear", factor=16.0),
        exact.rotated(exact.powers() / FACTOR),
    ),
    row(
        _DYNAMIC_SPEC,
        "dynamic",
        typed("dynamic", factor=2.0),
        exact.rotated(lambda place: exact.dynamic_ntk(2, LENGTH, _length(place))),
    ),
    row(
        _DYNAMIC_SPEC,
        "dynamic at 8,192",
        typed("dynamic", STATED, factor=2.0),
        exact.rotated(exact.dynamic_ntk(2, LENGTH, STATED)),
        length=STATED,
        starts=(0,),
    ),
    row(
        _DYNAMIC_SPEC,
        "8,192 after 65,536",
        _after(65536, STATED),
        exact.rotated(exact.dynamic_ntk(2, LENGTH, STATED)),
        _DYNAMIC,
        length=STATED,
        starts=(0,),
    ),
    row(
        _DYNAMIC_SPEC,
        "4,096 after 65,536",
        _after(65536, LENGTH),
        exact.rotated(exact.powers()),
        _DYNAMIC,
        length=LENGTH,
        starts=(0,),
    ),
    row(
        _LONGROPE_SPEC,
        "longrope",
        typed("longrope", **_LONGROPE),
        exact.rotated(
            lambda place: exact.longrope(LONG if _length(place) > LENGTH else SHORT),
            multiplier=_LONGROPE_MULTIPLIER,
            head_dim=8,
        ),
        head_dim=8,
    ),
    row(
        _LONGROPE_SPEC,
        "longrope at 8,192",
        typed("longrope", STATED, **_LONGROPE),
        exact.rotated(exact.longrope(LONG), multiplier=_LONGROPE_MULTIPLIER, head_dim=8),
        length=STATED,
        head_dim=8,
        starts=(0,),
    ),
    row(
        "rotary(base=500000) + llama3(factor=8, original_length=8192)",
        "llama3",
        typed(
            "llama3",
            rope_theta=500000.0,
            factor=8.0,
            original_max_position_embeddings=8192,
            low_freq_factor=1.0,
            high_freq_factor=4.0,
        ),
        exact.rotated(exact.by_turns(8, 8192, 1, 4, 500000.0)),
    ),
    row(
        "rotary + proportional(fraction=0.25)",
        "proportional",
        typed("proportional", partial_rotary_factor=0.25),
        exact.rotated(exact.proportional(0.25, 1)),
    ),
    row(
        "rotary + proportional(fraction=0.25, factor=8)",
        "proportional, by 8",
        typed("proportional", partial_rotary_factor=0.25, factor=8.0),
        exact.rotated(exact.proportional(0.25, 8)),
    ),
)
