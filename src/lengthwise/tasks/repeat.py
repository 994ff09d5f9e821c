"""Repeat one symbol as often as it was seen: the content is trivial, so only counting is tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.task import check_count, tasks


@tasks.register("repeat")
@dataclass(frozen=True)
class Repeat(Framed):
    """Write one symbol as many times as the prompt does.

    Args:
        symbols: number of different symbols that the repeated one is drawn from, at least 1.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "repeat one symbol as many times as it stands in the prompt"
    length_counts: ClassVar[str] = "repetitions"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("b b b", "b b b"), ("k", "k"))

    symbols: int = 16

    def __post_init__(self) -> None:
        check_count("symbols of Repeat", self.symbols, 1)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols."""
        return symbol_names(self.symbols)

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt."""
        return length, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw one symbol an example."""
        symbol = torch.randint(self.symbols, (batch, 1), generator=generator, device=generator.device)
        prompt = symbol.expand(batch, length)
        return prompt, prompt

    def solve(self, prompt: str) -> str:
        """The one symbol of the prompt, counted and written as often."""
        symbols = read_symbols(prompt, self.symbol_names)
        if len(set(symbols)) != 1:
            raise InvalidArgument(f"a prompt of Repeat holds one symbol only, not {sorted(set(symbols))}")
        return " ".join([symbols[0]] * len(symbols))
