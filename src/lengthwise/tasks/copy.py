"""Copy random symbols: the model has to find the place of each symbol, since nothing else tells it which comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.task import check_count, tasks


@tasks.register("copy")
@dataclass(frozen=True)
class Copy(Framed):
    """Repeat a sequence of symbols that are drawn evenly and independently.

    Args:
        symbols: number of different symbols, at least 2.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "copy a sequence of random symbols"
    length_counts: ClassVar[str] = "symbols to copy"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("c a b", "c a b"), ("p a p a", "p a p a"))

    symbols: int = 16

    def __post_init__(self) -> None:
        check_count("symbols of Copy", self.symbols, 2)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols."""
        return symbol_names(self.symbols)

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt."""
        return length, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw sequences; each is its own answer."""
        prompt = torch.randint(self.symbols, (batch, length), generator=generator, device=generator.device)
        return prompt, prompt

    def solve(self, prompt: str) -> str:
        """The prompt itself."""
        return " ".join(read_symbols(prompt, self.symbol_names))
