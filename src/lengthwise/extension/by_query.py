"""A method that follows the length, at the length that each block of queries reaches.

    query at position p:  the spectrum for the length (floor(p / block) + 1) block, for it and for all keys it sees

A method such as dynamic NTK turns all tokens for the length of the whole sequence, so that a new token changes all
earlier ones and a cache of rotated keys goes stale. Here what a row does follows from its own position alone: one pass,
a cache of unrotated keys and every prefix agree. No paper; the published form recomputes all keys as a sequence grows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.extension.extended import Extended, SpectrumExtended
from lengthwise.extension.method import Method
from lengthwise.extension.pairs import PairLogits
from lengthwise.extension.registry import extensions
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared
from lengthwise.query_key import QueryKeyMap
from lengthwise.sites import axes
from lengthwise.spectrum import Spectrum


@extensions.register("by_query")
@dataclass(frozen=True)
class ByQuery(Method):
    """A length-dependent method, fixed for each block of queries at the length that the block reaches.

    Args:
        method: what follows the length, such as `DynamicNTK`.
        block: queries with one spectrum, at least 1; each block turns all keys before it anew.

    Raises:
        InvalidArgument: a block below 1, or a method that does not follow the length.

    Example:
        >>> import lengthwise as lw
        >>> method = lw.ByQuery(lw.DynamicNTK(factor=1, original_length=64), block=32)
        >>> longer = lw.extend(lw.Rotary(head_dim=4), method)
        >>> [longer.spectrum_of(position).inv_freq[1].item() for position in (0, 63, 64, 127)]
        [0.01, 0.01, 0.006666666666666666, 0.005]
    """

    method: Method
    block: int

    formula: ClassVar[str] = "the spectrum of row p is that of the length (⌊p/block⌋ + 1) block"
    paper: ClassVar[str] = "none: a form of dynamic methods that caches and prefixes agree with"
    example: ClassVar[str] = "by_query(dynamic_ntk(factor=2), block=16)"
    preserves: ClassVar[frozenset[str]] = frozenset({"pairwise"})

    def __post_init__(self) -> None:
        if not hasattr(self.method, "map_spectrum") or self.method.cached_keys != "rotated_at_target_length":
            raise InvalidArgument(
                f"ByQuery takes a method whose spectrum follows the length, such as DynamicNTK, and "
                f"{type(self.method).__name__} does not: use it without ByQuery"
            )
        if self.block < 1:
            raise InvalidArgument(f"a block has at least 1 query, not {self.block}")

    @property
    def cached_keys(self) -> str:
        """Each block of queries turns all keys anew."""
        return "raw"

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """Rotations of one axis, by frequencies that no method has changed for good."""
        if not all(hasattr(encoding, name) for name in ("rotation", "with_spectrum")):
            return "it changes the frequencies of a rotation, and this encoding has none"
        if axes(encoding) != 1:
            return f"it counts tokens in a row, and this encoding reads {axes(encoding)} axes"
        if getattr(encoding, "methods", ()):
            return "the frequencies of this encoding were changed by another method"
        return None

    def transform(self, encoding: nn.Module) -> nn.Module:
        """The encoding by blocks of queries."""
        return QueryBlocks(encoding, self)


class QueryBlocks(Extended):
    """A rotary encoding whose frequencies follow the position of the query, by blocks."""

    def __init__(self, encoding: nn.Module, method: ByQuery) -> None:
        super().__init__(encoding, method)
        self.at_length = SpectrumExtended(copy.deepcopy(encoding), method.method)
        del self.rotation  # keys are turned anew for each block of queries: whole logits take its place
        self.attention_logits = self._attention_logits
        # Blocks that end within the trained length share one spectrum.
        self.first = max(getattr(method.method, "original_length", 0) // method.block - 1, 0)

    def spectrum_of(self, position: int) -> Spectrum:
        """The frequencies by which a query at `position`, and all keys for it, are turned."""
        return self._spectrum(max(position // self._own.block - self.first, 0))

    def prepare(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Prepared:
        """The rotation itself where one block holds all queries that can be; else logits by blocks."""
        if positions.aligned and positions.k_length <= self._length(0) and not torch.compiler.is_compiling():
            return Prepared(positions, rotation=self._turning(0, positions))
        return Prepared(positions, logits=self._logits_at(positions))

    def _attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        return self._logits_at(positions)(q, k, positions, scale)

    def _logits_at(self, positions: Positions) -> PairLogits:
        q = positions.one_axis()[0]
        if positions.aligned and (positions.plain or torch.compiler.is_compiling()):
            # A compiler can't know from positions how many blocks there are, unless these are the last of the keys.
            first, last = (positions.k_length - positions.q_length if positions.plain else 0), positions.k_length - 1
        else:
            first, last = (int(q.min()), int(q.max())) if q.numel() else (0, 0)
        low, high = (max(place // self._own.block - self.first, 0) for place in (first, last))

        def turning(number: int, positions: Positions) -> QueryKeyMap:
            return self._turning(low + number, positions)

        return PairLogits([self._holds(number) for number in range(low, high + 1)], turning, positions)

    def _holds(self, number: int) -> Callable[[Tensor, Tensor], Tensor]:
        def where(q: Tensor, k: Tensor) -> Tensor:
            own = torch.div(q, self._own.block, rounding_mode="floor") - self.first
            return own.clamp(min=0) == number

        return where

    def _turning(self, number: int, positions: Positions) -> QueryKeyMap:
        return self.at_length.rotation_by(self._spectrum(number), positions)

    def _length(self, number: int) -> int:
        return (self.first + number + 1) * self._own.block

    def _spectrum(self, number: int) -> Spectrum:
        found: Any = self.at_length.spectrum_at(torch.tensor(self._length(number), dtype=torch.float64))
        return found
