"""Biases of text models in `transformers`: ALiBi as BLOOM, MPT and Falcon have it, and T5's."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lengthwise.agreement import exact
from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import centred_bias, encoding
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import Place, centred


def _of_keys(found: Tensor, heads: int, length: int) -> Tensor:
    """A row of numbers for the keys, the same for each query, as the last positions see it."""
    return centred(found.view(heads, 1, -1)[..., -length:].expand(heads, length, length))


def _bloom(heads: int) -> Make:
    def made(place: Place) -> Tensor:
        mask = torch.ones(1, place.start + place.length)
        return _of_keys(model("bloom").build_alibi_tensor(mask, heads, place.dtype), heads, place.length)

    return made


def _falcon(place: Place) -> Tensor:
    mask = torch.ones(1, place.start + place.length, dtype=torch.int64)
    found = model("falcon").build_alibi_tensor(mask, 4, place.dtype)
    return _of_keys(found / math.sqrt(64), 4, place.length)  # its attention scales the sum of q·k and the bias


def _mpt(heads: int) -> Make:
    def made(place: Place) -> Tensor:
        found = model("mpt").build_mpt_alibi_tensor(heads, place.start + place.length)
        return _of_keys(found, heads, place.length)

    return made


def _alibi(heads: int, part: str, theirs: Make, why: str) -> Comparison:
    spec = f"alibi(heads={heads})"
    return Comparison(
        spec, "transformers", part, "bias, rows centred", centred_bias(spec), theirs, exact.alibi(heads), why=why
    )


def _t5_of(place: Place, bidirectional: bool) -> tuple[Tensor, Tensor]:
    """Our bias and theirs from one table, at distances from the place's first position on."""
    ours = encoding(f"t5(bidirectional={bidirectional}, init_std=1)").to(place.dtype)
    config = module("transformers").T5Config(d_model=256, d_kv=64, num_heads=4, is_decoder=not bidirectional)
    theirs = model("t5").T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    theirs.relative_attention_bias.weight.copy_(ours.table)
    back = torch.cat((place.index, -place.index)) if bidirectional else place.index
    bucket = theirs._relative_position_bucket(-back, bidirectional=bidirectional)
    return ours.of_distance(back), theirs.to(place.dtype).relative_attention_bias(bucket).T


def _t5_exact(place: Place) -> Tensor:
    return encoding("t5(init_std=1)").to(place.dtype).table.double()[exact.t5_bucket(place.index)].T


def _t5(bidirectional: bool) -> Comparison:
    return Comparison(
        f"t5(bidirectional={bidirectional})",
        "transformers",
        "T5 encoder" if bidirectional else "T5 decoder",
        "bias by distance",
        lambda place: _t5_of(place, bidirectional)[0],
        lambda place: _t5_of(place, bidirectional)[1],
        None if bidirectional else _t5_exact,
    )


_BLOOM = (
    "BLOOM adds slope times the key's position, not the distance; for a softmax the two are the same as long as "
    "both are exact. In bfloat16 the product is cast before it is added, and has 3 digits: at far positions "
    "neighbouring keys get one number, or numbers far apart, and the bias differs from the paper's by {far16} (as "
    "a share of it where it is above 1), at positions 0 to 127 by {bfloat16}. In float32 it differs by {far32} at "
    "far positions; slopes that are powers of two are exact there. Ours multiplies whole distances in float32: "
    "{ours_far16} from the formula."
)
_FALCON = (
    "Falcon scales the bias together with q·k, so that its slopes are the paper's divided by sqrt(head_dim), here "
    "8. It also casts slopes to bfloat16 and multiplies positions in that dtype, whatever the model's. In float32 "
    "its bias is {theirs_float32} from the paper's at positions 0 to 127 and {theirs_far32} at far ones, as a "
    "share of it where it is above 1; ours is {ours_far32} from it. A checkpoint of Falcon has to be read with "
    "its slopes."
)
COMPARISONS = (
    _alibi(8, "BLOOM", _bloom(8), _BLOOM),
    _alibi(12, "BLOOM, 12 heads", _bloom(12), _BLOOM),
    _alibi(8, "MPT", _mpt(8), ""),
    _alibi(12, "MPT, 12 heads", _mpt(12), ""),
    _alibi(4, "Falcon", _falcon, _FALCON),
    _t5(False),
    _t5(True),
)
