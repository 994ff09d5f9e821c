"""Repeat one symbol as often as it was seen: the content is trivial, so only counting is tested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.task import Dataset, check_count, check_flag, span, tasks


@tasks.register("repeat")
@dataclass(frozen=True)
class Repeat(Framed):
    """Write one symbol as many times as the prompt does.

    Copy V1 of Kazemnejad et al. 2023 (arXiv 2305.19466), there over 6,052 tokens, each once a length.

    Args:
        symbols: number of different symbols that the repeated one is drawn from, at least 1.
        twice: write it twice as many times.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "repeat one symbol as many times as it stands in the prompt"
    length_counts: ClassVar[str] = "repetitions"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("b b b", "b b b"), ("k", "k"))
    family: ClassVar[str] = "copying and reversing"
    datasets: ClassVar[Sequence[Dataset]] = tuple(
        Dataset(
            name,
            "primitive",
            f"repeat(symbols=6052{more})",
            span(2, 20),
            span(21, 40),
            small,
            span(2, 10),
            span(11, 20),
        )
        for name, more, small in (
            ("Copy V1 (repeat one token)", "", "repeat"),
            ("Copy V1 2x", ", twice=True", "repeat(twice=True)"),
        )
    )

    symbols: int = 16
    twice: bool = False

    def __post_init__(self) -> None:
        check_count("symbols of Repeat", self.symbols, 1)
        check_flag("twice of Repeat", self.twice)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols."""
        return symbol_names(self.symbols)

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt, or twice as many."""
        return length, 2 * length if self.twice else length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw one symbol an example."""
        symbol = torch.randint(self.symbols, (batch, 1), generator=generator, device=generator.device)
        return symbol.expand(batch, length), symbol.expand(batch, self.sizes(length)[1])

    def solve(self, prompt: str) -> str:
        """The one symbol of the prompt, counted and written as often."""
        symbols = read_symbols(prompt, self.symbol_names)
        if len(set(symbols)) != 1:
            raise InvalidArgument(f"a prompt of Repeat holds one symbol only, not {sorted(set(symbols))}")
        return " ".join([symbols[0]] * (2 if self.twice else 1) * len(symbols))
