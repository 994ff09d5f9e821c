"""Parity of a row of bits: the answer hangs on every one of them, wherever it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.task import tasks


@tasks.register("parity")
@dataclass(frozen=True)
class Parity(Framed):
    """Say `yes` where the number of ones is even, else `no`; bits are drawn evenly, so both are as likely."""

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "say whether the number of ones is even: yes or no"
    length_counts: ClassVar[str] = "bits"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("1 0 1", "yes"), ("0 1 0 0", "no"))

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The two bits, then the two answers."""
        return "0", "1", "yes", "no"

    def sizes(self, length: int) -> tuple[int, int]:
        """One symbol in the answer."""
        return length, 1

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw bits and add them up."""
        bits = torch.randint(2, (batch, length), generator=generator, device=generator.device)
        return bits, 2 + bits.sum(1, keepdim=True) % 2

    def solve(self, prompt: str) -> str:
        """Count the ones."""
        return "yes" if read_symbols(prompt, ("0", "1")).count("1") % 2 == 0 else "no"
