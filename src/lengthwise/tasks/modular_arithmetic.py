"""Modular arithmetic: one value of a long expression without brackets, which finite memory can find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.task import check_count, tasks

SIGNS = ("+", "-", "*")


@tasks.register("modular_arithmetic")
@dataclass(frozen=True)
class ModularArithmetic(Framed):
    """Evaluate an expression of numbers below `modulus` with `+`, `-` and `*`, products first, modulo `modulus`.

    Modular Arithmetic (Simple) of Deletang et al. 2022 (arXiv 2207.02098), a regular language: modulo 5, numbers and
    signs drawn evenly. Their length counts tokens, this one numbers.

    Args:
        modulus: from 2 to 10.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "evaluate an expression modulo a number"
    length_counts: ClassVar[str] = "numbers of the expression"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("1 + 2 * 3", "2"), ("1 - 1 - 1", "4"))
    family: ClassVar[str] = "formal languages"

    modulus: int = 5

    def __post_init__(self) -> None:
        check_count("modulus of ModularArithmetic", self.modulus, 2)
        if self.modulus > 10:
            raise InvalidArgument(
                f"modulus of ModularArithmetic is at most 10, not {self.modulus}: a number is a digit"
            )

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The numbers and the three signs."""
        return (*"0123456789"[: self.modulus], *SIGNS)

    def sizes(self, length: int) -> tuple[int, int]:
        """A sign between each two numbers; one number in the answer."""
        return 2 * length - 1, 1

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw numbers and signs; a running product is added to the sum where it ends."""
        device = generator.device
        numbers = torch.randint(self.modulus, (batch, length), generator=generator, device=device)
        signs = torch.randint(3, (batch, length - 1), generator=generator, device=device)
        prompt = numbers.new_empty(batch, 2 * length - 1)
        prompt[:, ::2], prompt[:, 1::2] = numbers, self.modulus + signs
        total, product = torch.zeros_like(numbers[:, 0]), numbers[:, 0]
        for place in range(1, length):
            sign, number = signs[:, place - 1], numbers[:, place]
            is_product = sign == 2
            total = torch.where(is_product, total, (total + product) % self.modulus)
            product = torch.where(is_product, product * number, torch.where(sign == 1, -number, number)) % self.modulus
        return prompt, ((total + product) % self.modulus)[:, None]

    def solve(self, prompt: str) -> str:
        """Multiply out each term, then add."""
        symbols = read_symbols(prompt, self.symbol_names)
        numbers, signs = symbols[::2], symbols[1::2]
        if len(symbols) % 2 == 0 or set(numbers) & set(SIGNS) or not set(signs) <= set(SIGNS):
            raise InvalidArgument(f"a prompt of ModularArithmetic is like {self.examples[0][0]!r}, not {prompt!r}")
        total = 0
        for term in " ".join(symbols).replace("- ", "+ -").split(" + "):
            value = 1
            for factor in term.split(" * "):
                value *= int(factor)
            total += value
        return str(total % self.modulus)
