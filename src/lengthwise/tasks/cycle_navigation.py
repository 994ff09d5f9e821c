"""Cycle navigation: steps around a circle, of which only the sum counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.task import check_count, tasks

STEPS = ("stay", "forward", "back")


@tasks.register("cycle_navigation")
@dataclass(frozen=True)
class CycleNavigation(Framed):
    """Say where on a circle, counted from 0, steps that are drawn evenly lead from place 0.

    Cycle Navigation of Deletang et al. 2022 (arXiv 2207.02098), a regular language: five places.

    Args:
        places: places of the circle, at least 2.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "say where steps around a circle lead"
    length_counts: ClassVar[str] = "steps"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("forward stay back back", "4"), ("forward forward", "2"))
    family: ClassVar[str] = "formal languages"

    places: int = 5

    def __post_init__(self) -> None:
        check_count("places of CycleNavigation", self.places, 2)

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The three steps, then the places."""
        return (*STEPS, *map(str, range(self.places)))

    def sizes(self, length: int) -> tuple[int, int]:
        """One place in the answer."""
        return length, 1

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw steps and add them up."""
        prompt = torch.randint(len(STEPS), (batch, length), generator=generator, device=generator.device)
        forward, back = ((prompt == step).sum(1, keepdim=True) for step in (1, 2))
        return prompt, len(STEPS) + (forward - back) % self.places

    def solve(self, prompt: str) -> str:
        """Walk step by step."""
        place = 0
        for step in read_symbols(prompt, STEPS):
            if step == "forward":
                place = 0 if place == self.places - 1 else place + 1
            elif step == "back":
                place = self.places - 1 if place == 0 else place - 1
        return str(place)
