"""LEGO: follow a chain of variables, each of which is the one before or its negative."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.layout import BLANK, beside, chosen_places
from lengthwise.tasks.scratchpad import lay_out, marks, most_symbols, read_switches, write_out
from lengthwise.tasks.task import Dataset, span, tasks

LETTERS = string.ascii_lowercase
NEGATIVE, POSITIVE, MINUS, PLUS, EQUALS, COMMA, QUERY = range(26, 33)
SYMBOLS = ("-1", "+1", "-", "+", "=", ",", "?")
FIRST_MARK = 33


@tasks.register("lego")
@dataclass(frozen=True)
class Lego(Framed):
    """Say the value, +1 or -1, of a variable in a chain of clauses, in the order in which they follow each other.

    LEGO of Zhang et al. 2022 (arXiv 2206.04301, id UNVERIFIED) as Kazemnejad et al. 2023 (arXiv 2305.19466) had it:
    names are different letters, values are drawn evenly, and the variable asked for is one of the second half, the last
    included, each as likely. A step of its scratchpad resolves one variable, up to the one asked for:
    `in b comp - a = - +1 out -1 re c = + b`.

    Args:
        scratchpad: parts of the steps before the answer, see `lengthwise.tasks.scratchpad`; none by default.
            There are no variables to carry.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "follow a chain of variables to the value of one"
    length_counts: ClassVar[str] = "clauses, one a variable"
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("a = +1 , b = - a , c = + b ? c", "-1"),
        ("q = -1 , t = - q , c = + t , f = - c ? c", "+1"),
    )
    family: ClassVar[str] = "reasoning and composition"
    min_length: ClassVar[int] = 2
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset("LEGO", "mathematics_and_reasoning", "lego", span(4, 8), span(9, 16), "lego", span(2, 4), span(5, 8)),
    )

    scratchpad: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scratchpad", read_switches(self.scratchpad, "icor"))

    @property
    def max_length(self) -> int:
        """A letter for each variable."""
        return len(LETTERS)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The names, values and signs, then what a scratchpad takes."""
        return (*LETTERS, *SYMBOLS, *marks(self.scratchpad))

    def sizes(self, length: int) -> tuple[int, int]:
        """Five symbols a clause, the first has four; two to ask; one in the answer, and the scratchpad before it."""
        prompt = 5 * length
        if not self.scratchpad:
            return prompt, 1
        left = 5 * length * (length - 1) // 2
        return prompt, 1 + most_symbols(self.scratchpad, length, {"i": 1, "c": 5, "o": 1}, left)

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw names, values and which variable is asked for; signs follow from the values."""
        device = generator.device
        names = chosen_places(generator, batch, len(LETTERS), length)
        value = torch.randint(2, (batch, length), generator=generator, device=device)
        sign = torch.where(value[:, 1:] == value[:, :-1], PLUS, MINUS)
        asked = torch.randint((length + 1) // 2, length, (batch, 1), generator=generator, device=device)
        clauses = [beside(batch, names[:, 0], EQUALS, NEGATIVE + value[:, 0], COMMA)]
        for place in range(1, length):
            comma = COMMA if place < length - 1 else BLANK
            clauses.append(beside(batch, names[:, place], EQUALS, sign[:, place - 1], names[:, place - 1], comma))
        prompt = beside(batch, *clauses)[:, :-1]
        prompt = beside(batch, prompt, QUERY, names.gather(1, asked))
        answer = NEGATIVE + value.gather(1, asked)
        if not self.scratchpad:
            return prompt, answer
        steps: list[dict[str, Tensor]] = []
        for place in range(length):
            computed = prompt[:, :0]
            if place:
                before = NEGATIVE + value[:, place - 1]
                by = sign[:, place - 1]
                computed = beside(batch, by, names[:, place - 1], EQUALS, by, before)
            rest = beside(batch, prompt[:, :0], *clauses[place + 1 :])
            steps.append({"i": names[:, place], "c": computed, "o": NEGATIVE + value[:, place], "r": rest})
        return prompt, lay_out(
            self.scratchpad, FIRST_MARK, steps, answer, [asked[:, 0] >= place for place in range(length)]
        )

    def solve(self, prompt: str) -> str:
        """Resolve clause after clause."""
        text, _, asked = " ".join(read_symbols(prompt, self.symbol_names)).partition(" ? ")
        clauses = text.split(" , ")
        values: dict[str, str] = {}
        steps: list[dict[str, str]] = []
        for place, clause in enumerate(clauses):
            name, equals, *right = clause.split() if len(clause.split()) > 2 else ["", ""]
            known = right in (["+1"], ["-1"]) or (len(right) == 2 and right[0] in "+-" and right[1] in values)
            if equals != "=" or name not in LETTERS or not known:
                raise InvalidArgument(f"a prompt of Lego is like {self.examples[0][0]!r}, not {prompt!r}")
            computed, value = "", right[0]
            if len(right) == 2:
                computed = f"{right[0]} {right[1]} = {right[0]} {values[right[1]]}"
                value = "+1" if (right[0] == "+") == (values[right[1]] == "+1") else "-1"
            values[name] = value
            if asked not in values or name == asked:
                steps.append({"i": name, "c": computed, "o": value, "r": " , ".join(clauses[place + 1 :])})
        if asked not in values:
            raise InvalidArgument(f"a prompt of Lego asks for one of its variables, and {asked!r} is none of them")
        return write_out(self.scratchpad, steps, values[asked]) if self.scratchpad else values[asked]
