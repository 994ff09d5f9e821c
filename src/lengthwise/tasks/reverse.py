"""Reverse random symbols: like copying, but the distance to the symbol that is needed grows with each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.task import check_count, tasks


@tasks.register("reverse")
@dataclass(frozen=True)
class Reverse(Framed):
    """Write a sequence of symbols, drawn evenly and independently, from its end to its start.

    Args:
        symbols: number of different symbols, at least 2.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "write a sequence of random symbols backwards"
    length_counts: ClassVar[str] = "symbols to reverse"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("c a b", "b a c"), ("a a d e", "e d a a"))

    symbols: int = 16

    def __post_init__(self) -> None:
        check_count("symbols of Reverse", self.symbols, 2)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols."""
        return symbol_names(self.symbols)

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt."""
        return length, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw sequences and flip them."""
        prompt = torch.randint(self.symbols, (batch, length), generator=generator, device=generator.device)
        return prompt, prompt.flip(1)

    def solve(self, prompt: str) -> str:
        """The symbols of the prompt from last to first."""
        return " ".join(reversed(read_symbols(prompt, self.symbol_names)))
