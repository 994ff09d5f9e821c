"""Flip-flop: read the bit that was written last, however long ago, and let nothing between disturb it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.layout import beside
from lengthwise.tasks.task import tasks

WRITE, READ, IGNORE = 2, 3, 4


@tasks.register("flip_flop")
@dataclass(frozen=True)
class FlipFlop(Framed):
    """Say the bit of the last `write` at a final `read`; `ignore` comes with random bits, `read` with the right one.

    The language of Liu et al. 2023 (arXiv 2306.00946, id UNVERIFIED): instructions with a bit each, the first one a
    `write`, the last one a `read`, between them `ignore` with the chance `ignored` and the other two with half of the
    rest each. They predict every `read`; here the last one is the answer.

    Args:
        ignored: chance of `ignore`, from 0 to 1; 0.8 as published.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "read the bit that was written last, past others to ignore"
    length_counts: ClassVar[str] = "instructions, each with a bit"
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("write 1 ignore 0 read 1 ignore 0 read", "1"),
        ("write 1 write 0 ignore 1 read", "0"),
    )
    family: ClassVar[str] = "memory and recall"
    min_length: ClassVar[int] = 2

    ignored: float = 0.8

    def __post_init__(self) -> None:
        if isinstance(self.ignored, bool) or not 0 <= self.ignored <= 1:
            raise InvalidArgument(f"ignored of FlipFlop must be from 0 to 1, not {self.ignored!r}")

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The two bits and the three instructions."""
        return "0", "1", "write", "read", "ignore"

    def sizes(self, length: int) -> tuple[int, int]:
        """Two symbols an instruction, the last bit in the answer."""
        return 2 * length - 1, 1

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw instructions and bits; a read takes the bit of the last write before it."""
        device = generator.device
        chance = torch.rand(batch, length, generator=generator, device=device, dtype=torch.float64)
        bits = torch.randint(2, (batch, length), generator=generator, device=device)
        others = torch.where(chance < self.ignored + (1 - self.ignored) / 2, WRITE, READ)
        kinds = torch.where(chance < self.ignored, IGNORE, others)
        kinds[:, 0], kinds[:, -1] = WRITE, READ
        place = torch.arange(length, device=device)
        last_write = torch.where(kinds == WRITE, place, 0).cummax(dim=1).values
        bits = torch.where(kinds == READ, bits.gather(1, last_write), bits)
        row = torch.stack([kinds, bits], dim=2).flatten(1)  # [batch, 2 * length]
        return beside(batch, row[:, :-1]), row[:, -1:]

    def solve(self, prompt: str) -> str:
        """Run the instructions one by one."""
        symbols = read_symbols(prompt, self.symbol_names)
        memory = ""
        for place in range(0, len(symbols) - 1, 2):
            kind, bit = symbols[place : place + 2]
            if bit not in "01" or kind not in ("write", "read", "ignore") or (kind == "read" and bit != memory):
                memory = ""
                break
            memory = bit if kind == "write" else memory
        if not memory or len(symbols) % 2 == 0 or symbols[-1] != "read" or symbols[0] != "write":
            raise InvalidArgument(f"a prompt of FlipFlop is like {self.examples[0][0]!r}, not {prompt!r}")
        return memory
