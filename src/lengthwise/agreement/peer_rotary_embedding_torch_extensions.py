"""`rotary-embedding-torch`: interpolation of positions and another base, for rotary, axial and xPos."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact, exact_extensions
from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import rotated
from lengthwise.agreement.peers import module
from lengthwise.agreement.place import Place, logits
from lengthwise.positions import Positions

PEER = "rotary-embedding-torch"
FACTOR = 4
_ROTARY = "rotary(layout='interleaved')"
_AXIAL = "axial(base=10000, order=(0, 1)) + interpolate(factor=4)"


def _new(dim: int = 64, **settings: Any) -> Any:
    return module("rotary_embedding_torch").RotaryEmbedding(dim, **settings)


def _turned(**settings: Any) -> Make:
    def made(place: Place) -> Tensor:
        rotary = _new(**settings)
        return torch.stack([rotary.rotate_queries_or_keys(x, offset=place.start) for x in place.queries_and_keys()])

    return made


def _axial(place: Place) -> Tensor:
    angles = _new(32, interpolate_factor=FACTOR).get_axial_freqs(8, 6).flatten(0, 1)
    turn = module("rotary_embedding_torch").apply_rotary_emb
    return torch.stack([turn(angles, x) for x in place.queries_and_keys(length=48)])


def _patches(place: Place) -> Positions:
    points = torch.cartesian_prod(torch.arange(8), torch.arange(6))[None]
    return Positions(points, points, causal=False)


def _axial_exact(place: Place) -> Tensor:
    points = torch.cartesian_prod(torch.arange(8), torch.arange(6)).double() / FACTOR
    angles = (points[:, :, None] * exact_extensions.powers(dim=32)).flatten(1)  # [48, 32]: rows, then columns
    return torch.stack([exact.turn(x, angles, True) for x in place.queries_and_keys(length=48)])


def _xpos(place: Place) -> Tensor:
    rotary = _new(use_xpos=True, interpolate_factor=FACTOR)
    return logits(torch.stack(rotary.rotate_queries_and_keys(*place.queries_and_keys())))


_DTYPES = (
    "Positions are formed in the dtype of the queries and divided there, as without an extension: in bfloat16 "
    "neighbouring tokens above 256 share a position, and q and k are {far16} from ours at far positions, {bfloat16} at "
    "0 to 127. In float32 angles are rounded at far positions: {far32}, and {float32} at 0 to 127; from the formula "
    "theirs is off by {theirs_far32}, ours by {ours_far32}. The methods are the same."
)
_UNREAD = (
    "`interpolate_factor` divides the positions of a sequence, and `get_axial_freqs` does not read it: q and k of an "
    "8 x 6 grid are turned as without it. They differ by {float32}; from the formula, both coordinates divided by 4, "
    "theirs is off by {theirs_float32}, ours by {ours_float32}. No paper is followed for two axes."
)
_SCALE = (
    "In bfloat16 positions and the scale are rounded before they are used: logits differ by {bfloat16} within 128 "
    "positions, and by {float32} in float32."
)


def _row(spec: str, part: str, theirs: Make, frequencies: Tensor) -> Comparison:
    by_formula = exact_extensions.rotated(frequencies, interleaved=True)
    return Comparison(spec, PEER, part, "rotated q and k", rotated(spec), theirs, by_formula, why=_DTYPES)


COMPARISONS = (
    _row(
        f"{_ROTARY} + interpolate(factor=4)",
        "interpolate_factor",
        _turned(interpolate_factor=FACTOR),
        exact_extensions.powers() / FACTOR,
    ),
    _row(
        f"{_ROTARY} + ntk(factor=4)",
        "theta_rescale_factor",
        _turned(theta_rescale_factor=FACTOR),
        exact_extensions.ntk(FACTOR),
    ),
    Comparison(
        _AXIAL,
        PEER,
        "axial, interpolated",
        "rotated q and k",
        rotated(_AXIAL, _patches),
        _axial,
        _axial_exact,
        starts=(0,),
        why=_UNREAD,
    ),
    Comparison(
        "xpos + interpolate(factor=4)",
        PEER,
        "xPos, interpolated",
        "q·k behind",
        lambda place: logits(rotated("xpos + interpolate(factor=4)")(place)),
        _xpos,
        exact_extensions.interpolated_xpos_logits(FACTOR),
        starts=(0,),
        why=_SCALE,
    ),
)
