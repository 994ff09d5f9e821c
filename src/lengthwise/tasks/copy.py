"""Copy random symbols: the model has to find the place of each symbol, since nothing else tells it which comes next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.layout import beside
from lengthwise.tasks.task import Dataset, check_count, check_flag, span, tasks


@tasks.register("copy")
@dataclass(frozen=True)
class Copy(Framed):
    """Repeat a sequence of symbols that are drawn evenly and independently.

    Copy V3 of Kazemnejad et al. 2023 (arXiv 2305.19466), there over 100 symbols. The published data has a flaw: one of
    its 100 tokens seems not to survive decoding, so that every encoding's accuracy tops out near 0.99^length even on
    trained lengths (an inference from the curves). Here every symbol is a token and the right answer always scores.

    Args:
        symbols: number of different symbols, at least 2.
        twice: write the sequence, `next`, and the sequence again.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "copy a sequence of random symbols"
    length_counts: ClassVar[str] = "symbols to copy"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("c a b", "c a b"), ("p a p a", "p a p a"))
    family: ClassVar[str] = "copying and reversing"
    datasets: ClassVar[Sequence[Dataset]] = tuple(
        Dataset(
            name, "primitive", f"copy(symbols=100{more})", span(2, 20), span(21, 40), small, span(2, 10), span(11, 20)
        )
        for name, more, small in (
            ("Copy V3 (random tokens)", "", "copy"),
            ("Copy V3 2x", ", twice=True", "copy(twice=True)"),
        )
    )

    symbols: int = 16
    twice: bool = False

    def __post_init__(self) -> None:
        check_count("symbols of Copy", self.symbols, 2)
        check_flag("twice of Copy", self.twice)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols, then the mark between two copies."""
        return (*symbol_names(self.symbols), *(["next"] if self.twice else []))

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt, or twice as many and the mark."""
        return length, 2 * length + 1 if self.twice else length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw sequences; each is its own answer."""
        prompt = torch.randint(self.symbols, (batch, length), generator=generator, device=generator.device)
        return prompt, beside(batch, prompt, self.symbols, prompt) if self.twice else prompt

    def solve(self, prompt: str) -> str:
        """The prompt itself."""
        copied = " ".join(read_symbols(prompt, symbol_names(self.symbols)))
        return f"{copied} next {copied}" if self.twice else copied
