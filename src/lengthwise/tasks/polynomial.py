"""Evaluate a polynomial at one place: many small products, and one running sum of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.layout import BLANK, beside, signed_digits_of
from lengthwise.tasks.scratchpad import lay_out, marks, most_symbols, read_switches, write_out
from lengthwise.tasks.task import Dataset, span, tasks

SIGNS = ("+", "-", "*", "^", "=", ":", "x")
PLUS, MINUS, TIMES, POWER, EQUALS, COLON, X = range(10, 17)
SUM, FIRST_MARK = 17, 18
TERM = 7
"""Most symbols of a term and the plus sign behind it: `- 2 * x ^ 3 +`."""
PROMPT = re.compile(r"x = (-?[012]) : ((?:-?[0-3] \* x \^ [0-3] \+ )*-?[0-3] \* x \^ [0-3])")


@tasks.register("polynomial")
@dataclass(frozen=True)
class Polynomial(Framed):
    """Evaluate a sum of terms `c * x ^ d` and say it modulo 10, which is never negative.

    Polynomial Evaluation of Kazemnejad et al. 2023 (arXiv 2305.19466): c from -3 to 3, d from 0 to 3, x from -2 to 2,
    all drawn evenly; a degree may come several times, and 0 ^ 0 is 1. A step of its scratchpad takes one term:
    `in 2 * x ^ 3 comp 2 * - 2 ^ 3 = 2 * - 8 out - 1 6 [ sum = 9 + - 1 6 = 3 ] re - 1 * x ^ 0`.

    Args:
        scratchpad: parts of the steps before the answer, see `lengthwise.tasks.scratchpad`; none by default.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "evaluate a polynomial at one place, modulo 10"
    length_counts: ClassVar[str] = "terms"
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("x = 1 : - 2 * x ^ 2 + - 1 * x ^ 0", "7"),
        ("x = - 2 : 3 * x ^ 3 + 2 * x ^ 1", "2"),
    )
    family: ClassVar[str] = "arithmetic"
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "Polynomial Evaluation",
            "mathematics_and_reasoning",
            "polynomial",
            span(1, 8),
            span(9, 16),
            "polynomial",
            span(1, 2),
            span(3, 4),
        ),
    )

    scratchpad: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scratchpad", read_switches(self.scratchpad))

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The ten digits and the signs, then what a scratchpad takes."""
        return (*"0123456789", *SIGNS, *(("sum",) if self.scratchpad else ()), *marks(self.scratchpad))

    def sizes(self, length: int) -> tuple[int, int]:
        """Up to seven symbols a term, and five before them; one digit in the answer, and the scratchpad before it."""
        if not self.scratchpad:
            return 4 + TERM * length, 1
        parts = {"i": TERM - 1, "c": 13, "o": 3, "v": 8}
        return 4 + TERM * length, 1 + most_symbols(self.scratchpad, length, parts, TERM * length * (length - 1) // 2)

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw the place, coefficients and degrees."""
        device = generator.device
        x = torch.randint(-2, 3, (batch,), generator=generator, device=device)
        factor = torch.randint(-3, 4, (batch, length), generator=generator, device=device)
        degree = torch.randint(4, (batch, length), generator=generator, device=device)
        power = x[:, None] ** degree
        product = factor * power
        terms: list[Tensor] = []
        for place in range(length):
            last = place == length - 1
            written = signed_digits_of(factor[:, place], 1, MINUS)
            terms.append(beside(batch, written, TIMES, X, POWER, degree[:, place], BLANK if last else PLUS))
        at = signed_digits_of(x, 1, MINUS)
        prompt = beside(batch, X, EQUALS, at, COLON, *terms)[:, :-1]
        after = product.cumsum(1) % 10
        answer = after[:, -1:]
        if not self.scratchpad:
            return prompt, answer
        steps: list[dict[str, Tensor]] = []
        for place in range(length):
            written, raised = (signed_digits_of(n[:, place], 1, MINUS) for n in (factor, power))
            out = signed_digits_of(product[:, place], 2, MINUS)
            old = after[:, place - 1] if place else torch.zeros_like(x)
            computed = beside(batch, written, TIMES, at, POWER, degree[:, place], EQUALS, written, TIMES, raised)
            carried = beside(batch, SUM, EQUALS, old, PLUS, out, EQUALS, after[:, place])
            rest = beside(batch, *terms[place + 1 :])
            steps.append({"i": terms[place][:, :-1], "c": computed, "o": out, "v": carried, "r": rest})
        return prompt, lay_out(self.scratchpad, FIRST_MARK, steps, answer)

    def solve(self, prompt: str) -> str:
        """Evaluate the terms as Python does."""
        text = " ".join(read_symbols(prompt, self.symbol_names)).replace("- ", "-")
        found = PROMPT.fullmatch(text)
        if not found:
            raise InvalidArgument(f"a prompt of Polynomial is like {self.examples[0][0]!r}, not {prompt!r}")
        x, terms = int(found[1]), found[2].split(" + ")
        steps: list[dict[str, str]] = []
        total = 0
        for place, term in enumerate(terms):
            factor, _, _, _, degree = term.split()
            power = x ** int(degree)
            product = int(factor) * power
            carried = f"sum = {total} + {_spaced(product)} = {(total + product) % 10}"
            total = (total + product) % 10
            computed = f"{_spaced(factor)} * {_spaced(x)} ^ {degree} = {_spaced(factor)} * {_spaced(power)}"
            rest = " + ".join(term.replace("-", "- ") for term in terms[place + 1 :])
            steps.append({"i": term.replace("-", "- "), "c": computed, "o": _spaced(product), "v": carried, "r": rest})
        return write_out(self.scratchpad, steps, str(total)) if self.scratchpad else str(total)


def _spaced(number: object) -> str:
    return " ".join(str(number))
