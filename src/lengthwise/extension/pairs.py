"""Pairs of tokens that stand where a method moves them, and what that does to whole logits.

    logit(i, j) = scale (R(a_i) q_i) · (R(b_j) k_j),   a and b the maps of the first branch that holds (i, j)

Queries and keys are turned once for each branch; then a product is formed only where its branch holds any pair, and
keys that no branch holds are left out.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Branch, Method
from lengthwise.positions import Positions
from lengthwise.query_key import QueryKeyMap


def effective_distance(method: Method, length: int) -> Float64[Tensor, "q k"]:
    """Distances at which a method lets each of `length` tokens see those before it.

    Args:
        method: a method of pairs or of distances, such as `lengthwise.SelfExtend()`.
        length: number of tokens.

    Returns:
        `[length, length]`, queries by keys; infinite where a method bars a pair, NaN for keys ahead of their query.

    Raises:
        InvalidArgument: a method that changes something else than distances.

    Example:
        >>> import lengthwise as lw
        >>> lw.extension.effective_distance(lw.ReRoPE(window=2), 4)[3].tolist()
        [2.0, 2.0, 1.0, 0.0]
    """
    place, own = torch.arange(length), _any(method)
    q, k = place.unsqueeze(-1), place.unsqueeze(-2)
    if hasattr(method, "branches"):
        seen = first_match(own.branches(), q, k, lambda one: (one.q_map(q) - one.k_map(k)).double(), math.inf)
    elif hasattr(method, "map_distance"):
        seen = own.map_distance((q - k).double(), torch.tensor(length, dtype=torch.float64)).double()
    else:
        raise InvalidArgument(
            f"{type(method).__name__} moves no distances: effective_distance is for methods with branches, such as "
            "SelfExtend, and for those of distances, such as Interpolate"
        )
    return seen.masked_fill(k > q, math.nan)


def first_match(
    branches: Sequence[Branch], q: Tensor, k: Tensor, values: Callable[[Branch], Tensor], other: float = -math.inf
) -> Tensor:
    """Values of the first branch that holds each pair, and `other` where none does.

    Args:
        branches: at least one.
        q: positions `[..., q, 1]`.
        k: positions `[..., 1, k]`.
        values: from a branch to its values at all pairs, `[*any, ..., q, k]`.
        other: what stands where no branch holds.
    """
    out: Tensor | None = None
    for branch in reversed(branches):
        mine = values(branch)
        out = torch.where(branch.where(q, k), mine, torch.full_like(mine, other) if out is None else out)
    if out is None:
        raise InvalidArgument("an extension of pairs has at least one branch")
    return out


class Span(NamedTuple):
    """Keys next to each other, and the branches that hold pairs of some queries with them, the first first.

    A mask is `[1 or batch, 1, rows, keys]`; None: the branch holds all that is left.
    """

    keys: slice
    held: tuple[tuple[int, Tensor | None], ...]


Turned = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class PairLogits:
    """Whole logits of queries and keys that are turned differently for different pairs.

    Args:
        branches: pairs and where they are moved to, first match first.
        rotation: from positions to what turns queries and keys there.
        positions: where these stand before any move.
    """

    branches: Sequence[Branch]
    rotation: Callable[[Positions], QueryKeyMap]
    positions: Positions
    turns: tuple[QueryKeyMap, ...] = ()
    known: dict[tuple[int, ...], list[Span]] = field(default_factory=dict[tuple[int, ...], list[Span]])

    def __post_init__(self) -> None:
        q, k = self.positions.one_axis()
        moved = (
            self.positions.replace(q=one.q_map(q.unsqueeze(-1)).squeeze(-1), k=one.k_map(k.unsqueeze(-2)).squeeze(-2))
            for one in self.branches
        )
        object.__setattr__(self, "turns", tuple(self.rotation(here) for here in moved))

    def __call__(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        """All logits `[batch, heads, q, k]`, -inf where no branch holds; every product is formed as a whole."""
        turned = dict(zip(map(id, self.branches), self._turned(q, k, scale), strict=True))
        q_place, k_place = self.positions.one_axis()
        q_place, k_place = q_place.unsqueeze(-1), k_place.unsqueeze(-2)
        if q_place.dim() == 3:  # rows of a batch, before their heads
            q_place, k_place = q_place.unsqueeze(1), k_place.unsqueeze(1)
        return first_match(self.branches, q_place, k_place, lambda one: product(*turned[id(one)]))

    def part(self, rows: slice, columns: slice) -> PairLogits:
        """The same for some queries and keys."""
        return PairLogits(self.branches, self.rotation, self.positions.part(rows, columns))

    def ready(self, q: Tensor, k: Tensor, scale: float) -> Callable[[slice, slice], tuple[Tensor, list[slice]]]:
        """Turn all queries and keys once: from some rows and columns to logits, and the keys that these are of."""
        turned = self._turned(q, k, scale)
        return lambda rows, columns: self._block(turned, rows, columns)

    def _turned(self, q: Tensor, k: Tensor, scale: float) -> Turned:
        wide = torch.promote_types(q.dtype, torch.float32)
        return [(turn.q(q).to(wide) * scale, turn.k(k).to(wide)) for turn in self.turns]

    def _block(self, turned: Turned, rows: slice, columns: slice) -> tuple[Tensor, list[slice]]:
        spans = self._spans(rows, columns)
        pieces = [self._piece(turned, rows, span) for span in spans]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-1), [span.keys for span in spans]

    def _piece(self, turned: Turned, rows: slice, span: Span) -> Tensor:
        out: Tensor | None = None
        for number, mask in reversed(span.held):
            q, k = turned[number]
            mine = product(q[:, :, rows], k[:, :, span.keys])
            if mask is not None:
                mine = mine.masked_fill(~mask, -math.inf) if out is None else torch.where(mask, mine, out)
            out = mine
        if out is None:  # no branch holds any pair of these rows
            out = turned[0][0].new_full((*turned[0][0][:, :, rows].shape[:3], _width(span.keys)), -math.inf)
        return out

    def _spans(self, rows: slice, columns: slice) -> list[Span]:
        """Keys that the same branches hold, side by side; found once for all layers."""
        where = (rows.start, rows.stop, columns.start, columns.stop)
        if where not in self.known:
            q, k = self.positions.one_axis()
            self.known[where] = _find_spans(
                self.branches, q[..., rows].unsqueeze(-1), k[..., columns].unsqueeze(-2), columns.start
            )
        return self.known[where]


def product(q: Tensor, k: Tensor) -> Tensor:
    """Products of queries `[batch, heads, q, head_dim]` and keys `[batch, kv_heads, k, head_dim]`, not narrowed."""
    batch, heads, rows, _ = q.shape
    with torch.autocast(q.device.type, enabled=False):
        if heads == k.shape[1]:
            return q @ k.transpose(-1, -2)
        # query heads that share keys are rows of one product: no copy of the keys
        q = q.reshape(batch, k.shape[1], heads // k.shape[1] * rows, q.shape[3])
        return (q @ k.transpose(-1, -2)).view(batch, heads, rows, k.shape[2])


def _find_spans(branches: Sequence[Branch], q: Tensor, k: Tensor, start: int) -> list[Span]:
    shape = torch.broadcast_shapes(q.shape, k.shape)
    free = torch.ones(shape, dtype=torch.bool, device=q.device)
    masks: list[Tensor] = []
    kinds = torch.zeros(shape[-1], dtype=torch.int64, device=q.device)
    for number, branch in enumerate(branches):
        mine = branch.where(q, k) & free
        free = free & ~mine
        masks.append(mine)
        kinds = kinds + (mine.flatten(0, -2).any(0).long() << number)
    ends = [0, *((kinds.diff() != 0).nonzero().flatten() + 1).tolist(), shape[-1]]
    if len(ends) > 4 * len(branches) + 4:  # keys in no order that helps
        ends = [0, shape[-1]]
    spans: list[Span] = []
    for first, last in itertools.pairwise(ends):
        here = [mask[..., first:last] for mask in masks]
        held = [(number, mask) for number, mask in enumerate(here) if bool(mask.any())]
        if held:
            by_head = tuple(
                (number, None if bool(mask.all()) else mask.view(-1, 1, *mask.shape[-2:])) for number, mask in held
            )
            barred = bool(free[..., first:last].any())
            if not barred:  # what the last branch holds is all that the others leave
                by_head = (*by_head[:-1], (by_head[-1][0], None))
            spans.append(Span(slice(start + first, start + last), by_head))
    return spans or [Span(slice(start, start + 1), ())]


def _width(keys: slice) -> int:
    return keys.stop - keys.start


def _any(method: Method) -> Any:
    return method
