"""Associative recall: find a key among pairs and say what stands behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols, symbol_names
from lengthwise.tasks.layout import beside, chosen_places
from lengthwise.tasks.task import check_count, tasks

VALUES = 10


@tasks.register("recall")
@dataclass(frozen=True)
class Recall(Framed):
    """Say the value of one key out of pairs of different keys, with a digit each.

    As in Ba et al. 2016 (arXiv 1610.06258), with symbols for letters. Keys, values and the key asked for are drawn
    evenly.

    Args:
        keys: number of different keys, at least 2; the longest length.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "recall the digit that stood behind a key"
    length_counts: ClassVar[str] = "pairs of key and digit"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("007 4 120 9 003 4 ? 120", "9"), ("000 1 ? 000", "1"))
    family: ClassVar[str] = "memory and recall"

    keys: int = 160

    def __post_init__(self) -> None:
        check_count("keys of Recall", self.keys, 2)

    @property
    def max_length(self) -> int:
        """Each key once."""
        return self.keys

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The ten digits, the question mark and the keys."""
        return (*"0123456789", "?", *symbol_names(self.keys))

    def sizes(self, length: int) -> tuple[int, int]:
        """Two symbols a pair and two to ask."""
        return 2 * length + 2, 1

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw pairs and which one is asked for."""
        device = generator.device
        keys = VALUES + 1 + chosen_places(generator, batch, self.keys, length)
        values = torch.randint(VALUES, (batch, length), generator=generator, device=device)
        asked = torch.randint(length, (batch, 1), generator=generator, device=device)
        pairs = torch.stack([keys, values], dim=2)
        return beside(batch, pairs, VALUES, keys.gather(1, asked)), values.gather(1, asked)

    def solve(self, prompt: str) -> str:
        """Look the key up in a dictionary of the pairs."""
        *pairs, mark, asked = ["", "", *read_symbols(prompt, self.symbol_names)]
        keys, values = pairs[2::2], pairs[3::2]
        found = dict(zip(keys, values, strict=False))
        good = len(keys) == len(values) == len(found) and all(value in tuple("0123456789") for value in values)
        if mark != "?" or not good or asked not in found:
            raise InvalidArgument(f"a prompt of Recall is like {self.examples[0][0]!r}, not {prompt!r}")
        return found[asked]
