"""Sum of many digits modulo a number: one running sum over the whole prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.layout import beside, digits_of
from lengthwise.tasks.scratchpad import lay_out, marks, most_symbols, read_switches, write_out
from lengthwise.tasks.task import Dataset, span, tasks

DIGITS = tuple("0123456789")
PLUS = 10
SUM, EQUALS, FIRST_MARK = range(11, 14)


@tasks.register("summation")
@dataclass(frozen=True)
class Summation(Framed):
    """Add digits from 1 to 9, drawn evenly, and say the last digit of the sum.

    Summation of Kazemnejad et al. 2023 (arXiv 2305.19466): modulo 10. A step of its scratchpad adds one digit:
    `in 8 comp 8 + sum = 8 + 5 = out 1 3 [ sum = 1 3 = 3 ] re 1 + 2`.

    Args:
        scratchpad: parts of the steps before the answer, see `lengthwise.tasks.scratchpad`; none by default.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "add many digits and say the last digit of their sum"
    length_counts: ClassVar[str] = "digits to add"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("3 + 9 + 1", "3"), ("7 + 7", "4"))
    family: ClassVar[str] = "arithmetic"
    min_length: ClassVar[int] = 2
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "Summation",
            "mathematics_and_reasoning",
            "summation",
            span(2, 8),
            span(9, 16),
            "summation",
            span(2, 4),
            span(5, 8),
        ),
    )

    scratchpad: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scratchpad", read_switches(self.scratchpad))

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The ten digits and the plus sign, then what a scratchpad takes."""
        return (*DIGITS, "+", *(("sum", "=") if self.scratchpad else ()), *marks(self.scratchpad))

    def sizes(self, length: int) -> tuple[int, int]:
        """A plus sign between each two; one digit in the answer, and the scratchpad before it."""
        if not self.scratchpad:
            return 2 * length - 1, 1
        parts = {"i": 1, "c": 8, "o": 2, "v": 6}
        return 2 * length - 1, 1 + most_symbols(self.scratchpad, length, parts, (length - 1) ** 2)

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw digits and add them up."""
        device = generator.device
        values = torch.randint(1, 10, (batch, length), generator=generator, device=device)
        prompt = torch.full((batch, 2 * length - 1), PLUS, device=device)
        prompt[:, ::2] = values
        answer = values.sum(1, keepdim=True) % 10
        if not self.scratchpad:
            return prompt, answer
        after = values.cumsum(1) % 10
        steps: list[dict[str, Tensor]] = []
        for place in range(length):
            value = values[:, place]
            old = after[:, place - 1] if place else torch.zeros_like(value)
            total = digits_of(value + old, 2)
            computed = beside(batch, value, PLUS, SUM, EQUALS, value, PLUS, old, EQUALS)
            carried = beside(batch, SUM, EQUALS, total, EQUALS, after[:, place])
            steps.append({"i": value, "c": computed, "o": total, "v": carried, "r": prompt[:, 2 * place + 2 :]})
        return prompt, lay_out(self.scratchpad, FIRST_MARK, steps, answer)

    def solve(self, prompt: str) -> str:
        """Add the digits as Python does."""
        symbols = read_symbols(prompt, (*DIGITS, "+"))
        values, signs = symbols[::2], symbols[1::2]
        if len(symbols) % 2 == 0 or set(signs) != {"+"} or "+" in values or "0" in values:
            raise InvalidArgument(f"a prompt of Summation is digits from 1 to 9 with '+' between, not {prompt!r}")
        if not self.scratchpad:
            return str(sum(map(int, values)) % 10)
        steps: list[dict[str, str]] = []
        running = 0
        for place, value in enumerate(values):
            computed = f"{value} + sum = {value} + {running} ="
            total = " ".join(str(int(value) + running))
            running = (int(value) + running) % 10
            rest = " + ".join(values[place + 1 :])
            steps.append({"i": value, "c": computed, "o": total, "v": f"sum = {total} = {running}", "r": rest})
        return write_out(self.scratchpad, steps, str(running))
