"""Self-Extend: near tokens at their distance, far ones in groups (Jin et al. 2024, 2401.01325, id UNVERIFIED).

    distance(i, j) = i - j                                      for i - j < W
                   = floor(i / G) + W - W / G - floor(j / G)    else

A model trained to L tokens then reads (L - W) G + W. The published code divides W / G as real numbers, so that far
distances are fractions unless G divides W; earlier comments of it divide integers. The formula is followed as it is
run, and where G divides W both agree.
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


@extensions.register("self_extend")
@dataclass(frozen=True)
class SelfExtend(Method):
    """Distances of the window and beyond are counted in groups of tokens.

    Args:
        group: tokens that share a far position, at least 1; 1 changes nothing. 8 in the published code.
        window: distances below it stay as they are; at least 1, at most the trained length. 1024 in the published code.

    Raises:
        InvalidArgument: settings out of range.

    Example:
        >>> import lengthwise as lw
        >>> lw.extension.effective_distance(lw.SelfExtend(group=2, window=4), 12)[11].tolist()
        [7.0, 7.0, 6.0, 6.0, 5.0, 5.0, 4.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    """

    group: int = 8
    window: int = 1024

    formula: ClassVar[str] = "i - j -> ⌊i/G⌋ + W - W/G - ⌊j/G⌋ where i - j ≥ W"
    paper: ClassVar[str] = "Jin et al. 2024, arXiv 2401.01325"
    example: ClassVar[str] = "self_extend(group=4, window=16)"
    # The grid of groups starts at position 0: only shifts by whole groups leave distances as they are.
    preserves: ClassVar[frozenset[str]] = frozenset({"nonincreasing", "nonpositive", "pairwise"})

    def __post_init__(self) -> None:
        if self.group < 1 or self.window < 1:
            raise InvalidArgument(
                f"SelfExtend needs a group and a window of at least 1 token, not {self.group} and {self.window}"
            )

    @property
    def identity(self) -> bool:
        """Groups of one."""
        return self.group == 1

    @property
    def exact_up_to(self) -> int:
        """Sequences of at most this length are left as they are."""
        return self.window

    def branches(self) -> Sequence[Branch]:
        """Near pairs as they are, far ones by groups."""
        near = Branch(lambda q, k: q - k < self.window, lambda q: q, lambda k: k)
        far = Branch(lambda q, k: q - k >= self.window, self._far, self._grouped)
        return near, far

    def _grouped(self, place: Tensor) -> Tensor:
        return torch.div(place, self.group, rounding_mode="floor")

    def _far(self, place: Tensor) -> Tensor:
        whole, rest = divmod(self.window, self.group)
        return self._grouped(place) + (self.window - whole if rest == 0 else self.window - self.window / self.group)
