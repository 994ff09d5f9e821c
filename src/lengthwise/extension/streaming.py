"""Few first tokens and a window of recent ones are all that is seen.

StreamingLLM (Xiao et al. 2023, 2309.17453, id UNVERIFIED): positions count within the cache that holds both,

    distance(i, j) = i - j                   for i - j < recent
                   = min(i, n - 1) - j       for j < sinks,   n = sinks + recent

LM-Infinite (Han et al. 2023, 2308.16137, id UNVERIFIED): distances stop at the window,

    distance(i, j) = i - j                   for i - j < local
                   = local                   for j < sinks

What a token sees follows from its own position, so that a cache, of unrotated keys, and one pass agree. The published
StreamingLLM reaches the same by throwing keys out of its cache a token at a time; it lets a chunk of several new tokens
see more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Branch, Method
from lengthwise.extension.registry import extensions

_KEPT = frozenset({"nonpositive", "pairwise"})  # which tokens are first depends on their position


@extensions.register("streaming_llm")
@dataclass(frozen=True)
class StreamingLLM(Method):
    """First and recent tokens, as if nothing had been between them.

    Args:
        sinks: first tokens that are always seen, 4 as published.
        recent: tokens seen at their distance, the query's own among them, at least 1; 512 in the published code.

    Raises:
        InvalidArgument: settings out of range.

    Example:
        >>> import lengthwise as lw
        >>> lw.extension.effective_distance(lw.StreamingLLM(sinks=2, recent=3), 8)[7].tolist()
        [4.0, 3.0, inf, inf, inf, 2.0, 1.0, 0.0]
    """

    sinks: int = 4
    recent: int = 512

    formula: ClassVar[str] = "i - j where i - j < r;  min(i, s + r - 1) - j where j < s"
    paper: ClassVar[str] = "Xiao et al. 2023, arXiv 2309.17453"
    example: ClassVar[str] = "streaming_llm(sinks=4, recent=12)"
    preserves: ClassVar[frozenset[str]] = _KEPT

    def __post_init__(self) -> None:
        _check(self.sinks, "recent", self.recent)

    @property
    def exact_up_to(self) -> int:
        """Sequences of at most this length are left as they are."""
        return self.sinks + self.recent

    def branches(self) -> Sequence[Branch]:
        """Recent tokens as they are, the first as near as in a cache without the rest."""
        last = self.sinks + self.recent - 1
        near = Branch(lambda q, k: q - k < self.recent, lambda q: q, lambda k: k)
        first = Branch(lambda q, k: (k < self.sinks) & (k <= q), lambda q: q.clamp(max=last), lambda k: k)
        return near, first


@extensions.register("lm_infinite")
@dataclass(frozen=True)
class LMInfinite(Method):
    """First and recent tokens, the first at the distance where the recent ones end.

    Args:
        sinks: first tokens that are always seen.
        local: tokens seen at their distance, the query's own among them, and the largest distance: the trained length.

    Raises:
        InvalidArgument: settings out of range.

    Example:
        >>> import lengthwise as lw
        >>> lw.extension.effective_distance(lw.LMInfinite(sinks=2, local=3), 8)[7].tolist()
        [3.0, 3.0, inf, inf, inf, 2.0, 1.0, 0.0]
    """

    sinks: int = 4
    _: KW_ONLY
    local: int

    formula: ClassVar[str] = "i - j where i - j < l;  l where j < s"
    paper: ClassVar[str] = "Han et al. 2023, arXiv 2308.16137"
    example: ClassVar[str] = "lm_infinite(local=16)"
    preserves: ClassVar[frozenset[str]] = _KEPT

    def __post_init__(self) -> None:
        _check(self.sinks, "local", self.local)

    @property
    def exact_up_to(self) -> int:
        """Sequences of at most this length are left as they are."""
        return self.local

    def branches(self) -> Sequence[Branch]:
        """Recent tokens as they are, the first at the largest distance."""
        near = Branch(lambda q, k: q - k < self.local, lambda q: q, lambda k: k)
        at_end = Branch(self._is_first, lambda q: torch.full_like(q, self.local), torch.zeros_like)
        return near, at_end

    def _is_first(self, q: Tensor, k: Tensor) -> Tensor:
        return (k < self.sinks) & (k <= q)


def _check(sinks: int, name: str, window: int) -> None:
    if sinks < 0 or window < 1:
        raise InvalidArgument(
            f"{name} needs at least 1 token, the query's own, and sinks at least 0; given are {window} and {sinks}"
        )
