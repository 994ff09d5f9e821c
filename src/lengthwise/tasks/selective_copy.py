"""Copy the symbols between blanks: what counts is how many symbols came before, not how many tokens."""

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


@tasks.register("selective_copy")
@dataclass(frozen=True)
class SelectiveCopy(Framed):
    """Write the symbols of a prompt in their order and leave out the blanks, which stand anywhere between them.

    As in Gu and Dao 2023 (arXiv 2312.00752) and Golovneva et al. 2024 (arXiv 2405.18719, ids UNVERIFIED), where more or
    fewer blanks than in training are the test. Symbols are drawn evenly, and so are their places.

    Args:
        symbols: number of different symbols, at least 2.
        kept: how many symbols to copy.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "copy the symbols and leave out the blanks between them"
    length_counts: ClassVar[str] = "blanks"
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("c _ a b _ _ d a h c", "c a b d a h c"),
        ("_ p a p a p a p a", "p a p a p a p a"),
    )
    family: ClassVar[str] = "memory and recall"

    symbols: int = 16
    kept: int = 8

    def __post_init__(self) -> None:
        check_count("symbols of SelectiveCopy", self.symbols, 2)
        check_count("kept of SelectiveCopy", self.kept, 1)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols and the blank."""
        return (*symbol_names(self.symbols), "_")

    def sizes(self, length: int) -> tuple[int, int]:
        """All blanks and symbols; the symbols."""
        return length + self.kept, self.kept

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw symbols and where they stand."""
        answer = torch.randint(self.symbols, (batch, self.kept), generator=generator, device=generator.device)
        places = chosen_places(generator, batch, length + self.kept, self.kept).sort(dim=1).values
        prompt = answer.new_full((batch, length + self.kept), self.symbols).scatter_(1, places, answer)
        return prompt, answer

    def solve(self, prompt: str) -> str:
        """All symbols but the blanks."""
        kept = [symbol for symbol in read_symbols(prompt, self.symbol_names) if symbol != "_"]
        if not kept:
            raise InvalidArgument(f"a prompt of SelectiveCopy holds a symbol, unlike {prompt!r}")
        return " ".join(kept)
