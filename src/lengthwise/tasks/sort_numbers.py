"""Sort numbers of several digits: what is compared is spread over tokens, and so is what is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.layout import BLANK, beside, digits_of
from lengthwise.tasks.scratchpad import lay_out, marks, most_symbols, read_switches, write_out
from lengthwise.tasks.task import Dataset, check_count, span, tasks

DIGITS = tuple("0123456789")
COMMA = 10
LEAST, FIRST_MARK = 11, 12


@tasks.register("sort_numbers")
@dataclass(frozen=True)
class SortNumbers(Framed):
    """Write numbers in ascending order, digit by digit; they are drawn evenly from 10 to 10^digits - 1.

    Sorting (Multi Token) of Kazemnejad et al. 2023 (arXiv 2305.19466): up to four digits. A step of its scratchpad
    looks at the first number that is left, finds the least, and puts the first one in its place:
    `in 5 3 comp least out 1 9 re 5 3 , 2 0`.

    Args:
        digits: most digits of a number, from 2 to 18.
        scratchpad: parts of the steps before the answer, see `lengthwise.tasks.scratchpad`; none by default.
            There are no variables.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "sort numbers of several digits"
    length_counts: ClassVar[str] = "numbers to sort"
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("5 3 , 1 9 , 2 0", "1 9 , 2 0 , 5 3"),
        ("1 0 2 5 , 9 9", "9 9 , 1 0 2 5"),
    )
    family: ClassVar[str] = "ordering and counting"
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "Sorting (Multi Token)",
            "mathematics_and_reasoning",
            "sort_numbers",
            span(2, 8),
            span(9, 16),
            "sort_numbers(digits=2)",
            span(2, 5),
            span(6, 10),
        ),
    )

    digits: int = 4
    scratchpad: str = ""

    def __post_init__(self) -> None:
        check_count("digits of SortNumbers", self.digits, 2)
        if self.digits > 18:
            raise InvalidArgument(f"digits of SortNumbers is at most 18, not {self.digits}: numbers are int64")
        object.__setattr__(self, "scratchpad", read_switches(self.scratchpad, "icor"))

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The ten digits and the comma, then what a scratchpad takes."""
        return (*DIGITS, ",", *(("least",) if self.scratchpad else ()), *marks(self.scratchpad))

    def sizes(self, length: int) -> tuple[int, int]:
        """Up to `digits` symbols a number and a comma between each two; the scratchpad before the answer."""
        row = (self.digits + 1) * length - 1
        if not self.scratchpad:
            return row, row
        parts = {"i": self.digits, "c": 1, "o": self.digits}
        left = (self.digits + 1) * length * (length - 1) // 2
        return row, row + most_symbols(self.scratchpad, length, parts, left)

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw numbers and sort them."""
        device = generator.device
        numbers = torch.randint(10, 10**self.digits, (batch, length), generator=generator, device=device)
        prompt, answer = self._row(numbers), self._row(numbers.sort(dim=1).values)
        if not self.scratchpad:
            return prompt, answer
        left = numbers.clone()
        rows = torch.arange(batch, device=device)
        steps: list[dict[str, Tensor]] = []
        for place in range(length):
            first = left[:, place].clone()
            least = left[:, place:].min(dim=1).values
            # The first of equal ones: which of them a minimum reports is not promised.
            where = place + (left[:, place:] == least[:, None]).int().argmax(dim=1)
            left[rows, where] = first
            left[:, place] = least
            seen, out = (digits_of(n, self.digits) for n in (first, least))
            computed = beside(batch, LEAST, device=device)
            steps.append({"i": seen, "c": computed, "o": out, "r": self._row(left[:, place + 1 :])})
        return prompt, lay_out(self.scratchpad, FIRST_MARK, steps, answer)

    def solve(self, prompt: str) -> str:
        """Sort the numbers as Python does."""
        symbols = " ".join(read_symbols(prompt, (*DIGITS, ",")))
        written = [part.replace(" ", "") for part in symbols.split(",")]
        if any(not 2 <= len(number) <= self.digits or number[0] == "0" for number in written):
            raise InvalidArgument(
                f"a prompt of SortNumbers is numbers of 2 to {self.digits} digits with ',' between, not {prompt!r}"
            )
        left = [int(number) for number in written]
        answer = _listed(sorted(left))
        if not self.scratchpad:
            return answer
        steps: list[dict[str, str]] = []
        while left:
            first, least = left[0], min(left)
            left[left.index(least)] = first
            left = left[1:]
            steps.append({"i": _listed([first]), "c": "least", "o": _listed([least]), "r": _listed(left)})
        return write_out(self.scratchpad, steps, answer)

    def _row(self, numbers: Tensor) -> Tensor:
        """Numbers `[batch, count]` with commas between, as columns."""
        commas = numbers.new_full((*numbers.shape, 1), COMMA)
        if numbers.shape[1]:
            commas[:, -1] = BLANK
        row = torch.cat([digits_of(numbers, self.digits), commas], dim=2).flatten(1)  # [batch, count * (digits + 1)]
        return row[:, :-1]


def _listed(numbers: Sequence[int]) -> str:
    return " , ".join(" ".join(str(number)) for number in numbers)
