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
    """Keys next to each other, and the kinds of pairs that some queries make with them, the first to hold first.

    A mask is `[1 or batch, 1, rows or 1, keys or 1]`; None: the kind holds all that is left.
    """

    keys: slice
    held: tuple[tuple[int, Tensor | None], ...]


class Piece(NamedTuple):
    """Pairs of one kind: some queries with keys next to each other.

    A mask, float32 `[1 or batch, 1, rows, keys]`, is -inf at pairs that are of another kind or not seen; None: all are.
    """

    number: int
    keys: slice
    mask: Tensor | None


Where = Callable[[Tensor, Tensor], Tensor]
Turned = Callable[[int], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class PairLogits:
    """Whole logits of queries and keys that are turned differently for different kinds of pairs.

    Args:
        where: for each kind, which pairs it holds; of several the first, and a pair that none holds is not seen.
        turning: from the number of a kind, and positions, to what turns queries and keys there.
        positions: where queries and keys stand.
    """

    where: Sequence[Where]
    turning: Callable[[int, Positions], QueryKeyMap]
    positions: Positions
    turns: dict[int, QueryKeyMap] = field(default_factory=dict)
    known: dict[tuple[int, ...], list[Span]] = field(default_factory=dict)
    parted: dict[tuple[int, ...], list[Piece]] = field(default_factory=dict)

    @classmethod
    def of_branches(
        cls, branches: Sequence[Branch], rotation: Callable[[Positions], QueryKeyMap], positions: Positions
    ) -> PairLogits:
        """Logits of an encoding whose pairs are moved by branches."""

        def turning(number: int, positions: Positions) -> QueryKeyMap:
            (q, k), branch = positions.one_axis(), branches[number]
            return rotation(
                positions.replace(
                    q=branch.q_map(q.unsqueeze(-1)).squeeze(-1), k=branch.k_map(k.unsqueeze(-2)).squeeze(-2)
                )
            )

        return cls([branch.where for branch in branches], turning, positions)

    def __call__(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        """All logits `[batch, heads, q, k]`, -inf where no kind holds; every product is formed as a whole."""
        q_place, k_place = self._places(slice(None), slice(None))
        if q_place.dim() == 3:  # rows of a batch, before their heads
            q_place, k_place = q_place.unsqueeze(1), k_place.unsqueeze(1)
        out: Tensor | None = None
        for number in reversed(range(len(self.where))):
            mine = product(*self._turned(number, q, k, scale))
            other = torch.full_like(mine, -math.inf) if out is None else out
            out = torch.where(self.where[number](q_place, k_place), mine, other)
        if out is None:
            raise InvalidArgument("an extension of pairs has at least one branch")
        return out

    def part(self, rows: slice, columns: slice) -> PairLogits:
        """The same for some queries and keys."""
        return PairLogits(self.where, self.turning, self.positions.part(rows, columns))

    def ready(self, q: Tensor, k: Tensor, scale: float) -> Callable[[slice, slice], tuple[Tensor, list[slice]]]:
        """Turn queries and keys once: from some rows and columns to logits, and the keys that these are of."""
        turned = self.turned(q, k, scale)
        return lambda rows, columns: self._block(turned, rows, columns)

    def turned(self, q: Tensor, k: Tensor, scale: float) -> Turned:
        """From the number of a kind to queries and keys turned for it, the queries times `scale`, float32 or wider."""
        made: dict[int, tuple[Tensor, Tensor]] = {}
        if torch.is_grad_enabled():  # what is formed again in a backward pass must find all as it was
            made = {number: self._turned(number, q, k, scale) for number in range(len(self.where))}

        def turned(number: int) -> tuple[Tensor, Tensor]:
            if number not in made:
                if len(made) >= _KEPT:  # those of rows long past
                    del made[next(iter(made))]
                made[number] = self._turned(number, q, k, scale)
            return made[number]

        return turned

    def pieces(self, rows: slice, columns: slice) -> list[Piece]:
        """All visible pairs of some rows and columns by kind, in pieces of keys; found once for all layers."""
        at = (rows.start, rows.stop, columns.start, columns.stop)
        found = self.parted.get(at)
        if found is None:
            seen = self.positions.part(rows, columns).visible()
            found = _find_pieces(self.where, *self._places(rows, columns), seen, columns.start)
            if sum(piece.mask.numel() for piece in found if piece.mask is not None) <= _HELD:
                self.parted[at] = found
        return found

    def _turned(self, number: int, q: Tensor, k: Tensor, scale: float) -> tuple[Tensor, Tensor]:
        if number not in self.turns:
            if len(self.turns) >= _KEPT:
                del self.turns[next(iter(self.turns))]
            self.turns[number] = self.turning(number, self.positions)
        turn, wide = self.turns[number], torch.promote_types(q.dtype, torch.float32)
        return turn.q(q).to(wide) * scale, turn.k(k).to(wide)

    def _block(self, turned: Turned, rows: slice, columns: slice) -> tuple[Tensor, list[slice]]:
        spans = self._spans(rows, columns)
        pieces = [_piece(turned, rows, span) for span in spans]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-1), [span.keys for span in spans]

    def _spans(self, rows: slice, columns: slice) -> list[Span]:
        """Keys that the same kinds hold, side by side; found once for all layers."""
        at = (rows.start, rows.stop, columns.start, columns.stop)
        if at not in self.known:
            self.known[at] = _find_spans(self.where, *self._places(rows, columns), columns.start)
        return self.known[at]

    def _places(self, rows: slice, columns: slice) -> tuple[Tensor, Tensor]:
        q, k = self.positions.one_axis()
        return q[..., rows].unsqueeze(-1), k[..., columns].unsqueeze(-2)


_SCATTERED = 32
"""Runs of keys above which one mask over all of them is cheaper than a product for each run."""
_HELD = 2**19
"""Numbers of masks that are kept for other layers, at most, for each block of queries."""
_KEPT = 4
"""Kinds whose turned queries and keys are kept at a time, where there are many: rows near each other have few."""


def product(q: Tensor, k: Tensor) -> Tensor:
    """Products of queries `[batch, heads, q, head_dim]` and keys `[batch, kv_heads, k, head_dim]`, not narrowed."""
    batch, heads, rows, _ = q.shape
    with torch.autocast(q.device.type, enabled=False):
        if heads == k.shape[1]:
            return q @ k.transpose(-1, -2)
        # query heads that share keys are rows of one product: no copy of the keys
        q = q.reshape(batch, k.shape[1], heads // k.shape[1] * rows, q.shape[3])
        return (q @ k.transpose(-1, -2)).view(batch, heads, rows, k.shape[2])


def _piece(turned: Turned, rows: slice, span: Span) -> Tensor:
    out: Tensor | None = None
    for number, mask in reversed(span.held):
        q, k = turned(number)
        mine = product(q[:, :, rows], k[:, :, span.keys])
        if mask is not None:
            mine = mine.masked_fill(~mask, -math.inf) if out is None else torch.where(mask, mine, out)
        out = mine
    if out is None:  # no kind holds any pair of these rows
        q = turned(0)[0][:, :, rows]
        out = q.new_full((*q.shape[:3], span.keys.stop - span.keys.start), -math.inf)
    return out


def _find_spans(where: Sequence[Where], q: Tensor, k: Tensor, start: int) -> list[Span]:
    keys = k.shape[-1]
    free = torch.ones((1, 1), dtype=torch.bool, device=q.device)
    masks: dict[int, Tensor] = {}
    changes = torch.zeros(keys - 1, dtype=torch.bool, device=q.device)
    for number, holds in enumerate(where):
        mine = holds(q, k) & free
        if bool(mine.any()):
            masks[number] = mine
            free = free & ~mine
            if mine.shape[-1] > 1:
                some = mine.flatten(0, -2).any(0)
                changes = changes | (some[1:] != some[:-1])
    ends = [0, *(changes.nonzero().flatten() + 1).tolist(), keys]
    if len(ends) > 4 * len(where) + 4:  # keys in no order that helps
        ends = [0, keys]
    spans: list[Span] = []
    for first, last in itertools.pairwise(ends):
        here = [(number, _columns(mask, first, last)) for number, mask in masks.items()]
        held = [(number, mask) for number, mask in here if bool(mask.any())]
        if held:
            if not bool(_columns(free, first, last).any()):  # what the last one holds is all that the others leave
                held = [*held[:-1], (held[-1][0], None)]
            by_head = [(number, None if mask is None else _by_head(mask)) for number, mask in held]
            spans.append(Span(slice(start + first, start + last), tuple(by_head)))
    return spans or [Span(slice(start, start + 1), ())]


def _find_pieces(where: Sequence[Where], q: Tensor, k: Tensor, seen: Tensor | None, start: int) -> list[Piece]:
    shape = q.shape[-2], k.shape[-1]
    free = torch.ones(shape, dtype=torch.bool, device=q.device) if seen is None else seen
    pieces: list[Piece] = []
    for number, holds in enumerate(where):
        mine = holds(q, k) & free
        free = free & ~mine
        over = mine.reshape(-1, shape[1]) if mine.shape[-2:] == shape else mine.expand(shape)
        kind = over.any(dim=0).int() + over.all(dim=0).int()  # of each key: held by no row, by some, by all
        ends = [0, *((kind[1:] != kind[:-1]).nonzero().flatten() + 1).tolist(), shape[1]]
        if len(ends) > _SCATTERED:  # keys in no order that helps
            kind, ends = kind.clamp(max=1).amax().expand(shape[1]), [0, shape[1]]
        for first, last in itertools.pairwise(ends):
            if int(kind[first]):
                keys = slice(start + first, start + last)
                here = None if int(kind[first]) == 2 else _by_head(mine[..., first:last])
                bars = None if here is None else torch.zeros(here.shape, device=q.device).masked_fill_(~here, -math.inf)
                pieces.append(Piece(number, keys, bars))
    return pieces


def _columns(mask: Tensor, first: int, last: int) -> Tensor:
    return mask if mask.shape[-1] == 1 else mask[..., first:last]


def _by_head(mask: Tensor) -> Tensor:
    return mask.reshape(-1, 1, *mask.shape[-2:])  # [1 or batch, 1, rows, keys]


def _any(method: Method) -> Any:
    return method
