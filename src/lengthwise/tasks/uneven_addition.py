"""Add two numbers of different numbers of digits: which digits belong together can't be read off distances alone."""

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
from lengthwise.tasks.task import Dataset, check_length, span, tasks

DIGITS = tuple("0123456789")
PLUS = 10
CARRY, EQUALS, COMMA, FIRST_MARK = range(11, 15)


@tasks.register("uneven_addition")
@dataclass(frozen=True)
class UnevenAddition(Framed):
    """Add two numbers, the longer of `length` digits, written most significant digit first without leading zeros.

    Addition of Kazemnejad et al. 2023 (arXiv 2305.19466): of all pairs of numbers of digits each is as likely, and the
    operands are drawn evenly from the numbers with that many digits (0 has one). A step of its scratchpad adds two
    digits, the lowest first: `in 6 , 9 comp 6 + 9 + carry = 1 5 + 0 = 1 5 out 5 [ carry = 1 ] re 5 3 + 1`; a carry
    that is left makes a step more.

    Args:
        scratchpad: parts of the steps before the answer, see `lengthwise.tasks.scratchpad`; none by default.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "add two numbers of different lengths, as people write them"
    length_counts: ClassVar[str] = "digits of the longer operand"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("5 3 7 2 6 + 1 9", "5 3 7 4 5"), ("8 + 5", "1 3"))
    family: ClassVar[str] = "arithmetic"
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "Addition",
            "mathematics_and_reasoning",
            "uneven_addition",
            span(1, 8),
            span(9, 16),
            "uneven_addition",
            span(1, 2),
            span(3, 4),
        ),
    )

    scratchpad: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "scratchpad", read_switches(self.scratchpad))

    def share(self, length: int) -> float:
        """Pairs of numbers of digits whose longer one has `length`: the published data is even over pairs."""
        check_length(self, length)
        return 2.0 * length - 1

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The ten digits and the plus sign, then what a scratchpad takes."""
        return (*DIGITS, "+", *(("carry", "=", ",") if self.scratchpad else ()), *marks(self.scratchpad))

    def sizes(self, length: int) -> tuple[int, int]:
        """Two operands and a plus sign; one digit more in the answer, and the scratchpad before it."""
        if not self.scratchpad:
            return 2 * length + 1, length + 1
        parts = {"i": 3, "c": 13, "o": 1, "v": 3}
        left = length * (length - 1) + length + 1
        return 2 * length + 1, length + 1 + most_symbols(self.scratchpad, length + 1, parts, left)

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw which operand is how long, then their digits, and add them place by place."""
        device = generator.device
        pair = torch.randint(2 * length - 1, (batch,), generator=generator, device=device)
        counts = torch.stack([(pair + 1).clamp(max=length), (2 * length - 1 - pair).clamp(max=length)], dim=1)
        digits = torch.randint(10, (batch, 2, length), generator=generator, device=device)
        top = torch.randint(1, 10, (batch, 2), generator=generator, device=device)
        weight = torch.arange(length - 1, -1, -1, device=device)  # [length]: power of ten of each column
        is_top = (weight == counts[..., None] - 1) & (counts[..., None] > 1)
        digits = torch.where(is_top, top[..., None], digits).where(weight < counts[..., None], 0)
        written = digits.where(weight < counts[..., None], BLANK)
        prompt = beside(batch, written[:, 0], PLUS, written[:, 1])

        sums = digits.sum(1)  # [batch, length]
        total = torch.zeros(batch, length + 1, dtype=torch.int64, device=device)
        carry = torch.zeros(batch, dtype=torch.int64, device=device)
        steps: list[dict[str, Tensor]] = []
        for column in range(length - 1, -1, -1):
            with_carry = sums[:, column] + carry
            total[:, column + 1] = with_carry % 10
            if self.scratchpad:
                rest = [_without_zeros(digits[:, operand, :column]) for operand in (0, 1)]
                steps.append(_step(batch, digits[:, :, column], sums[:, column], carry, rest))
            carry = with_carry // 10
        total[:, 0] = carry
        answer = _without_zeros(total)
        if not self.scratchpad:
            return prompt, answer
        nothing = total[:, :0]
        steps.append(_step(batch, torch.zeros_like(digits[:, :, 0]), carry - carry, carry, [nothing, nothing]))
        return prompt, lay_out(self.scratchpad, FIRST_MARK, steps, answer, [*[None] * length, carry > 0])

    def solve(self, prompt: str) -> str:
        """Add the numbers as Python does."""
        parts = ["".join(part.split()) for part in " ".join(read_symbols(prompt, (*DIGITS, "+"))).split("+")]
        if len(parts) != 2 or any(not part or str(int(part)) != part for part in parts):
            raise InvalidArgument(
                f"a prompt of UnevenAddition is two numbers without leading zeros, '5 3 + 9', not {prompt!r}"
            )
        first, second = map(int, parts)
        answer = " ".join(str(first + second))
        if not self.scratchpad:
            return answer
        steps: list[dict[str, str]] = []
        places, carry = max(map(len, parts)), 0
        for place in range(places + 1):
            a, b = (number // 10**place % 10 for number in (first, second))
            if place == places and not carry:
                break
            both = f"{' '.join(str(a + b))} + {carry} = {' '.join(str(a + b + carry))}"
            computed = f"{a} + {b} + carry = {both}"
            out, carry = (a + b + carry) % 10, (a + b + carry) // 10
            left = [" ".join(str(n // 10 ** (place + 1))) if place + 1 < places else "" for n in (first, second)]
            rest = " ".join([*left[0].split(), "+", *left[1].split()])
            steps.append({"i": f"{a} , {b}", "c": computed, "o": str(out), "v": f"carry = {carry}", "r": rest})
        return write_out(self.scratchpad, steps, answer)


def _step(batch: int, pair: Tensor, both: Tensor, carry: Tensor, rest: Sequence[Tensor]) -> dict[str, Tensor]:
    """One step from its two digits `[batch, 2]`, their sum, the carry into it, and the digits left of both operands."""
    a, b = pair[:, 0], pair[:, 1]
    total = both + carry
    sums = digits_of(both, 2), digits_of(total, 2)
    return {
        "i": beside(batch, a, COMMA, b),
        "c": beside(batch, a, PLUS, b, PLUS, CARRY, EQUALS, sums[0], PLUS, carry, EQUALS, sums[1]),
        "o": total % 10,
        "v": beside(batch, CARRY, EQUALS, total // 10),
        "r": beside(batch, rest[0], PLUS, rest[1]),
    }


def _without_zeros(digits: Tensor) -> Tensor:
    """Digits with blanks for leading zeros; the last one stays."""
    leading = (digits == 0).cumprod(1).bool()
    if leading.shape[1]:
        leading[:, -1] = False
    return digits.masked_fill(leading, BLANK)
