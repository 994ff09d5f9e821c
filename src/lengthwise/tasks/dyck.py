"""Dyck: close the brackets that are open, the last one first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.layout import BLANK
from lengthwise.tasks.task import check_count, tasks

PAIRS = ("()", "[]", "{}", "<>")


@tasks.register("dyck")
@dataclass(frozen=True)
class Dyck(Framed):
    """Write the shortest end that balances the brackets of a prompt, of one or several kinds.

    A walk: where some are open, the next bracket opens or closes with the same chance, and kinds are drawn evenly; the
    last bracket of a prompt opens where none would be left open. The language is that of Chomsky and Schuetzenberger;
    Deletang et al. 2022 (arXiv 2207.02098) place it above what finite memory can do.

    Args:
        kinds: number of kinds of brackets, 1 to 4.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "close the brackets that are open"
    length_counts: ClassVar[str] = "brackets of the prompt"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("( [ ] [ (", ") ] )"), ("[", "]"))
    family: ClassVar[str] = "formal languages"

    kinds: int = 2

    def __post_init__(self) -> None:
        check_count("kinds of Dyck", self.kinds, 1)
        if self.kinds > len(PAIRS):
            raise InvalidArgument(f"kinds of Dyck is at most {len(PAIRS)}, not {self.kinds}")

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The opening brackets, then the closing ones in the same order."""
        return (*(pair[0] for pair in PAIRS[: self.kinds]), *(pair[1] for pair in PAIRS[: self.kinds]))

    def sizes(self, length: int) -> tuple[int, int]:
        """At most as many brackets to close as there are."""
        return length, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw walks step by step, with the open brackets of each row on a stack."""
        device = generator.device
        opens = torch.randint(2, (batch, length), generator=generator, device=device).bool()
        kind = torch.randint(self.kinds, (batch, length), generator=generator, device=device)
        rows = torch.arange(batch, device=device)
        stack = torch.zeros(batch, length + 1, dtype=torch.int64, device=device)
        depth = torch.zeros(batch, dtype=torch.int64, device=device)
        prompt = torch.empty_like(kind)
        for place in range(length):
            opening = opens[:, place] | (depth <= (1 if place == length - 1 else 0))
            last = stack[rows, (depth - 1).clamp(min=0)]
            stack[rows, depth] = kind[:, place]  # above the top it is overwritten by the next that opens
            prompt[:, place] = torch.where(opening, kind[:, place], self.kinds + last)
            depth = depth + torch.where(opening, 1, -1)
        left = depth[:, None] - 1 - torch.arange(length, device=device)  # from the top of the stack down
        return prompt, torch.where(left >= 0, self.kinds + stack.gather(1, left.clamp(min=0)), BLANK)

    def solve(self, prompt: str) -> str:
        """Take what is closed off a list of what is open."""
        closing = {pair[0]: pair[1] for pair in PAIRS[: self.kinds]}
        waiting: list[str] = []
        for bracket in read_symbols(prompt, self.symbol_names):
            if bracket in closing:
                waiting.append(closing[bracket])
            elif not waiting or waiting.pop() != bracket:
                raise InvalidArgument(f"{bracket!r} closes what is not open, in {prompt!r}")
        if not waiting:
            raise InvalidArgument(f"all brackets of {prompt!r} are closed: a prompt of Dyck leaves some open")
        return " ".join(reversed(waiting))
