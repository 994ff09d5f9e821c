"""`x-transformers`: interpolation of positions and another base, for rotary and xPos."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact_extensions
from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import rotated
from lengthwise.agreement.peers import module
from lengthwise.agreement.place import Place, logits

PEER = "x-transformers"
FACTOR = 4
_ROTARY = "rotary(layout='interleaved')"
_XPOS = "xpos + interpolate(factor=4)"


def _turned(**settings: Any) -> Make:
    """Queries and keys by its module, cast as a model is, with `.to(dtype)`."""

    def made(place: Place) -> Tensor:
        peer = module("x_transformers.x_transformers")
        angles, scale = peer.RotaryEmbedding(64, **settings).to(place.dtype)(place.index)
        inverse = scale**-1 if isinstance(scale, Tensor) else 1.0
        q, k = place.queries_and_keys()
        return torch.stack((peer.apply_rotary_pos_emb(q, angles, scale), peer.apply_rotary_pos_emb(k, angles, inverse)))

    return made


_DTYPES = (
    "Angles are formed in the dtype of the module's frequencies, as without an extension: in float32 they are rounded "
    "at far positions, where q and k differ from ours by {far32}, and by {float32} at 0 to 127. After "
    "`.to(torch.bfloat16)` frequencies and positions have 3 digits: at 0 to 127 the two differ by {bfloat16}, and from "
    "the formula theirs is off by {theirs_bfloat16}, ours by {ours_bfloat16}. The methods are the same."
)
_DECAY = (
    "`interpolation_factor` divides the angles and not the exponents of the decay: logits decay with the tokens' "
    "distance, and turn with a quarter of it. Ours, as `rotary-embedding-torch`, divides the position in both. We know "
    "of no paper on xPos interpolated; that on interpolation (Chen et al. 2023, eq. 4) puts p / s for p, in all that "
    "an encoding makes of it. In float32 the two differ by {float32}; from that formula theirs is off by "
    "{theirs_float32}, ours by {ours_float32}."
)


def _row(spec: str, part: str, theirs: Make, frequencies: Tensor) -> Comparison:
    by_formula = exact_extensions.rotated(frequencies, interleaved=True)
    return Comparison(spec, PEER, part, "rotated q and k", rotated(spec), theirs, by_formula, why=_DTYPES)


COMPARISONS = (
    _row(
        f"{_ROTARY} + interpolate(factor=4)",
        "interpolation_factor",
        _turned(interpolation_factor=FACTOR),
        exact_extensions.powers() / FACTOR,
    ),
    _row(
        f"{_ROTARY} + ntk(factor=4)",
        "base_rescale_factor",
        _turned(base_rescale_factor=FACTOR),
        exact_extensions.ntk(FACTOR),
    ),
    Comparison(
        _XPOS,
        PEER,
        "xPos, interpolation",
        "q·k behind",
        lambda place: logits(rotated(_XPOS)(place)),
        lambda place: logits(_turned(use_xpos=True, interpolation_factor=FACTOR)(place)),
        exact_extensions.interpolated_xpos_logits(FACTOR),
        starts=(0,),
        why=_DECAY,
    ),
)
