"""Dual chunk attention: positions count within chunks (An et al. 2024, 2402.17463, id UNVERIFIED).

    s = c - w,   key at j mod s,   query at   i mod s                for a key of its own chunk of s tokens
                                              min(i mod s + s, c)    for one of the chunk before
                                              min(2 s - 1, c)        for older ones

No distance is above c. Those up to w are exact where c >= 2 w. The published code stops at c, as here; the text of the
paper says c - 1 (UNVERIFIED). Its temperature, which grows with the length, is left out: cached keys would go stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Branch, Method
from lengthwise.extension.registry import extensions


@extensions.register("dual_chunk")
@dataclass(frozen=True)
class DualChunk(Method):
    """Distances within a chunk, to the chunk before, and one for all older chunks.

    Args:
        chunk: the largest distance, below the trained length: three quarters of it in the published code.
        local: tokens that a chunk shares with the next, below `chunk`: an eighth of the trained length there.

    Raises:
        InvalidArgument: settings out of range.

    Example:
        >>> import lengthwise as lw
        >>> lw.extension.effective_distance(lw.DualChunk(chunk=6, local=2), 12)[11].tolist()
        [6.0, 5.0, 4.0, 3.0, 6.0, 5.0, 4.0, 3.0, 3.0, 2.0, 1.0, 0.0]
    """

    chunk: int
    local: int

    formula: ClassVar[str] = "j mod s against i mod s, min(i mod s + s, c) or min(2s - 1, c),  s = c - w"
    paper: ClassVar[str] = "An et al. 2024, arXiv 2402.17463"
    example: ClassVar[str] = "dual_chunk(chunk=48, local=8)"
    preserves: ClassVar[frozenset[str]] = frozenset({"nonpositive", "pairwise"})

    def __post_init__(self) -> None:
        if not 0 <= self.local < self.chunk:
            raise InvalidArgument(
                f"DualChunk needs a chunk above local and a local of at least 0, not {self.chunk} and {self.local}: "
                "three quarters and an eighth of the trained length are published"
            )

    @classmethod
    def published(cls, trained_length: int) -> DualChunk:
        """The published settings for a model trained to so many tokens."""
        return cls(3 * trained_length // 4, trained_length // 8)

    @property
    def exact_up_to(self) -> int:
        """Sequences of at most this length are left as they are."""
        return min(self.chunk + 1, 2 * self._size)

    def branches(self) -> Sequence[Branch]:
        """The own chunk, the one before, and all older ones."""
        size, largest = self._size, self.chunk
        oldest = min(2 * size - 1, largest)

        def next_to(place: Tensor) -> Tensor:
            return (self._within(place) + size).clamp(max=largest)

        def beyond(place: Tensor) -> Tensor:
            return torch.full_like(place, oldest)

        return (
            Branch(lambda q, k: self._apart(q, k) <= 0, self._within, self._within),
            Branch(lambda q, k: self._apart(q, k) == 1, next_to, self._within),
            Branch(lambda q, k: self._apart(q, k) > 1, beyond, self._within),
        )

    @property
    def _size(self) -> int:
        return self.chunk - self.local

    def _within(self, place: Tensor) -> Tensor:
        return place.remainder(self._size)

    def _apart(self, q: Tensor, k: Tensor) -> Tensor:
        own, other = (torch.div(place, self._size, rounding_mode="floor") for place in (q, k))
        return own - other
