"""Add two numbers digit by digit: digits of equal weight have to be brought together, and carries travel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

import torch
from jaxtyping import Int64
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import SEP, SPECIAL, Framed, read_symbols
from lengthwise.tasks.task import check_count, check_flag, tasks
from lengthwise.token_positions import abacus_offset, abacus_positions, coupled_positions, coupling_start

DIGITS = tuple("0123456789")
PLUS = 10


@tasks.register("addition")
@dataclass(frozen=True)
class Addition(Framed):
    """Add two numbers of exactly `length` digits each; the answer has `length + 1` digits, a leading zero included.

    Operands are drawn evenly from the numbers of that many digits (0 has one digit) and written most significant
    digit first. The answer is written most significant digit first too, `4 7 + 8 5` gives `1 3 2`; with
    `reverse=True` it is written least significant digit first, `2 3 1`, so that carries travel with the writing.

    `coupled_positions` and `abacus_positions` give positions by which digits of the same weight know each other. With
    `positions="coupled"` or `"abacus"` every example brings them: from random starts in training, so that all positions
    up to `max_position` are met, and from the first in tests. An encoding that reads positions (`learned`, `rotary`,
    ...) then reads these.

    Args:
        reverse: write the answer least significant digit first.
        reverse_operands: write the operands so too.
        positions: `""` for tokens in a row, `"coupled"`, or `"abacus"`, which needs both reversed.
        max_position: largest position that is drawn, where `positions` are given.

    Raises:
        InvalidArgument: positions of another name, or that do not go with the order of the digits.

    Example:
        >>> import lengthwise as lw
        >>> task = Addition(reverse=True)
        >>> tokens = task.sample(torch.Generator().manual_seed(0), batch=1, length=2).tokens
        >>> task.show(tokens[0])
        ('8 9 + 7 0', '9 5 1')
        >>> places = task.coupled_positions(tokens)
        >>> places.tolist()
        [[0, 3, 2, 1, 3, 2, 1, 2, 3, 4, 0]]
        >>> lw.Positions.sequence(11).replace(q=places, k=places).aligned
        False
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "add two numbers of as many digits each"
    length_counts: ClassVar[str] = "digits of each operand"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("4 7 + 8 5", "1 3 2"), ("1 2 3 + 4 5 6", "0 5 7 9"))
    family: ClassVar[str] = "arithmetic"

    reverse: bool = False
    reverse_operands: bool = False
    positions: str = ""
    max_position: int = 64
    part: Literal["train", "held_out"] = field(default="train", init=False)

    def __post_init__(self) -> None:
        check_flag("reverse of Addition", self.reverse)
        check_flag("reverse_operands of Addition", self.reverse_operands)
        check_count("max_position of Addition", self.max_position, 4)
        if self.positions not in ("", "coupled", "abacus"):
            raise InvalidArgument(f"positions of Addition are '', 'coupled' or 'abacus', not {self.positions!r}")
        if self.positions == "abacus":
            self._check_abacus()
        if self.positions == "coupled":
            self._check_coupled()

    @property
    def max_length(self) -> int | None:
        """The most digits whose positions fit; any where they are not given."""
        limits = {"": None, "abacus": self.max_position - 1, "coupled": self.max_position - 3 + self.reverse}
        return limits[self.positions]

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The ten digits and the plus sign."""
        return (*DIGITS, "+")

    def sizes(self, length: int) -> tuple[int, int]:
        """Two operands and a plus sign; one digit more in the answer."""
        return 2 * length + 1, length + 1

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw both operands digit by digit and add them."""
        shape = (batch, 2, length)
        operands = torch.randint(10, shape, generator=generator, device=generator.device)
        if length > 1:
            operands[..., 0] = torch.randint(1, 10, shape[:2], generator=generator, device=generator.device)
        plus = operands.new_full((batch, 1), PLUS)
        written = operands.flip(2) if self.reverse_operands else operands
        prompt = torch.cat([written[:, 0], plus, written[:, 1]], dim=1)
        total = _add(operands.sum(1).flip(1))
        return prompt, total if self.reverse else total.flip(1)

    def solve(self, prompt: str) -> str:
        """Add the numbers as Python does."""
        symbols = read_symbols(prompt, self.symbol_names)
        operands = ["".join(part.split()) for part in " ".join(symbols).split("+")]
        if len(operands) != 2 or len(operands[0]) != len(operands[1]) or not operands[0]:
            raise InvalidArgument(f"a prompt of Addition is two numbers of as many digits, '4 7 + 8 5', not {prompt!r}")
        if self.reverse_operands:
            operands = [number[::-1] for number in operands]
        total = str(int(operands[0]) + int(operands[1])).zfill(len(operands[0]) + 1)
        return " ".join(reversed(total) if self.reverse else total)

    def abacus_positions(
        self, tokens: Int64[Tensor, "batch length"], *, offset: int = 0
    ) -> Int64[Tensor, "batch length"]:
        """Place of each digit in its number, for examples whose numbers are all reversed.

        See `lengthwise.token_positions.abacus_positions`; it draws `offset` with `abacus_offset` in training.

        Raises:
            InvalidArgument: numbers are written most significant digit first.
        """
        self._check_abacus()
        return abacus_positions(tokens, self._digit_ids, offset=offset)

    def coupled_positions(
        self, tokens: Int64[Tensor, "batch length"], *, start: int | Tensor = 1
    ) -> Int64[Tensor, "batch length"]:
        """One position for all digits of the same weight, for whole examples or answers that are being written.

        See `lengthwise.token_positions.coupled_positions`; `start` is drawn with `coupling_start` in training.

        Raises:
            InvalidArgument: operands are reversed.
        """
        self._check_coupled()
        plus = len(SPECIAL) + PLUS
        digits = (tokens == plus).int().argmax(1).max() - int(self.bos)  # of each operand
        return coupled_positions(
            tokens,
            self._digit_ids,
            plus,
            SEP,
            reversed_answer=self.reverse,
            answer_digits=int(digits) + 1,
            start=start,
        )

    @property
    def largest_position(self) -> int | None:
        """`max_position` where positions are given."""
        return self.max_position if self.positions else None

    def positions_of(
        self, tokens: Int64[Tensor, "batch total"], length: int, generator: torch.Generator
    ) -> Int64[Tensor, "batch total"] | None:
        """As `positions` says: from random starts while training, from the first in tests."""
        if not self.positions:
            return None
        training, digits = self.part == "train", length + 1  # of the answer
        if self.positions == "abacus":
            offset = abacus_offset(generator, self.max_position - digits) if training else 0
            return self.abacus_positions(tokens, offset=offset)
        start: int | Tensor = 1
        if training:
            start = coupling_start(
                digits, self.max_position, reversed_answer=self.reverse, rows=len(tokens), generator=generator
            )
        return self.coupled_positions(tokens, start=start)

    def held_out(self) -> Self:
        """The task itself, or where it gives positions, one that counts them from the first."""
        if not self.positions:
            return self
        twin = replace(self)
        object.__setattr__(twin, "part", "held_out")
        return twin

    def _check_abacus(self) -> None:
        if not (self.reverse and self.reverse_operands):
            raise InvalidArgument(
                "Abacus positions need numbers written least significant digit first: "
                "make the task with addition(reverse=True, reverse_operands=True)"
            )

    def _check_coupled(self) -> None:
        if self.reverse_operands:
            raise InvalidArgument(
                "coupled positions need operands written most significant digit first: make the task without "
                "reverse_operands"
            )

    @property
    def _digit_ids(self) -> range:
        return range(len(SPECIAL), len(SPECIAL) + len(DIGITS))


def _add(sums: Int64[Tensor, "batch length"]) -> Int64[Tensor, "batch length_plus_1"]:
    """Carry through sums of two digits, least significant first.

    A sum of 9 hands on the carry it gets, any other sum decides it alone. So the carry out of a place is decided at
    the last place up to it whose sum is not 9, and a running maximum of the place numbers finds it without a loop.
    """
    places = torch.arange(sums.shape[1], device=sums.device)
    decider = torch.where(sums != 9, places, 0).cummax(dim=1).values  # nines all the way end at place 0: no carry
    carry_out = sums.gather(1, decider) > 9
    carry = torch.nn.functional.pad(carry_out.long(), (1, 0))  # [batch, length + 1]: into each place
    return (torch.nn.functional.pad(sums, (0, 1)) + carry) % 10
