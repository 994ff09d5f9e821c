"""Sort random symbols: the answer depends on which symbols there are and how often, not on where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.task import check_count, tasks


@tasks.register("sort")
@dataclass(frozen=True)
class Sort(Framed):
    """Write a sequence of symbols, drawn evenly and independently, in ascending order; equal ones stay as many.

    Args:
        symbols: number of different symbols, at least 2.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "sort a sequence of random symbols, equal ones included"
    length_counts: ClassVar[str] = "symbols to sort"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("c a b", "a b c"), ("p a p c", "a c p p"))

    symbols: int = 16

    def __post_init__(self) -> None:
        check_count("symbols of Sort", self.symbols, 2)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols, in ascending order."""
        return symbol_names(self.symbols)

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt."""
        return length, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw sequences and sort them by symbol id."""
        prompt = torch.randint(self.symbols, (batch, length), generator=generator, device=generator.device)
        return prompt, prompt.sort(dim=1).values

    def solve(self, prompt: str) -> str:
        """The symbols of the prompt by name, whose order is that of the ids."""
        return " ".join(sorted(read_symbols(prompt, self.symbol_names)))
