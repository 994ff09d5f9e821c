"""What each pair of dims of a rotary encoding has seen in training, and what a longer sequence shows it.

A pair whose wavelength is at most the trained length has turned fully: it knows every angle, and a longer sequence
repeats them. A slower pair knows a part of a turn only; a longer sequence takes it to angles that no training showed,
which is where extension methods act (Peng et al. 2023, 2309.00071, section 3.1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from lengthwise.extension.extended import Extended
from lengthwise.spectrum import Spectrum


@dataclass(frozen=True)
class Pair:
    """One pair of dims that is rotated.

    Args:
        index: 0 is the fastest.
        trained_wavelength: tokens for a full turn as it was trained.
        wavelength: tokens for a full turn as the model runs; infinite for a pair that stands still.
        turns: within the trained length, as it was trained.
        turns_at: within the target length, as the model runs.
        slowed: how many times slower it turns than in training; 1 without an extension.
        unseen: whether the target length takes it to angles that were not in training.
    """

    index: int
    trained_wavelength: float
    wavelength: float
    turns: float
    turns_at: float
    slowed: float
    unseen: bool

    @property
    def full(self) -> bool:
        """Whether it turned fully in training."""
        return self.turns >= 1

    def as_dict(self) -> dict[str, Any]:
        """For JSON, which has no infinity: null in its place."""
        wavelength = self.wavelength if math.isfinite(self.wavelength) else None
        slowed = self.slowed if math.isfinite(self.slowed) else None
        return {
            "pair": self.index,
            "wavelength": wavelength,
            "turns": self.turns,
            "full": self.full,
            "turns_at_target": self.turns_at,
            "slowed": slowed,
            "unseen": self.unseen,
        }


def pairs(encoding: nn.Module, trained: int, target: int) -> list[Pair]:
    """The pairs of a rotary encoding, fastest first; none for an encoding without frequencies."""
    now, before = spectrum_at(encoding, target), spectrum_at(getattr(encoding, "unextended", encoding), trained)
    if now is None or before is None:
        return []
    made: list[Pair] = []
    rows = zip(before.inv_freq.tolist(), now.inv_freq.tolist(), strict=True)
    for index, (trained_speed, speed) in enumerate(rows):
        turns, turns_at = trained * trained_speed / math.tau, target * speed / math.tau
        made.append(
            Pair(
                index,
                math.tau / trained_speed if trained_speed else math.inf,
                math.tau / speed if speed else math.inf,
                turns,
                turns_at,
                trained_speed / speed if speed else math.inf,
                turns < 1 and turns_at > turns * (1 + 1e-6),
            )
        )
    return made


def spectrum_at(encoding: Any, length: int) -> Spectrum | None:
    """The frequencies for a sequence of `length` tokens, None for an encoding that has none."""
    at = getattr(encoding, "spectrum_at", None)
    if at is not None:
        return at(length)
    if isinstance(encoding, Extended) and not hasattr(encoding, "spectrum"):
        return spectrum_at(encoding.encoding, length)
    found = getattr(encoding, "spectrum", None)
    return found if isinstance(found, Spectrum) else None


def lines(found: Sequence[Pair], trained: int, target: int) -> list[str]:
    """The same in a few lines for people."""
    full, slow = [pair for pair in found if pair.full], [pair for pair in found if not pair.full]
    text: list[str] = []
    if full:
        text.append(
            f"{_span(full)} of {len(found)} turn fully within {trained} tokens, wavelengths {_waves(full)}: they know "
            "every angle"
        )
    if slow:
        text.append(f"{_span(slow)} never do, wavelengths {_waves(slow)}: they know a part of a turn")
    unseen = [pair for pair in found if pair.unseen]
    if unseen:
        most = max(pair.turns_at / pair.turns for pair in unseen)
        text.append(
            f"at {target} tokens {_span(unseen)} come to angles that no training showed, up to {most:.3g} times as far"
        )
    elif target > trained:
        text.append(f"at {target} tokens no pair comes to an angle that was not in training")
    slowed = [pair for pair in found if pair.slowed > 1 + 1e-6]
    if slowed:
        by = ", ".join(f"{one:.3g}" for one in sorted({min(p.slowed for p in slowed), max(p.slowed for p in slowed)}))
        text.append(f"{_span(slowed)} turn slower than in training, by {by}: neighbours are harder to tell apart")
    return text


def _span(some: Sequence[Pair]) -> str:
    first, last = some[0].index, some[-1].index
    return f"pair {first}" if first == last else f"pairs {first} to {last}"


def _waves(some: Sequence[Pair]) -> str:
    return f"{some[0].trained_wavelength:.4g} to {some[-1].trained_wavelength:.4g}"
