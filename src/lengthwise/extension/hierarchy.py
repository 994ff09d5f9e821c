"""A trained table of n rows read by two digits of the position: it serves n^2 (Su 2020, kexue.fm/archives/7947).

    E'[p] = E[p mod n] + a / (1 - a) (E[p // n] - E[0])

The result is `lengthwise.Hierarchical` with the trained rows: below n it is the trained table, bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from lengthwise.encodings.hierarchical import Hierarchical
from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions


@extensions.register("hierarchical_table")
@dataclass(frozen=True)
class HierarchicalTable(Method):
    """A learned table of n rows that serves n^2 positions.

    Args:
        alpha: weight of the high digit, above 0 and below 1, not 0.5.

    Raises:
        InvalidArgument: an alpha that can't tell positions apart.

    Example:
        >>> import lengthwise as lw
        >>> lw.extend(lw.Learned(dim=8, max_length=512), lw.HierarchicalTable()).max_position
        262144
    """

    alpha: float = 0.4

    formula: ClassVar[str] = "E'[p] = E[p mod n] + α / (1 - α) (E[p // n] - E[0])"
    paper: ClassVar[str] = "Su 2020, kexue.fm/archives/7947"
    example: ClassVar[str] = "hierarchical_table()"

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1 or self.alpha == 0.5:
            raise InvalidArgument(
                f"alpha must be above 0 and below 1, and not 0.5, where two positions share a vector; it is "
                f"{self.alpha}, and 0.4 is usual"
            )

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """Encodings with a learned table that can be given another."""
        able = isinstance(getattr(encoding, "table", None), Tensor) and hasattr(encoding, "with_table")
        return None if able else "it reads a learned table by digits, and this encoding has none"

    def transform(self, encoding: nn.Module) -> nn.Module:
        """The encoding that reads the table by two digits."""
        table = getattr(encoding, "table")  # noqa: B009
        rows, dim = table.shape
        with torch.device("meta"):  # no random numbers for a table that is replaced at once
            made = Hierarchical(dim, rows, self.alpha)
        made.table = nn.Parameter(table.detach().clone(), requires_grad=table.requires_grad)
        return made.train(encoding.training)
