"""Even pairs: only the first and the last symbol matter, which no one says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.task import tasks


@tasks.register("even_pairs")
@dataclass(frozen=True)
class EvenPairs(Framed):
    """Say `yes` where the pairs `a b` and `b a` are together an even number; symbols are drawn evenly.

    Even Pairs of Deletang et al. 2022 (arXiv 2207.02098), a regular language: `yes` where both ends are equal.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "say whether neighbours differ an even number of times"
    length_counts: ClassVar[str] = "symbols"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("a b b a", "yes"), ("a a b", "no"))
    family: ClassVar[str] = "formal languages"
    min_length: ClassVar[int] = 2

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The two symbols, then the two answers."""
        return "a", "b", "yes", "no"

    def sizes(self, length: int) -> tuple[int, int]:
        """One symbol in the answer."""
        return length, 1

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw symbols and compare the ends."""
        prompt = torch.randint(2, (batch, length), generator=generator, device=generator.device)
        return prompt, 2 + (prompt[:, :1] != prompt[:, -1:]).long()

    def solve(self, prompt: str) -> str:
        """Count the pairs of different neighbours."""
        symbols = read_symbols(prompt, ("a", "b"))
        changes = sum(one != other for one, other in pairwise(symbols))
        return "yes" if changes % 2 == 0 else "no"
