"""Copy a sequence in which no symbol comes twice: the next symbol can be found by the one before, not by its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.layout import chosen_places
from lengthwise.tasks.task import check_count, tasks


@tasks.register("unique_copy")
@dataclass(frozen=True)
class UniqueCopy(Framed):
    """Repeat a sequence of different symbols; every choice and order of them is as likely.

    One of the tasks that Zhou et al. 2023 (arXiv 2310.16028) expect to generalize in length, unlike copying symbols
    that come again.

    Args:
        symbols: number of different symbols, at least 2; the longest length.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "copy a sequence of symbols that are all different"
    length_counts: ClassVar[str] = "symbols to copy"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("007 120 003", "007 120 003"), ("000", "000"))
    family: ClassVar[str] = "copying and reversing"

    symbols: int = 160

    def __post_init__(self) -> None:
        check_count("symbols of UniqueCopy", self.symbols, 2)

    @property
    def max_length(self) -> int:
        """Each symbol once."""
        return self.symbols

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols."""
        return symbol_names(self.symbols)

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt."""
        return length, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw different symbols; a sequence is its own answer."""
        prompt = chosen_places(generator, batch, self.symbols, length)
        return prompt, prompt

    def solve(self, prompt: str) -> str:
        """The prompt itself."""
        symbols = read_symbols(prompt, self.symbol_names)
        if len(set(symbols)) != len(symbols):
            raise InvalidArgument(f"no symbol comes twice in a prompt of UniqueCopy, unlike in {prompt!r}")
        return " ".join(symbols)
