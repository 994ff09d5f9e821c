"""`x-transformers`: ALiBi, T5's bias, CoPE and forget gates.

In bfloat16 its modules are cast as a model is, with `.to(torch.bfloat16)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact
from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import bias, centred_bias, embeddings, encoding
from lengthwise.agreement.peers import module
from lengthwise.agreement.place import STARTS, Place, centred
from lengthwise.prepared import prepare

PEER = "x-transformers"
Pair = Callable[[Place], tuple[Tensor, Tensor]]


def _x() -> Any:
    return module("x_transformers.x_transformers")


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
_COPE = (
    "Gates and the contextual positions, their sums, are kept in the dtype of the logits: bfloat16 has steps of "
    "1/16 from 8 to 16. The logits differ by {bfloat16} in bfloat16 and by {float32} in float32; ours counts in "
    "float32."
)
_FOX = (
    "Sums of the logarithms of gates are kept in the dtype of the module, in bfloat16 with 3 digits: the bias "
    "differs by {bfloat16} in bfloat16 and by {float32} in float32; ours sums in float64."
)

COMPARISONS = (
    _alibi_of(8),
    _alibi_of(12),
    _t5(8.0),
    _t5(1.0),
    _both("alibi", "ALiBi, all keys", "bias", _both_sides),
    _both("cope(max_positions=16, nodiv=True)", "CoPE", "logits", _cope, _COPE),
    _both("fox", "data-dependent ALiBi", "bias", _fox, _FOX),
)
