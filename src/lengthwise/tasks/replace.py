"""Replace one symbol by another as often as it was seen: counting, with one symbol to look up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.layout import beside
from lengthwise.tasks.task import Dataset, check_count, span, tasks


@tasks.register("replace")
@dataclass(frozen=True)
class Replace(Framed):
    """Write the second of two different symbols as many times as the first one stands behind `in`.

    Copy V2 of Kazemnejad et al. 2023 (arXiv 2305.19466), "Replace 6 with > in 6 6 6", there over 78 tokens, each
    ordered pair once a length.

    Args:
        symbols: number of different symbols that the two are drawn from, at least 2.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "write another symbol as many times as one stands in the prompt"
    length_counts: ClassVar[str] = "repetitions"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("b by d in b b b", "d d d"), ("k by a in k", "a"))
    family: ClassVar[str] = "copying and reversing"
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "Copy V2 (replace token)",
            "primitive",
            "replace(symbols=78)",
            span(2, 20),
            span(21, 40),
            "replace",
            span(2, 10),
            span(11, 20),
        ),
    )

    symbols: int = 16

    def __post_init__(self) -> None:
        check_count("symbols of Replace", self.symbols, 2)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols, then the two words of the prompt."""
        return (*symbol_names(self.symbols), "by", "in")

    def sizes(self, length: int) -> tuple[int, int]:
        """Four symbols that say what to do, and the repetitions."""
        return length + 4, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw ordered pairs of different symbols, every pair as likely."""
        device = generator.device
        old = torch.randint(self.symbols, (batch, 1), generator=generator, device=device)
        step = torch.randint(1, self.symbols, (batch, 1), generator=generator, device=device)
        new = (old + step) % self.symbols
        by, within = self.symbols, self.symbols + 1
        prompt = beside(batch, old, by, new, within, old.expand(batch, length))
        return prompt, new.expand(batch, length)

    def solve(self, prompt: str) -> str:
        """Count the first symbol behind `in`."""
        old, by, new, within, *rest = [*read_symbols(prompt, self.symbol_names), *[""] * 4]
        rest = [symbol for symbol in rest if symbol]
        if (by, within) != ("by", "in") or old == new or not rest or set(rest) != {old} or new in ("by", "in"):
            raise InvalidArgument(f"a prompt of Replace is like 'b by d in b b b', not {prompt!r}")
        return " ".join([new] * len(rest))
