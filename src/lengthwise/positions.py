"""Where each token is, and what it may see.

A position says where a token is; it is what an encoding reads. Order (the index in the whole sequence), segments and
a window say what a token may see; no map of positions ever changes that. Positions are always an argument: an
encoding never counts tokens by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions_check import (
    check_count,
    check_mask,
    check_orders,
    check_places,
    check_rows,
    check_segments,
    check_settings,
)
from lengthwise.positions_tree import register

_TENSORS = ("q", "k", "q_segment", "k_segment", "q_order", "k_order")
_SETTINGS = ("causal", "window", "aligned", "target_length")


@dataclass(frozen=True, eq=False)
class Positions:
    """Positions of queries and keys, with what decides visibility.

    Args:
        q: positions of the queries, int64 `[q]`, `[batch, q]` or `[batch or 1, q, axes]`; floating after a map.
        k: positions of the keys, likewise.
        q_segment: int64 `[batch, q]`; a token sees only its own segment; -1 is padding, which sees nothing.
        k_segment: int64 `[batch, k]`; -1 is seen by none.
        q_order: int64 `[q]` or `[batch, q]`, index in the whole sequence; None: the queries are the last of the keys.
        k_order: int64 `[k]` or `[batch, k]`; None: keys in the order in which they stand.
        causal: a token sees no later ones.
        window: a token sees at most so many tokens back, itself not counted (ahead too, where not causal).
        aligned: the promise that the queries are the last keys, that every visible pair has `q - k` equal to its
            difference in index, and that `0 <= position < number of keys`. Only constructors make it.
        target_length: the length to which a length-dependent method is fixed; never filled in by itself.

    Raises:
        InvalidArgument: shapes that do not fit together, and anything else that can be told without reading a tensor.
    """

    q: Tensor
    k: Tensor
    q_segment: Int[Tensor, "batch q"] | None = None
    k_segment: Int[Tensor, "batch k"] | None = None
    q_order: Int[Tensor, "*batch q"] | None = None
    k_order: Int[Tensor, "*batch k"] | None = None
    causal: bool = True
    window: int | None = None
    aligned: bool = False
    target_length: int | None = None

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        *,
        q_segment: Tensor | None = None,
        k_segment: Tensor | None = None,
        q_order: Tensor | None = None,
        k_order: Tensor | None = None,
        causal: bool = True,
        window: int | None = None,
        aligned: bool = False,
        target_length: int | None = None,
    ) -> None:
        values = (q, k, q_segment, k_segment, q_order, k_order, causal, window, aligned, target_length)
        for name, value in zip(_TENSORS + _SETTINGS, values, strict=True):
            object.__setattr__(self, name, value)
        check_places(q, k)
        check_segments(q_segment, k_segment, self.q_length, self.k_length)
        check_orders(q_order, k_order, self.q_length, self.k_length, needed=causal or window is not None)
        check_rows(self._batched())
        check_settings(window, target_length)

    # --- constructors -------------------------------------------------------------------------------------------

    @classmethod
    def sequence(cls, length: int, causal: bool = True, *, device: torch.device | str | None = None) -> Positions:
        """One sequence of `length` tokens that attends to itself."""
        check_count("length", length)
        place = torch.arange(length, device=device)
        return cls(place, place, causal=causal, aligned=True)

    @classmethod
    def step(cls, past: int, new: int = 1, *, device: torch.device | str | None = None) -> Positions:
        """The last `new` tokens of a sequence, whose first `past` tokens are in a cache."""
        check_count("past", past)
        check_count("new", new)
        place = torch.arange(past + new, device=device)
        return cls(place[past:], place, aligned=True)

    @classmethod
    def packed(
        cls, lengths: Sequence[int], causal: bool = True, *, device: torch.device | str | None = None
    ) -> Positions:
        """Documents one after another in one row; each counts from 0 and sees only itself.

        Args:
            lengths: number of tokens of each document.
            causal: whether a token sees no later ones.
            device: where the tensors are made.
        """
        for length in lengths:
            check_count("a length of a packed document", length)
        counts = [int(length) for length in lengths]
        number = torch.tensor(counts, dtype=torch.int64, device=device)
        segment = torch.repeat_interleave(torch.arange(len(counts), device=device), number)[None]  # [1, total]
        start = torch.repeat_interleave(number.cumsum(0) - number, number)
        place = (torch.arange(sum(counts), device=device) - start)[None]  # [1, total]
        return cls(place, place, q_segment=segment, k_segment=segment, causal=causal, aligned=True)

    @classmethod
    def padded(cls, attention_mask: Tensor, new: int | None = None, *, causal: bool = True) -> Positions:
        """A batch of rows padded left or right; each row counts from its first real token.

        A masked token between real ones keeps its place: positions are differences in index.

        Args:
            attention_mask: bool or integer `[batch, keys]`, nonzero where a token is real.
            new: how many of the last columns are queries; all where None.
            causal: whether a token sees no later ones.
        """
        check_mask(attention_mask)
        real = attention_mask.ne(0)
        keys = real.shape[1]
        count = keys if new is None else new
        if not 0 <= count <= keys:
            raise InvalidArgument(f"new must be between 0 and the {keys} columns of attention_mask, not {new}")
        skipped = (real.cumsum(1) == 0).sum(1, keepdim=True)  # [batch, 1]: columns before the first real token
        index = torch.arange(keys, device=real.device)
        place = (index - skipped).clamp(min=0)
        segment = torch.where(real, 0, -1)
        past = keys - count
        return cls(place[:, past:], place, q_segment=segment[:, past:], k_segment=segment, causal=causal, aligned=True)

    @classmethod
    def cross(cls, queries: int, keys: int, *, device: torch.device | str | None = None) -> Positions:
        """Queries that attend to another sequence, all of it."""
        check_count("queries", queries)
        check_count("keys", keys)
        return cls(torch.arange(queries, device=device), torch.arange(keys, device=device), causal=False)

    @classmethod
    def grid(cls, *sizes: int, causal: bool = False, device: torch.device | str | None = None) -> Positions:
        """All points of a grid, the last axis fastest: `grid(rows, columns)` for the patches of an image.

        Every point sees every other, unless `causal`; then it sees those before it in this order.

        Example:
            >>> Positions.grid(2, 2).q.tolist()
            [[[0, 0], [0, 1], [1, 0], [1, 1]]]
        """
        for size in sizes:
            check_count("a size of a grid", size)
        if not sizes:
            raise InvalidArgument("a grid has at least one size: grid(rows, columns)")
        axes = torch.meshgrid(*(torch.arange(size, device=device) for size in sizes), indexing="ij")
        place = torch.stack([axis.flatten() for axis in axes], dim=-1)[None]  # [1, points, axes]
        return cls(place, place, causal=causal)

    @classmethod
    def shard(
        cls,
        queries: range | Tensor,
        keys: range | Tensor,
        causal: bool = True,
        *,
        window: int | None = None,
        device: torch.device | str | None = None,
    ) -> Positions:
        """Some queries and keys of one sequence that is spread over machines, each known by its index in the whole.

        Attention to each shard of keys with `return_lse=True` goes together by `lengthwise.merge`. Shards may be
        runs, stripes, or any others: `range(0, 64)`, `range(rank, 64, world)`, a tensor.

        Args:
            queries: index of each query in the whole sequence, a range or int64 `[q]`.
            keys: index of each key, likewise.
            causal: whether a token sees no later ones.
            window: a token sees at most so many tokens back.
            device: where the tensors are made of ranges.

        Example:
            >>> Positions.shard(range(1, 6, 2), range(3)).visible().tolist()
            [[True, True, False], [True, True, True], [True, True, True]]
        """
        q = _index(queries, device)
        k = q if keys is queries or (isinstance(keys, range) and keys == queries) else _index(keys, device)
        return cls(q, k, q_order=q, k_order=k, causal=causal, window=window)

    # --- what is asked of it ------------------------------------------------------------------------------------

    @property
    def q_length(self) -> int:
        """Number of queries."""
        return self.q.shape[min(self.q.dim() - 1, 1)]

    @property
    def k_length(self) -> int:
        """Number of keys."""
        return self.k.shape[min(self.k.dim() - 1, 1)]

    @property
    def axes(self) -> int:
        """Number of coordinates of a position."""
        return self.q.shape[2] if self.q.dim() == 3 else 1

    @property
    def batch(self) -> int:
        """Number of rows that differ; 1 where all rows of a batch stand at the same positions."""
        sizes = (part.shape[0] for _, part in self._batched() if part.shape[0] != 1)
        return next(sizes, 1)

    @property
    def device(self) -> torch.device:
        """Where the positions lie."""
        return self.q.device

    @property
    def plain(self) -> bool:
        """Whether order alone decides what is seen: no segments, no window, no order of its own."""
        rest = (self.q_segment, self.k_segment, self.q_order, self.k_order, self.window)
        return all(part is None for part in rest)

    def one_axis(self) -> tuple[Tensor, Tensor]:
        """Positions of the queries and of the keys as numbers, `[q]` or `[batch, q]`: for what reads one axis.

        Raises:
            InvalidArgument: positions of several axes.
        """
        if self.axes != 1:
            raise InvalidArgument(f"positions of one axis are needed here, and these have {self.axes}")
        if self.q.dim() != 3:
            return self.q, self.k
        q = self.q.squeeze(2)
        return q, q if self.k is self.q else self.k.squeeze(2)

    def several_axes(self, axes: int) -> tuple[Tensor, Tensor]:
        """Positions of the queries and of the keys as points of `axes` coordinates, `[batch or 1, q, axes]`.

        Raises:
            InvalidArgument: positions of another number of axes.
        """
        if self.axes != axes or self.q.dim() != 3:
            raise InvalidArgument(
                f"positions of {axes} axes are needed here, [batch or 1, length, {axes}], and these have {self.axes}; "
                "tokens in a row have one, for which the encodings of one axis are made"
            )
        return self.q, self.k

    def distance(self) -> Tensor:
        """Position of the query less that of the key: `[q, k]`, or `[batch, q, k]` from batched positions."""
        q, k = self.one_axis()
        return q.unsqueeze(-1) - k.unsqueeze(-2)

    def check_tokens(self, x: Tensor) -> None:
        """Raise `InvalidArgument` unless each token of `x [batch, length, ...]` has a query position of its own.

        One position for many tokens would broadcast in silence.
        """
        if x.shape[1] != self.q_length or self.batch not in (1, x.shape[0]):
            raise InvalidArgument(
                f"{x.shape[0]} rows of {x.shape[1]} tokens do not match positions of {self.batch} rows "
                f"of {self.q_length}"
            )

    def outside(self, count: int) -> int | None:
        """A query position that is none of `0 ... count - 1`, the rows of a table; None where all are.

        Aligned positions are told by their number, without reading a tensor. A compiler can't read one: it gets None.
        """
        if self.q.numel() == 0 or (self.aligned and self.k_length <= count):
            return None
        if self.aligned and self.plain:
            return self.k_length - 1  # without segments they reach it: a compiler can tell too
        if torch.compiler.is_compiling():
            return None
        low, high = int(self.q.min()), int(self.q.max())
        return low if low < 0 else high if high >= count else None

    def visible(self) -> Bool[Tensor, "*batch q k"] | None:
        """Which pairs may attend, `[q, k]` or `[batch, q, k]`; None where all do."""
        mask: Tensor | None = None
        if self.plain and (not self.causal or self.q_length == 1):
            return None  # the last token of all sees all
        if self.causal or self.window is not None:
            q_order, k_order = self.orders()
            back = q_order.unsqueeze(-1) - k_order.unsqueeze(-2)  # [(batch,) q, k]
            if self.causal:
                mask = back >= 0
            if self.window is not None:
                near = (back <= self.window) if self.causal else (back.abs() <= self.window)
                mask = near if mask is None else mask & near
        if self.q_segment is not None and self.k_segment is not None:
            own = self.q_segment.unsqueeze(-1)  # [batch, q, 1]
            same = (own == self.k_segment.unsqueeze(-2)) & (own != -1)
            mask = same if mask is None else mask & same
        return mask

    def orders(self) -> tuple[Tensor, Tensor]:
        """Index of the queries and of the keys in the whole sequence."""
        k_order = self.k_order
        if k_order is None:
            k_order = torch.arange(self.k_length, device=self.device)
        q_order = self.q_order
        if q_order is None:
            q_order = k_order[..., self.k_length - self.q_length :]
        return q_order, k_order

    # --- other positions from these -----------------------------------------------------------------------------

    def new(self) -> Positions:
        """The queries as keys too: the positions at which new keys are rotated before they join a cache."""
        # Where order decides nothing, there may be more queries than keys, and then they are not the last of these.
        ordered = self.causal or self.window is not None
        order = self.orders()[0] if ordered else self.q_order
        return self._with(k=self.q, k_segment=self.q_segment, q_order=order, k_order=order, aligned=False)

    def replace(self, **changes: Any) -> Positions:
        """The same with some fields changed; the promise `aligned` is withdrawn."""
        for name in changes:
            if name not in _TENSORS + _SETTINGS:
                raise InvalidArgument(f"Positions has no field {name!r}: {nearest(name, _TENSORS + _SETTINGS)}")
        if changes.get("aligned"):
            raise InvalidArgument("aligned is a promise that only constructors make: it can't be set by replace")
        return self._with(**{**changes, "aligned": False})

    def part(self, rows: slice, columns: slice) -> Positions:
        """Some queries and some keys only, each with the order in which it stands in the whole.

        The promise `aligned` is withdrawn: the queries need not be the last keys any more.
        """
        q_order, k_order = self.orders() if self.causal or self.window is not None else (self.q_order, self.k_order)

        def cut(part: Tensor | None, kept: slice) -> Tensor | None:
            return None if part is None else part[:, kept] if part.dim() > 1 else part[kept]

        tensors = (self.q, self.k, self.q_segment, self.k_segment, q_order, k_order)
        pairs = zip(_TENSORS, tensors, (rows, columns) * 3, strict=True)
        return self._with(**{name: cut(tensor, kept) for name, tensor, kept in pairs}, aligned=False)

    def with_target(self, length: int | None) -> Positions:
        """The same with a length-dependent method fixed to `length`; every promise stays, since nothing moves."""
        return self._with(target_length=length)

    def for_rows(self, batch: int) -> Positions:
        """The same with positions of their own for each of `batch` rows, so that a map can tell rows apart."""
        if self.q.dim() != 1:
            return self
        q = self.q.expand(batch, -1)
        return self._with(q=q, k=q if self.k is self.q else self.k.expand(batch, -1))

    def to(self, device: torch.device | str) -> Positions:
        """The same on another device."""
        there = {name: part.to(device) for name in _TENSORS if (part := getattr(self, name)) is not None}
        if self.k is self.q:
            there["k"] = there["q"]  # one tensor still: what is computed of it is computed once
        return self._with(**there)

    def _with(self, **changes: Any) -> Positions:
        kept = {name: getattr(self, name) for name in _TENSORS + _SETTINGS if name not in changes}
        return Positions(**kept, **changes)

    def _batched(self) -> list[tuple[str, Tensor]]:
        """Names and tensors of the parts that have a batch dimension."""
        parts = [(name, getattr(self, name)) for name in _TENSORS]
        return [(name, part) for name, part in parts if part is not None and part.dim() > 1]


def _index(part: range | Tensor, device: torch.device | str | None) -> Tensor:
    if isinstance(part, Tensor):
        return part
    if not isinstance(part, range):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(f"a shard is a range or an int64 tensor of indices, not {part!r}")
    return torch.arange(len(part), device=device) * part.step + part.start


register(Positions, tensors=_TENSORS, settings=_SETTINGS)
