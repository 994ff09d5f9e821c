"""Reverse random symbols: like copying, but the distance to the symbol that is needed grows with each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.layout import beside
from lengthwise.tasks.task import Dataset, check_count, span, tasks


@tasks.register("reverse")
@dataclass(frozen=True)
class Reverse(Framed):
    """Write a sequence of symbols, drawn evenly and independently, from its end to its start.

    The three Reverse datasets of Kazemnejad et al. 2023 (arXiv 2305.19466), there over 100 symbols.

    Args:
        symbols: number of different symbols, at least 2.
        then: what to write behind it and the mark `next`: the `"reverse"` again, a `"copy"` of the prompt, or nothing.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "write a sequence of random symbols backwards"
    length_counts: ClassVar[str] = "symbols to reverse"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("c a b", "b a c"), ("a a d e", "e d a a"))
    family: ClassVar[str] = "copying and reversing"
    datasets: ClassVar[Sequence[Dataset]] = tuple(
        Dataset(
            name,
            "primitive",
            f"reverse(symbols=100{more})",
            span(2, 20),
            span(21, 40),
            small,
            span(2, 10),
            span(11, 20),
        )
        for name, more, small in (
            ("Reverse V1", "", "reverse"),
            ("Reverse V1 2x", ", then='reverse'", "reverse(then='reverse')"),
            ("Reverse V2 (reverse then copy)", ", then='copy'", "reverse(then='copy')"),
        )
    )

    symbols: int = 16
    then: Literal["", "reverse", "copy"] = ""

    def __post_init__(self) -> None:
        check_count("symbols of Reverse", self.symbols, 2)
        if self.then not in ("", "reverse", "copy"):
            raise InvalidArgument(f"then of Reverse must be '', 'reverse' or 'copy', not {self.then!r}")

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols, then the mark between two parts."""
        return (*symbol_names(self.symbols), *(["next"] if self.then else []))

    def sizes(self, length: int) -> tuple[int, int]:
        """As many symbols in the answer as in the prompt, or twice as many and the mark."""
        return length, 2 * length + 1 if self.then else length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw sequences and flip them."""
        prompt = torch.randint(self.symbols, (batch, length), generator=generator, device=generator.device)
        back = prompt.flip(1)
        if not self.then:
            return prompt, back
        more = prompt if self.then == "copy" else back
        return prompt, beside(batch, back, self.symbols, more)

    def solve(self, prompt: str) -> str:
        """The symbols of the prompt from last to first."""
        symbols = read_symbols(prompt, symbol_names(self.symbols))
        back = " ".join(reversed(symbols))
        return f"{back} next {back if self.then == 'reverse' else ' '.join(symbols)}" if self.then else back
