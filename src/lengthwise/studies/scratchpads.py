"""What scratchpads add, and which format is best: the trials of one dataset with and without them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lengthwise.lab.statistics import mean_reciprocal_rank
from lengthwise.studies.outcome import Scored, by_dataset
from lengthwise.studies.study import Study

NONE = "none"
"""The format of a dataset without a scratchpad."""


@dataclass(frozen=True)
class Formats:
    """The formats of one dataset, compared within each encoding and seed that has all of them.

    Args:
        dataset: its name without a scratchpad.
        rank: mean reciprocal rank by format, ties sharing the mean of their ranks.
        past: mean exact match past the trained length by format.
        pairs: how many (encoding, seed) pairs were ranked.
    """

    dataset: str
    rank: Mapping[str, float]
    past: Mapping[str, float]
    pairs: int


def formats(study: Study, scores: Sequence[Scored]) -> list[Formats]:
    """Rank the formats within each dataset, over the ranked arms; without those that nothing was run with."""
    found: dict[str, dict[str, dict[tuple[str, int], float]]] = {}
    for dataset, arms in by_dataset(scores).items():
        cells = {
            (arm, one.trial.experiment.seed): one.past
            for arm, some in arms.items()
            if arm in study.ranked
            for one in some
        }
        found.setdefault(dataset.plain or dataset.name, {})[dataset.scratchpad or NONE] = cells
    made: list[Formats] = []
    for name, forms in found.items():
        pairs = sorted(set.intersection(*(set(cells) for cells in forms.values())))
        if len(forms) < 2 or not pairs:
            continue
        past = np.array([[cells[pair] for pair in pairs] for cells in forms.values()])  # [formats, pairs]
        ranks = [
            mean_reciprocal_rank(column[:, None], higher_is_better=True, ties="average")
            for column in np.round(past, 4).T
        ]
        rank, mean = np.mean(ranks, axis=0).tolist(), past.mean(axis=1).tolist()
        by_rank, by_past = dict(zip(forms, rank, strict=True)), dict(zip(forms, mean, strict=True))
        made.append(Formats(name, by_rank, by_past, len(pairs)))
    return made


def gain(scores: Sequence[Scored], dataset: str) -> tuple[float, float, float] | None:
    """What scratchpads add to exact match past the trained length, mean over the formats that were run.

    Undertrained trials, on either side, are left out: what a model can't do at trained lengths says nothing here.

    Returns:
        Mean over (encoding, seed) pairs and its 95 % bootstrap interval; None where there are fewer than three pairs.
    """
    plain: dict[tuple[str, int], float] = {}
    padded: dict[tuple[str, int], list[float]] = {}
    for one in scores:
        key = one.trial.arm, one.trial.experiment.seed
        if one.undertrained or not np.isfinite(one.past):
            continue
        if one.trial.dataset.name == dataset:
            plain[key] = one.past
        elif one.trial.dataset.plain == dataset:
            padded.setdefault(key, []).append(one.past)
    values = np.array([np.mean(padded[key]) - value for key, value in plain.items() if key in padded])
    if len(values) < 3:
        return None
    draws = values[np.random.default_rng(0).integers(len(values), size=(2000, len(values)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)
