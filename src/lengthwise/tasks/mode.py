"""The most frequent symbol: attention that averages over the whole prompt can find it at any length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.task import check_count, tasks


@tasks.register("mode")
@dataclass(frozen=True)
class Mode(Framed):
    """Say which symbol stands most often in a sequence drawn evenly; of equally frequent ones, the first by alphabet.

    One of the tasks that Zhou et al. 2023 (arXiv 2310.16028) expect to generalize in length; the tie rule is ours.

    Args:
        symbols: number of different symbols, at least 2.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "say which symbol stands most often"
    length_counts: ClassVar[str] = "symbols to count"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("b a b c", "b"), ("d c d c a", "c"))
    family: ClassVar[str] = "ordering and counting"

    symbols: int = 16

    def __post_init__(self) -> None:
        check_count("symbols of Mode", self.symbols, 2)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols, by alphabet."""
        return symbol_names(self.symbols)

    def sizes(self, length: int) -> tuple[int, int]:
        """One symbol in the answer."""
        return length, 1

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw symbols and count them."""
        prompt = torch.randint(self.symbols, (batch, length), generator=generator, device=generator.device)
        counts = prompt.new_zeros(batch, self.symbols).scatter_add_(1, prompt, torch.ones_like(prompt))
        # The first of equal ones: which of them a maximum reports is not promised.
        most = counts == counts.max(dim=1, keepdim=True).values
        return prompt, most.int().argmax(dim=1, keepdim=True)

    def solve(self, prompt: str) -> str:
        """Count each symbol of the prompt."""
        symbols = read_symbols(prompt, self.symbol_names)
        return max(sorted(set(symbols)), key=symbols.count)
