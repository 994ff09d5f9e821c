"""What a stretch has found: perplexity by range of positions, costs and gains with intervals, passkeys, an order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float

from lengthwise.errors import InvalidArgument
from lengthwise.hf.stretch.bootstrap import Gap, in_blocks, paired_gap
from lengthwise.hf.stretch.candidate import UNTOUCHED
from lengthwise.hf.stretch.perplexity import BLOCK
from lengthwise.hf.stretch.plan import Plan

JOINED = 4
"""Stored blocks that the bootstrap draws together: 256 tokens."""


@dataclass(frozen=True)
class Answer:
    """One passkey that was asked for."""

    length: int
    depth: float
    exact: bool
    loss: float


@dataclass
class Losses:
    """Losses by window and block, for as many blocks as each window was measured to.

    Args:
        plan: lengths and windows.
        rows: a label's windows; each holds the losses of blocks from position 0.
        answers: passkeys asked of a label.
    """

    plan: Plan
    rows: dict[str, dict[int, Float[np.ndarray, " blocks"]]] = field(default_factory=dict)
    answers: dict[str, list[Answer]] = field(default_factory=dict)

    def add(self, label: str, window: int, losses: Sequence[float]) -> None:
        """Keep one pass."""
        self.rows.setdefault(label, {})[window] = np.asarray(losses, np.float64)

    def windows(self, label: str, end: int) -> list[int]:
        """Windows measured at least to a position."""
        return sorted(window for window, row in self.rows.get(label, {}).items() if len(row) * BLOCK >= end)

    def blocks(self, label: str, windows: Sequence[int], span: tuple[int, int]) -> Float[np.ndarray, "windows blocks"]:
        """Losses of the blocks in a range of positions, as the bootstrap draws them."""
        start, end = span[0] // BLOCK, span[1] // BLOCK
        return in_blocks(np.stack([self.rows[label][window][start:end] for window in windows]), JOINED)

    def gap(self, label: str, other: str, span: tuple[int, int], level: float = 0.95) -> Gap | None:
        """How much worse one label is than another in a range, on the windows that both were measured on."""
        shared = self._shared(label, other, span)
        if not shared:
            return None
        pair = [self.blocks(name, shared, span) for name in (label, other)]
        return paired_gap(pair[0], pair[1], rng=np.random.default_rng(0), level=level)

    @property
    def short(self) -> tuple[int, int]:
        """Positions within the trained length."""
        return 0, self.plan.trained

    @property
    def beyond(self) -> tuple[int, int]:
        """Positions past the trained length."""
        return self.plan.trained, self.plan.target

    def best(self, labels: Sequence[str]) -> str:
        """The label with the lowest loss past the trained length; the most windows come first."""
        most = max(len(self.windows(label, self.plan.target)) for label in labels)
        full = [label for label in labels if len(self.windows(label, self.plan.target)) == most]
        return min(full, key=lambda label: self._mean(label, self.beyond))

    def perplexity(self, label: str, span: tuple[int, int]) -> float:
        """Perplexity in a range; of a label with fewer windows, in relation to the best one on shared windows."""
        best = self.best(list(self.rows))
        behind = self._behind(label, best, span)
        return math.nan if behind is None else math.exp(min(self._mean(best, span) + behind, 700.0))

    def _mean(self, label: str, span: tuple[int, int], windows: Sequence[int] | None = None) -> float:
        windows = self.windows(label, span[1]) if windows is None else windows
        rows = [self.rows[label][window][span[0] // BLOCK : span[1] // BLOCK] for window in windows]
        return float(np.mean(rows)) if rows else math.inf

    def _behind(self, label: str, best: str, span: tuple[int, int]) -> float | None:
        shared = self._shared(label, best, span)
        return self._mean(label, span, shared) - self._mean(best, span, shared) if shared else None

    def _shared(self, label: str, other: str, span: tuple[int, int]) -> list[int]:
        return sorted(set(self.windows(label, span[1])) & set(self.windows(other, span[1])))

    def order(self) -> list[str]:
        """Labels, the lowest loss past the trained length first."""
        best = self.best(list(self.rows))

        def behind(label: str) -> float:
            gap = self._behind(label, best, self.beyond)
            return math.inf if gap is None else gap

        return sorted(self.rows, key=behind)

    def clearly_worse(self, label: str, best: str, margin: float = 0.01, level: float = 0.99) -> bool:
        """Whether a label is worse than the best by more than `margin` in perplexity, past the trained length."""
        gap = self.gap(label, best, self.beyond, level)
        return gap is not None and gap.low > math.log1p(margin)


@dataclass(frozen=True)
class Row:
    """One method in the table.

    Args:
        label: its spec.
        perplexity: in each range of the plan.
        cost: against the untouched model within the trained length.
        behind: against the best method past the trained length; None for the best.
        windows: how many it was measured on.
        passkeys: part found, by length; empty where not asked.
        exported: whether a config can say it.
        why_not: why a config can't, else empty.
    """

    label: str
    perplexity: tuple[float, ...]
    cost: Gap | None
    behind: Gap | None
    windows: int
    passkeys: Mapping[int, float]
    exported: bool
    why_not: str


@dataclass(frozen=True)
class Outcome:
    """All that a stretch has found.

    Args:
        plan: what was measured.
        rows: a method each, the best past the trained length first.
        winner: the method to use.
        written: the method that the model folder holds; differs where no config can say the winner.
        answers: every passkey that was asked for, by method.
        curves: perplexity by position, by method: middle of a stretch of positions, and value.
        facts: names of model and text, seconds, threads, versions.
    """

    plan: Plan
    rows: tuple[Row, ...]
    winner: str
    written: str | None
    answers: Mapping[str, Sequence[Answer]]
    curves: Mapping[str, Sequence[tuple[float, float]]]
    facts: Mapping[str, str]

    def row(self, label: str) -> Row:
        """The row of a method."""
        return next(row for row in self.rows if row.label == label)

    @property
    def untouched_is_better(self) -> float | None:
        """By how many percent of perplexity the untouched model beats the best method, None where it does not."""
        gap = next((row.behind for row in self.rows if row.label == UNTOUCHED), None)
        return -gap.percent[0] if gap is not None and gap.high < 0 else None

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""

        def gap(value: Gap | None) -> dict[str, float | bool] | None:
            if value is None:
                return None
            names = ("percent", "low", "high")
            return dict(zip(names, value.percent, strict=True)) | {"separated": value.separated}

        return {
            "trained": self.plan.trained,
            "target": self.plan.target,
            "lengths": list(self.plan.lengths),
            "winner": self.winner,
            "written": self.written,
            "methods": [
                {
                    "method": row.label,
                    "perplexity": dict(zip(map(str, self.plan.lengths), row.perplexity, strict=True)),
                    "cost_within_trained": gap(row.cost),
                    "behind_best_past_trained": gap(row.behind),
                    "windows": row.windows,
                    "passkey_loss": self._passkey_losses(row.label),
                    "passkeys": {str(length): share for length, share in row.passkeys.items()},
                    "config": row.exported,
                    "why_not": row.why_not,
                }
                for row in self.rows
            ],
            "facts": dict(self.facts),
        }

    def _passkey_losses(self, label: str) -> dict[str, float]:
        """Mean loss a token of the numbers that were asked for, by length: finer than what was found whole."""
        found: dict[str, list[float]] = {}
        for answer in self.answers.get(label, ()):
            found.setdefault(str(answer.length), []).append(answer.loss)
        return {length: sum(losses) / len(losses) for length, losses in found.items()}


def conclude(found: Losses, reasons: Mapping[str, str], facts: Mapping[str, str]) -> Outcome:
    """Order the methods and choose one.

    Args:
        found: what was measured.
        reasons: for each method why a config can't say it; empty where it can.
        facts: names and versions to show.
    """
    order = [label for label in found.order() if label != UNTOUCHED]
    if not order:
        raise InvalidArgument("nothing was measured beside the untouched model")
    winner = choose(found, order)
    able = [label for label in order if not reasons.get(label)]
    written = winner if winner in able else (choose(found, able) if able else None)
    rows = tuple(_row(found, label, order[0], reasons.get(label, "")) for label in found.order())
    curves = {label: _curve(found, label) for label in found.rows}
    return Outcome(found.plan, rows, winner, written, found.answers, curves, facts)


def choose(found: Losses, order: Sequence[str]) -> str:
    """The first of an order; the next takes its place where the interval does not part them and it retrieves more.

    Where they retrieve as much, the one that costs less within the trained length is taken.
    """
    best = order[0]
    for label in order[1:]:
        gap = found.gap(label, order[0], found.beyond)
        both = found.answers.get(label), found.answers.get(best)
        if gap is None or gap.separated or not all(both):
            continue
        cost = found.gap(label, best, found.short)
        mine, its = (sum(answer.exact for answer in answers or ()) for answers in both)
        if mine > its or (mine == its and cost is not None and cost.high < 0):
            best = label
    return best


def _row(found: Losses, label: str, best: str, why_not: str) -> Row:
    shares: dict[int, float] = {}
    for length in found.plan.lengths:
        here = [answer.exact for answer in found.answers.get(label, ()) if answer.length == length]
        if here:
            shares[length] = sum(here) / len(here)
    return Row(
        label,
        tuple(found.perplexity(label, span) for span in found.plan.ranges),
        None if label == UNTOUCHED else found.gap(label, UNTOUCHED, found.short),
        None if label == best else found.gap(label, best, found.beyond),
        len(found.windows(label, found.plan.target)),
        shares,
        not why_not,
        why_not,
    )


def _curve(found: Losses, label: str, points: int = 32) -> list[tuple[float, float]]:
    """Perplexity in stretches of positions, about as many as points."""
    blocks = found.plan.target // BLOCK
    edges = np.unique(np.linspace(0, blocks, min(points, blocks) + 1).round().astype(int)) * BLOCK
    spans = [(a, b) for a, b in pairwise(edges.tolist())]
    return [((a + b) / 2, found.perplexity(label, (a, b))) for a, b in spans]
