"""Count from one number to another: each symbol follows from the one before, only the stop has to be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.task import check_count, tasks


@tasks.register("count")
@dataclass(frozen=True)
class Count(Framed):
    """Write all numbers from the first to the last one of a pair; a number is one symbol.

    One of the tasks that Zhou et al. 2023 (arXiv 2310.16028) expect to generalize in length, and that they found to.
    The first number is drawn evenly from those that leave room.

    Args:
        numbers: how many numbers there are, at least 2; the longest length.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "count from one number to another"
    length_counts: ClassVar[str] = "numbers of the answer"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("007 010", "007 008 009 010"), ("099 100", "099 100"))
    family: ClassVar[str] = "ordering and counting"

    numbers: int = 160

    def __post_init__(self) -> None:
        check_count("numbers of Count", self.numbers, 2)

    @property
    def max_length(self) -> int:
        """From the first number to the last."""
        return self.numbers

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The numbers, written with as many digits each (letters where there are at most 26)."""
        return symbol_names(self.numbers)

    def sizes(self, length: int) -> tuple[int, int]:
        """Two numbers in the prompt."""
        return 2, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw where to start."""
        starts = self.numbers - length + 1
        first = torch.randint(starts, (batch, 1), generator=generator, device=generator.device)
        answer = first + torch.arange(length, device=first.device)
        return torch.cat([answer[:, :1], answer[:, -1:]], dim=1), answer

    def solve(self, prompt: str) -> str:
        """All names from one to the other."""
        names = self.symbol_names
        ends = [names.index(symbol) for symbol in read_symbols(prompt, names)]
        if len(ends) != 2 or ends[0] > ends[1]:
            raise InvalidArgument(f"a prompt of Count is two numbers, the first not above the last, not {prompt!r}")
        return " ".join(names[ends[0] : ends[1] + 1])
