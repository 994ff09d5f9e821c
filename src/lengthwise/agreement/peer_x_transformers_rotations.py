"""`x-transformers`: rotary, xPos and what it adds to embeddings.

In bfloat16 its modules are cast as a model is, with `.to(torch.bfloat16)`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact
from lengthwise.agreement.comparison import Comparison
from lengthwise.agreement.ours import added, embeddings, encoding, rotated
from lengthwise.agreement.peers import module
from lengthwise.agreement.place import Place, logits

PEER = "x-transformers"


def _x() -> Any:
    return module("x_transformers.x_transformers")


def _rotary(place: Place, cast: bool = True, xpos: bool = False) -> Tensor:
    made = _x()
    rotary = made.RotaryEmbedding(64, use_xpos=xpos)
    angles, scale = (rotary.to(place.dtype) if cast else rotary)(place.index)
    q, k = place.queries_and_keys()
    other = scale**-1 if xpos else 1.0
    return torch.stack((made.apply_rotary_pos_emb(q, angles, scale), made.apply_rotary_pos_emb(k, angles, other)))


def _sinusoidal(place: Place) -> Tensor:
    theirs = _x().ScaledSinusoidalEmbedding(64)
    theirs.scale.fill_(1.0)
    x = embeddings(place)
    return x + theirs.to(place.dtype)(x, pos=place.index)


def _learned(place: Place) -> tuple[Tensor, Tensor]:
    ours = encoding("learned").to(place.dtype)
    ours.table.copy_(Place().draw(128, 64, seed=4))
    theirs = _x().AbsolutePositionalEmbedding(64, 128)
    theirs.emb.weight.copy_(ours.table)
    x = embeddings(place)
    return ours.embed_positions(x, place.positions), x + theirs.to(place.dtype)(x)


_ROTARY = (
    "Angles are formed in the dtype of the module's frequencies. In float32 they are rounded at far positions: q "
    "and k differ from ours by {far32} there and by {float32} at 0 to 127. `.to(torch.bfloat16)` casts the "
    "frequencies, and positions are cast to their dtype: angles have 3 digits, and above 256 neighbouring tokens "
    "share a position. At positions 0 to 127 q and k then differ by {bfloat16}: from the paper's formula theirs "
    "is off by {theirs_bfloat16}, ours by {ours_bfloat16}."
)
_MIXED = (
    "With the module kept in float32 (as under autocast), bfloat16 queries are turned by float32 angles. Far from "
    "the start these are rounded: {far16} from ours, against {bfloat16} at positions 0 to 127."
)
_XPOS = (
    "The scale is centred on half the largest position seen, not on the tokens given. At positions from 0 on the "
    "two agree in float32 ({float32}). Given far positions alone, the factors of q and k lose their digits, and "
    "at 2^20 they leave float32: the largest distance of the logits from the formula is {theirs_far32}, of ours "
    "{ours_far32}. In bfloat16 `.to` casts frequencies, scales and positions too: {bfloat16} at 0 to 127."
)
_SINUSOIDS = (
    "Angles are formed in the dtype of the frequencies: in float32 the sums differ by {far32} at far positions, "
    "by {float32} at 0 to 127; after `.to(torch.bfloat16)` by {bfloat16} at 0 to 127, where theirs is "
    "{theirs_bfloat16} from the paper's formula and ours {ours_bfloat16}, which is the rounding of the table and "
    "of the sum."
)
_LEARNED = (
    "The table is multiplied by dim^-0.5 as it is read: for the same table the sums differ by {float32}. A "
    "convention of its own, and no error; divide a table of x-transformers by sqrt(dim) to bring it here."
)

COMPARISONS = (
    Comparison(
        "rotary(layout='interleaved')",
        PEER,
        "RotaryEmbedding",
        "rotated q and k",
        rotated("rotary(layout='interleaved')"),
        _rotary,
        exact.rotary(interleaved=True),
        why=_ROTARY,
    ),
    Comparison(
        "rotary(layout='interleaved')",
        PEER,
        "module in float32",
        "rotated q and k",
        rotated("rotary(layout='interleaved')"),
        lambda place: _rotary(place, cast=False),
        exact.rotary(interleaved=True),
        dtypes=(torch.bfloat16,),
        why=_MIXED,
    ),
    Comparison(
        "xpos",
        PEER,
        "xPos",
        "q·k behind",
        lambda place: logits(rotated("xpos")(place)),
        lambda place: logits(_rotary(place, xpos=True)),
        exact.xpos_logits,
        why=_XPOS,
    ),
    Comparison(
        "sinusoidal(variant='half')",
        PEER,
        "sinusoids, scale 1",
        "embeddings",
        added("sinusoidal(variant='half')"),
        _sinusoidal,
        lambda place: embeddings(place).double() + torch.cat(exact.sinusoids(place), -1),
        why=_SINUSOIDS,
    ),
    Comparison(
        "learned",
        PEER,
        "learned table",
        "embeddings",
        lambda place: _learned(place)[0],
        lambda place: _learned(place)[1],
        starts=(0,),
        why=_LEARNED,
    ),
)
