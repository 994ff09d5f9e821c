"""ReRoPE: distances rise to a window and then no more, or slowly (Su 2023, kexue.fm/archives/9708).

    distance(i, j) = min(i - j, w)                    plain
                   = i - j        for i - j < w       leaky
                   = w + (i - j - w) / k   else

The published code also multiplies queries by max(1, ln(p + 1) / ln L): add `LogN`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Branch, Method
from lengthwise.extension.registry import extensions
from lengthwise.precision import widest_float


@extensions.register("rerope")
@dataclass(frozen=True)
class ReRoPE(Method):
    """Distances of the window and beyond are the window, or grow more slowly.

    Args:
        window: distances below it stay as they are; at least 1, at most the trained length. 512 in the published code,
            for models trained to 4096.
        leak: how many tokens count as one beyond the window, at least 1; 16 in the published code of the leaky form.
            None: distances stop at the window. 1 changes nothing.

    Raises:
        InvalidArgument: settings out of range.

    Example:
        >>> import lengthwise as lw
        >>> lw.extension.effective_distance(lw.ReRoPE(window=3, leak=2), 6)[5].tolist()
        [4.0, 3.5, 3.0, 2.0, 1.0, 0.0]
    """

    window: int = 512
    leak: float | None = None

    formula: ClassVar[str] = "i - j -> min(i - j, w);  leaky: w + (i - j - w)/k beyond w"
    paper: ClassVar[str] = "Su 2023, kexue.fm/archives/9708"
    example: ClassVar[str] = "rerope(window=16)"
    preserves: ClassVar[frozenset[str]] = frozenset(
        {"translation_invariant", "nonincreasing", "nonpositive", "pairwise"}
    )

    def __post_init__(self) -> None:
        if self.window < 1:
            raise InvalidArgument(f"ReRoPE needs a window of at least 1 token, not {self.window}")
        if self.leak is not None and not 1 <= self.leak < math.inf:
            raise InvalidArgument(
                f"leak is how many tokens count as one, at least 1, not {self.leak}; leave it out for distances that "
                "stop at the window"
            )

    @property
    def identity(self) -> bool:
        """A leak of 1: distances go on as they were."""
        return self.leak == 1

    @property
    def exact_up_to(self) -> int:
        """Sequences of at most this length are left as they are."""
        return self.window + 1

    def branches(self) -> Sequence[Branch]:
        """Near pairs as they are; far ones at the window, or pressed together beyond it."""
        near = Branch(lambda q, k: q - k < self.window, lambda q: q, lambda k: k)
        leak = self.leak
        if leak is None:
            return near, Branch(self._is_far, lambda q: torch.full_like(q, self.window), torch.zeros_like)

        def pressed(place: Tensor) -> Tensor:
            return place.to(widest_float(place.device)) / leak

        return near, Branch(self._is_far, lambda q: pressed(q + self.window * (leak - 1)), pressed)

    def map_distance(self, distance: Tensor, target_length: int | Tensor | None = None) -> Tensor:
        """Distances behind as they are moved; those ahead are not seen, and stay."""
        if self.leak is None:
            return distance.clamp(max=self.window)
        wide = distance if distance.is_floating_point() else distance.float()
        return torch.where(wide < self.window, wide, self.window + (wide - self.window) / self.leak)

    def _is_far(self, q: Tensor, k: Tensor) -> Tensor:
        return q - k >= self.window
