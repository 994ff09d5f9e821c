"""PCFG: apply nested functions to strings, from the innermost outwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.strings import FUNCTIONS, MOST, UNARY, answers_of, draw_trees, measure, written
from lengthwise.tasks.task import Dataset, check_count, span, tasks


@tasks.register("pcfg")
@dataclass(frozen=True)
class Pcfg(Framed):
    """Write what nested string functions make: `append reverse a b c , echo d e` gives `c b a d e e`.

    PCFG SET of Hupkes et al. 2020 (arXiv 1908.08351), and its productivity split in Kazemnejad et al. 2023 (arXiv
    2305.19466). Of one string: `copy`, `reverse`, `shift` (the first symbol goes to the end), `echo` (the last comes
    twice), `swap_first_last`, `repeat` (the whole twice). Of two with a comma between: `append`, `prepend`,
    `remove_first`, `remove_second`. Strings have 2 to 5 symbols. Every prompt has one reading: a function of one
    string takes all of the next expression.

    What differs from the published data: the authors fitted the chances of their grammar to English text, and those
    are not at hand (UNVERIFIED). Here each function is one of the ten with the same chance and every tree with the
    functions that came out is as likely, so that 40 % of them take two strings; of the published data's, 43 % do in
    its first 25 lines. Shares of the lengths are not at hand either: `share` is 1. Where an answer has more than
    `longest` symbols the example is drawn again.

    Args:
        symbols: number of different symbols of strings; 520 in the published data.
        longest: most symbols of an answer, at least 20.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "apply nested functions to strings"
    length_counts: ClassVar[str] = "functions"
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("append reverse a b c , echo d e", "c b a d e e"),
        ("repeat remove_first a b , swap_first_last c d e", "e d c e d c"),
    )
    family: ClassVar[str] = "reasoning and composition"
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "PCFG",
            "SCAN_and_PCFG",
            "pcfg(symbols=520)",
            span(1, 8),
            span(9, 35),
            small="pcfg(symbols=5, longest=20)",
            small_trained=span(1, 2),
            small_tested=span(3, 4),
        ),
    )

    symbols: int = 26
    longest: int = 64

    def __post_init__(self) -> None:
        check_count("symbols of Pcfg", self.symbols, 2)
        check_count("longest of Pcfg", self.longest, 20)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The symbols of strings, then the functions and the comma."""
        return (*symbol_names(self.symbols), *FUNCTIONS, ",")

    def sizes(self, length: int) -> tuple[int, int]:
        """At most all functions take two strings of five symbols each."""
        return 2 * length + MOST * (length + 1), min(self.longest, MOST * 2 ** min(length, 40))

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw trees and their strings, those whose answers are too long again, and evaluate them."""
        longest = self.sizes(length)[1]
        found: list[tuple[Tensor, Tensor]] = []
        missing = batch
        while missing:
            # More than are missing: most rounds cost the same however few they draw.
            nodes, strings = draw_trees(generator, missing + missing // 8 + 16, length, self.symbols)
            counts, seconds = measure(nodes, strings)
            fits = (counts[:, 0] <= longest).nonzero()[:missing, 0]
            nodes, strings, counts, seconds = (part[fits] for part in (nodes, strings, counts, seconds))
            answers = answers_of(nodes, strings, counts, seconds, longest)
            found.append((written(nodes, strings, self.symbols), answers))
            missing -= len(nodes)
        prompts, answers = (torch.cat(part) for part in zip(*found, strict=True))
        return prompts, answers

    def solve(self, prompt: str) -> str:
        """Read the expression from left to right and apply each function as it closes."""
        symbols = symbol_names(self.symbols)
        words = read_symbols(prompt, self.symbol_names)
        place = 0

        def expression() -> list[str]:
            nonlocal place
            start = place
            if start < len(words) and words[start] in FUNCTIONS:
                place += 1
                first = expression()
                if words[start] in UNARY:
                    return _apply(words[start], first)
                if words[place : place + 1] != [","]:
                    raise InvalidArgument(f"{words[start]} takes two strings with ',' between, in {prompt!r}")
                place += 1
                return _apply(words[start], first, expression())
            while place < len(words) and words[place] in symbols:
                place += 1
            if place == start:
                raise InvalidArgument(f"a prompt of Pcfg is like {self.examples[0][0]!r}, not {prompt!r}")
            return words[start:place]

        value = expression()
        if place < len(words):
            raise InvalidArgument(f"{words[place]!r} stands behind the end of {prompt!r}")
        return " ".join(value)


def _apply(name: str, x: list[str], y: Sequence[str] = ()) -> list[str]:
    """One function by plain lists."""
    other = list(y)
    if name == "swap_first_last":
        return [x[-1], *x[1:-1], x[0]] if len(x) > 1 else x
    return {
        "copy": x,
        "reverse": x[::-1],
        "shift": x[1:] + x[:1],
        "echo": x + x[-1:],
        "repeat": x + x,
        "append": x + other,
        "prepend": other + x,
        "remove_first": other,
        "remove_second": x,
    }[name]
