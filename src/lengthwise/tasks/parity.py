"""Parity of a row of bits: the answer hangs on every one of them, wherever it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.layout import beside
from lengthwise.tasks.scratchpad import lay_out, marks, most_symbols, read_switches, write_out
from lengthwise.tasks.task import Dataset, span, tasks

YES = 2
XOR, PAR, EQUALS, FIRST_MARK = range(4, 8)


@tasks.register("parity")
@dataclass(frozen=True)
class Parity(Framed):
    """Say `yes` where the number of ones is even, else `no`; bits are drawn evenly, so both are as likely.

    Parity of Kazemnejad et al. 2023 (arXiv 2305.19466), which trained from 4 bits on. A step of its scratchpad takes
    one bit: `in 1 comp 1 xor par = 1 xor 0 out 1 [ par = 1 ] re 0 1`.

    Args:
        scratchpad: parts of the steps before the answer, see `lengthwise.tasks.scratchpad`; none by default.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "say whether the number of ones is even: yes or no"
    length_counts: ClassVar[str] = "bits"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("1 0 1", "yes"), ("0 1 0 0", "no"))
    family: ClassVar[str] = "formal languages"
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "Parity",
            "mathematics_and_reasoning",
            "parity",
            span(4, 8),
            span(9, 16),
            "parity",
            span(4, 8),
            span(9, 16),
        ),
    )

    scratchpad: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scratchpad", read_switches(self.scratchpad))

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The two bits, then the two answers, then what a scratchpad takes."""
        return "0", "1", "yes", "no", *(("xor", "par", "=") if self.scratchpad else ()), *marks(self.scratchpad)

    def sizes(self, length: int) -> tuple[int, int]:
        """One symbol in the answer, and the scratchpad before it."""
        if not self.scratchpad:
            return length, 1
        parts = {"i": 1, "c": 7, "o": 1, "v": 3}
        return length, 1 + most_symbols(self.scratchpad, length, parts, length * (length - 1) // 2)

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw bits and add them up."""
        bits = torch.randint(2, (batch, length), generator=generator, device=generator.device)
        answer = YES + bits.sum(1, keepdim=True) % 2
        if not self.scratchpad:
            return bits, answer
        after = bits.cumsum(1) % 2  # [batch, length]: the parity behind each bit
        before = (after + bits) % 2
        steps: list[dict[str, Tensor]] = []
        for place in range(length):
            bit, old, new = bits[:, place], before[:, place], after[:, place]
            computed = beside(batch, bit, XOR, PAR, EQUALS, bit, XOR, old)
            carried = beside(batch, PAR, EQUALS, new)
            steps.append({"i": bit, "c": computed, "o": new, "v": carried, "r": bits[:, place + 1 :]})
        return bits, lay_out(self.scratchpad, FIRST_MARK, steps, answer)

    def solve(self, prompt: str) -> str:
        """Count the ones."""
        bits = read_symbols(prompt, ("0", "1"))
        answer = "yes" if bits.count("1") % 2 == 0 else "no"
        if not self.scratchpad:
            return answer
        steps: list[dict[str, str]] = []
        parity = 0
        for place, bit in enumerate(bits):
            computed = f"{bit} xor par = {bit} xor {parity}"
            parity ^= int(bit)
            rest = " ".join(bits[place + 1 :])
            steps.append({"i": bit, "c": computed, "o": str(parity), "v": f"par = {parity}", "r": rest})
        return write_out(self.scratchpad, steps, answer)
