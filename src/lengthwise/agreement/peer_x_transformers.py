"""`x-transformers`: rotary and xPos, ALiBi, T5's bias, CoPE, forget gates and tables.

In bfloat16 its modules are cast as a model is, with `.to(torch.bfloat16)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact
from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import added, bias, centred_bias, embeddings, encoding, rotated
from lengthwise.agreement.peers import module
from lengthwise.agreement.place import STARTS, Place, centred
from lengthwise.prepared import prepare

PEER = "x-transformers"
Pair = Callable[[Place], tuple[Tensor, Tensor]]


def _x() -> Any:
    return module("x_transformers.x_transformers")


def _rotary(place: Place, cast: bool = True, xpos: bool = False) -> Tensor:
    made = _x()
    rotary = made.RotaryEmbedding(64, use_xpos=xpos)
    angles, scale = (rotary.to(place.dtype) if cast else rotary)(place.index)
    q, k = place.queries_and_keys()
    other = scale**-1 if xpos else 1.0
    return torch.stack((made.apply_rotary_pos_emb(q, angles, scale), made.apply_rotary_pos_emb(k, angles, other)))


def logits(turned: Tensor) -> Tensor:
    """q·k / 8 of rotated queries and keys for keys not ahead, in float64: only the rotation is compared."""
    q, k = turned.double()
    return (q @ k.transpose(-1, -2)).tril() / 8


def _alibi(heads: int) -> Make:
    def made(place: Place) -> Tensor:
        theirs = _x().AlibiPositionalBias(heads)
        return centred(theirs.to(place.dtype).forward_custom_pos(place.index))

    return made


def _both_sides(place: Place) -> tuple[Tensor, Tensor]:
    ours = bias(encoding("alibi"), place.positions)
    return ours, _x().AlibiPositionalBias(4).to(place.dtype)(place.length, place.length)


def _t5(scale: float) -> Comparison:
    def made(place: Place) -> tuple[Tensor, Tensor]:
        ours = encoding("t5(init_std=1)").to(place.dtype)
        theirs = _x().RelativePositionBias(scale=scale, causal=True, heads=4)
        theirs.relative_attention_bias.weight.copy_(ours.table)
        bucket = theirs._relative_position_bucket(-place.index)
        return ours.of_distance(place.index), (theirs.to(place.dtype).relative_attention_bias(bucket) * theirs.scale).T

    part = f"T5, scale {scale:g}"
    return _both("t5", part, "bias by distance", made, _T5, far=True)


def _cope(place: Place) -> tuple[Tensor, Tensor]:
    ours = encoding("cope(max_positions=16, nodiv=True)")
    ours.table.copy_(Place().draw(16, 64, seed=4))
    theirs = _x().CoPE(64, 4, 16)
    theirs.pos_emb.copy_(ours.table)
    theirs, ours = theirs.to(place.dtype), ours.to(place.dtype)
    q, k = place.queries_and_keys()
    ahead = torch.ones(place.length, place.length, dtype=torch.bool).triu(1)
    found = (q @ k.transpose(-1, -2) / 8).masked_fill(ahead, torch.finfo(place.dtype).min)
    found = found + theirs(q, found)
    return ours.attention_logits(q, k, place.positions, 1 / 8).tril(), found.masked_fill(ahead, 0.0)


def _fox(place: Place) -> tuple[Tensor, Tensor]:
    ours = encoding("fox")
    theirs = _x().DataDependentAlibi(64, 4)
    ours.gate_weight.copy_(Place().draw(4, 64, seed=4))
    ours.gate_bias.fill_(5.0)  # as they begin there
    theirs.to_forget_gates[0].weight.copy_(ours.gate_weight)
    theirs.to_forget_gates[0].bias.copy_(ours.gate_bias)
    hidden = embeddings(place)
    read, _ = prepare(ours.to(place.dtype), place.positions).read(hidden)
    assert read.bias is not None
    return read.bias.dense().tril(), theirs.to(place.dtype)(hidden).tril()


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


def _alibi_of(heads: int) -> Comparison:
    spec, quantity = f"alibi(heads={heads})", "bias, rows centred"
    return Comparison(
        spec, PEER, f"ALiBi, {heads} heads", quantity, centred_bias(spec), _alibi(heads), exact.alibi(heads), why=_ALIBI
    )


def _both(spec: str, part: str, quantity: str, made: Pair, why: str = "", far: bool = False) -> Comparison:
    starts = STARTS if far else (0,)
    return Comparison(
        spec, PEER, part, quantity, lambda place: made(place)[0], lambda place: made(place)[1], starts=starts, why=why
    )


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
    "two agree in float32 ({float32}). Given far positions alone, as in a step of decoding, the factors of q and "
    "k lose their digits, and at 2^20 they leave float32: the largest distance of the logits from the formula is "
    "{theirs_far32}, of ours {ours_far32}. In bfloat16 `.to` casts frequencies, scales and positions too: "
    "{bfloat16} at 0 to 127."
)
_ALIBI = (
    "In bfloat16 the slopes are a buffer that `.to` casts, and heads whose slope is no power of two get one of 3 "
    "digits: the bias differs by {bfloat16} as a share of itself."
)
_T5 = (
    "As a model of x-transformers builds it, the table is multiplied by sqrt(head_dim), 8 here, and added to "
    "scaled q·k; the code of T5 in `transformers` has neither factor. For the same table the bias differs by "
    "{float32} as a share of the value, which is the factor 8; with scale 1 the two agree. To bring a table of "
    "x-transformers here, multiply it by sqrt(head_dim)."
)
_SINUSOIDS = (
    "Angles are formed in the dtype of the frequencies: in float32 the sums differ by {far32} at far positions, "
    "by {float32} at 0 to 127; after `.to(torch.bfloat16)` by {bfloat16} at 0 to 127, where theirs is "
    "{theirs_bfloat16} from the paper's formula and ours {ours_bfloat16}, which is the rounding of the table and "
    "of the sum."
)
_COPE = (
    "Gates and the contextual positions, their sums, are kept in the dtype of the logits: bfloat16 has steps of "
    "1/16 from 8 to 16. The logits differ by {bfloat16} in bfloat16 and by {float32} in float32; ours counts in "
    "float32."
)
_FOX = (
    "Sums of the logarithms of gates are kept in the dtype of the module, in bfloat16 with 3 digits: the bias "
    "differs by {bfloat16} in bfloat16 and by {float32} in float32; ours sums in float64."
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
    _alibi_of(8),
    _alibi_of(12),
    _t5(8.0),
    _t5(1.0),
    _both("alibi", "ALiBi, all keys", "bias", _both_sides),
    _both("cope(max_positions=16, nodiv=True)", "CoPE", "logits", _cope, _COPE),
    _both("fox", "data-dependent ALiBi", "bias", _fox, _FOX),
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
    _both("learned", "learned table", "embeddings", _learned, _LEARNED),
)
