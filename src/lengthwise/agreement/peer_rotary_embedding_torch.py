"""`rotary-embedding-torch`: rotary, with its cache and its offsets, axial and xPos."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement import exact
from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import rotated
from lengthwise.agreement.peers import module
from lengthwise.agreement.place import Place, logits
from lengthwise.positions import Positions

PEER = "rotary-embedding-torch"
BOTH = (torch.float32, torch.bfloat16)


def _new(**settings: Any) -> Any:
    return module("rotary_embedding_torch").RotaryEmbedding(64, **settings)


def _turn(rotary: Any, place: Place) -> Tensor:
    q, k = place.queries_and_keys()
    return torch.stack([rotary.rotate_queries_or_keys(x, offset=place.start) for x in (q, k)])


def _cast(place: Place) -> Tensor:
    return _turn(_new().to(place.dtype), place)


def _after_bfloat16(place: Place) -> Tensor:
    """In float32, by a module whose first call had longer bfloat16 queries: what it remembers of that call."""
    rotary = _new()
    rotary.rotate_queries_or_keys(torch.zeros(1, 1, 1024, 64, dtype=torch.bfloat16))
    q, k = (torch.cat((torch.zeros(1, 4, 512, 64), x), 2) for x in place.queries_and_keys())
    return torch.stack([rotary.rotate_queries_or_keys(x)[:, :, 512:] for x in (q, k)])


def _past_512(place: Place) -> Positions:
    return Positions(place.index + 512, place.index + 512)


def _past_512_exact(place: Place) -> Tensor:
    angles = (place.index + 512).double()[:, None] * 10000.0 ** (-torch.arange(0, 64, 2).double() / 64)
    return torch.stack([exact.turn(x, angles, True) for x in place.queries_and_keys()])


def _axial(first: int, second: int) -> Make:
    def made(place: Place) -> Tensor:
        peer = module("rotary_embedding_torch")
        angles = peer.RotaryEmbedding(32).get_axial_freqs(8, 6, offsets=(first, second)).flatten(0, 1)
        return torch.stack([peer.apply_rotary_emb(angles, x) for x in place.queries_and_keys(length=48)])

    return made


def _grid(first: int, second: int) -> Positions:
    points = torch.cartesian_prod(torch.arange(first, first + 8), torch.arange(second, second + 6))[None]
    return Positions(points, points, causal=False)


def _xpos(place: Place) -> Tensor:
    rotary = _new(use_xpos=True)
    return logits(torch.stack(rotary.rotate_queries_and_keys(*place.queries_and_keys())))


def _xpos_cached(place: Place) -> Tensor:
    """The last 64 queries of a sequence among all its keys, as with keys that wait in a cache unrotated."""
    q, k = place.queries_and_keys()
    q, k = _new(use_xpos=True).rotate_queries_with_cached_keys(q[:, :, -64:], k)
    return (q.double() @ k.double().transpose(-1, -2)).tril(place.length - 64) / 8


_SPEC = "rotary(layout='interleaved')"
_AXIAL = "axial(base=10000, order=(0, 1))"
_PLAIN = (
    "Positions are formed in the dtype of the queries. bfloat16 has no whole number between 256 and 258: above, "
    "neighbouring tokens share a position, and at far ones all 64 do, though the module itself is float32. q and "
    "k are then {far16} from ours, at positions 0 to 127 {bfloat16}. In float32 they differ by {far32} at far "
    "positions, where angles are rounded to float32, and by {float32} at 0 to 127; from the paper's formula "
    "theirs is off by {theirs_far32}, ours by {ours_far32}."
)
_CAST = (
    "`.to(torch.bfloat16)` casts the frequencies too: q and k differ from ours by {bfloat16} within 128 positions, "
    "theirs {theirs_bfloat16} from the paper's formula, ours {ours_bfloat16}."
)
_AFTER = (
    "The module keeps the angles of the longest call so far, whatever its dtype. After one call with 1,024 bfloat16 "
    "queries, whose positions above 256 are rounded, float32 queries at positions 512 to 639 are turned by what was "
    "kept: {float32} from ours; from the paper's formula theirs is off by {theirs_float32}, ours by {ours_float32}."
)
_OFFSET = (
    "Angles of the first axis are kept, and the second, shorter axis is answered from them, its offset unread: with "
    "offsets (0, 5) columns 5 to 10 are turned as columns 0 to 5. q and k differ by {float32}; without offsets the "
    "two agree."
)
_SCALE = (
    "In bfloat16 the scale is rounded before it multiplies, and so are positions: logits differ by {bfloat16} "
    "within 128 positions, and by {float32} in float32."
)
_CACHED = (
    "`rotate_queries_with_cached_keys` centres the scale of queries on half their own number and that of keys on half "
    "theirs. Where there are fewer queries than keys the two centres differ, and a logit is off by a factor for each "
    "pair of dims: for the last 64 queries of 128 tokens it is {float32} from ours in float32, {theirs_float32} from "
    "the paper's formula; ours is {ours_float32} from it. Queries as many as keys agree."
)


def _rotary(part: str, theirs: Make, why: str, dtypes: tuple[torch.dtype, ...] = BOTH) -> Comparison:
    by_paper = exact.rotary(interleaved=True)
    return Comparison(_SPEC, PEER, part, "rotated q and k", rotated(_SPEC), theirs, by_paper, dtypes, why=why)


def _planar(first: int, second: int, part: str, why: str = "") -> Comparison:
    ours = rotated(_AXIAL, lambda _: _grid(first, second))
    return Comparison(_AXIAL, PEER, part, "rotated q and k", ours, _axial(first, second), starts=(0,), why=why)


COMPARISONS = (
    _rotary("module in float32", lambda place: _turn(_new(), place), _PLAIN),
    _rotary("module cast", _cast, _CAST, (torch.bfloat16,)),
    Comparison(
        _SPEC,
        PEER,
        "after a bfloat16 call",
        "rotated q and k",
        rotated(_SPEC, _past_512),
        _after_bfloat16,
        _past_512_exact,
        (torch.float32,),
        (0,),
        _AFTER,
    ),
    _planar(0, 0, "axial"),
    _planar(0, 5, "axial, offsets", _OFFSET),
    Comparison(
        "xpos",
        PEER,
        "xPos",
        "q·k behind",
        lambda place: logits(rotated("xpos")(place)),
        _xpos,
        exact.xpos_logits,
        starts=(0,),
        why=_SCALE,
    ),
    Comparison(
        "xpos",
        PEER,
        "xPos, cached keys",
        "q·k behind",
        lambda place: logits(rotated("xpos")(place))[..., -64:, :],
        _xpos_cached,
        lambda place: exact.xpos_logits(place)[..., -64:, :],
        starts=(0,),
        why=_CACHED,
    ),
)
