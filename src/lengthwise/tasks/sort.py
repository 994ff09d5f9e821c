"""Sort random symbols: the answer depends on which symbols there are and how often, not on where they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.layout import beside
from lengthwise.tasks.scratchpad import lay_out, marks, most_symbols, read_switches, write_out
from lengthwise.tasks.task import Dataset, check_count, span, tasks


@tasks.register("sort")
@dataclass(frozen=True)
class Sort(Framed):
    """Write a sequence of symbols, drawn evenly and independently, in ascending order; equal ones stay as many.

    Sorting (Single Token) of Kazemnejad et al. 2023 (arXiv 2305.19466), there over 50 tokens. A step of its scratchpad
    looks at the first symbol that is left, finds the least, and puts the first one in its place:
    `in c comp least out a re c b`.

    Args:
        symbols: number of different symbols, at least 2.
        scratchpad: parts of the steps before the answer, see `lengthwise.tasks.scratchpad`; none by default.
            There are no variables.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "sort a sequence of random symbols, equal ones included"
    length_counts: ClassVar[str] = "symbols to sort"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("c a b", "a b c"), ("p a p c", "a c p p"))
    family: ClassVar[str] = "ordering and counting"
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "Sorting (Single Token)",
            "mathematics_and_reasoning",
            "sort(symbols=50)",
            span(2, 8),
            span(9, 16),
            "sort",
            span(2, 8),
            span(9, 16),
        ),
    )

    symbols: int = 16
    scratchpad: str = ""

    def __post_init__(self) -> None:
        check_count("symbols of Sort", self.symbols, 2)
        object.__setattr__(self, "scratchpad", read_switches(self.scratchpad, "icor"))

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols, in ascending order, then what a scratchpad takes."""
        return (*symbol_names(self.symbols), *(("least",) if self.scratchpad else ()), *marks(self.scratchpad))

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt, and the scratchpad before it."""
        if not self.scratchpad:
            return length, length
        left = length * (length - 1) // 2
        return length, length + most_symbols(self.scratchpad, length, {"i": 1, "c": 1, "o": 1}, left)

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw sequences and sort them by symbol id."""
        prompt = torch.randint(self.symbols, (batch, length), generator=generator, device=generator.device)
        answer = prompt.sort(dim=1).values
        if not self.scratchpad:
            return prompt, answer
        left = prompt.clone()
        rows = torch.arange(batch)
        least_word = beside(batch, self.symbols, device=prompt.device)
        steps: list[dict[str, Tensor]] = []
        for place in range(length):
            first, least = left[:, place].clone(), answer[:, place]
            # The first of equal ones: which of them a minimum reports is not promised.
            where = place + (left[:, place:] == least[:, None]).int().argmax(dim=1)
            left[rows, where] = first
            left[:, place] = least
            steps.append({"i": first, "c": least_word, "o": least, "r": left[:, place + 1 :].clone()})
        return prompt, lay_out(self.scratchpad, self.symbols + 1, steps, answer)

    def solve(self, prompt: str) -> str:
        """The symbols of the prompt by name, whose order is that of the ids."""
        left = read_symbols(prompt, symbol_names(self.symbols))
        answer = " ".join(sorted(left))
        if not self.scratchpad:
            return answer
        steps: list[dict[str, str]] = []
        while left:
            first, least = left[0], min(left)
            left[left.index(least)] = first
            left = left[1:]
            steps.append({"i": first, "c": "least", "o": least, "r": " ".join(left)})
        return write_out(self.scratchpad, steps, answer)
