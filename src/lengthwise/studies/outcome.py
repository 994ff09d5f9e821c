"""From the results of a study to its numbers: accuracy by length, ranks, agreement with the published ones.

Pure functions on results. A trial counts as undertrained if its mean exact match over trained lengths, each weighed as
training draws it, is below 0.95, whatever it does past them; every ranking is given with and without such trials.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lengthwise.lab.result import Result
from lengthwise.lab.statistics import Ties, mean_reciprocal_rank
from lengthwise.studies.study import Study, Trial
from lengthwise.tasks.task import Dataset, build_task

TRAINED = 0.95
"""Exact match on trained lengths below which a trial counts as undertrained."""
METRIC, TOLD = "exact_match", "exact_match_told_end"


@dataclass(frozen=True)
class Scored:
    """One trial as numbers.

    Args:
        trial: what was run.
        seen: mean exact match over trained lengths, each weighed as training draws it.
        past: mean exact match over longer lengths, each with the same weight.
        past_told: the same when told where to stop; nan where answers end in no mark.
        by_length: exact match at every tested length.
        seconds: of training and tests.
    """

    trial: Trial
    seen: float
    past: float
    past_told: float
    by_length: Mapping[int, float]
    seconds: float

    @property
    def undertrained(self) -> bool:
        """Whether it had not learned its task at trained lengths."""
        return not self.seen >= TRAINED - 1e-9  # so is what is no number


def scored(trial: Trial, result: Result) -> Scored:
    """Sort the scores of a result into trained and longer lengths."""
    one = result.experiment
    exact = dict(_by_length(result))
    told = dict(zip(one.test_lengths, result.scores.get(TOLD, ()), strict=False))
    far = [length for length in one.test_lengths if length > one.train_length]
    return Scored(
        trial,
        on_trained(result),
        float(np.mean([exact[length] for length in far])),
        float(np.mean([told[length] for length in far])) if told else float("nan"),
        exact,
        result.train_seconds + result.test_seconds,
    )


def on_trained(result: Result) -> float:
    """Mean exact match over the trained lengths that were tested, each weighed as training draws it."""
    one = result.experiment
    share = getattr(build_task(one.task), "share", None)
    near = [
        (1.0 if share is None else share(length), value)
        for length, value in _by_length(result)
        if one.train_from <= length <= one.train_length
    ]
    return sum(weight * value for weight, value in near) / sum(weight for weight, _ in near)


def _by_length(result: Result) -> list[tuple[int, float]]:
    return list(zip(result.experiment.test_lengths, result.scores[METRIC], strict=True))


@dataclass(frozen=True)
class Ranking:
    """Mean reciprocal ranks of the arms over (dataset, seed) pairs that every ranked arm has.

    Args:
        arms: the ranked arms.
        mean: one number an arm.
        low, high: ends of its 95 % bootstrap interval over datasets.
        pairs: how many (dataset, seed) pairs were ranked.
        ties: the rule.
    """

    arms: tuple[str, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    pairs: int
    ties: Ties


def ranking(
    study: Study,
    scores: Sequence[Scored],
    *,
    category: str | None = None,
    trained_only: bool = False,
    told: bool = False,
    ties: Ties = "average",
    resamples: int = 2000,
) -> Ranking | None:
    """Rank the arms within each dataset and seed by accuracy past the trained length; None where nothing can be ranked.

    Args:
        study: says which arms are ranked, and in which order (it matters for `ties="first"` only).
        scores: of any trials.
        category: of datasets, or all that have no scratchpad.
        trained_only: leave out pairs of dataset and seed with an undertrained trial.
        told: rank by accuracy when told where to stop.
        ties: as for `mean_reciprocal_rank`; accuracies are rounded to 4 decimals first, as in the publication.
        resamples: of datasets, for the interval.
    """
    table = _table(study, scores, category, trained_only, told)
    if not table:
        return None
    names = list(table)
    per_dataset = [
        np.stack(
            [
                mean_reciprocal_rank(np.round(column, 4)[:, None], higher_is_better=True, ties=ties)
                for column in np.array(table[name]).T
            ]
        )
        for name in names
    ]  # [seeds, arms] each
    rng = np.random.default_rng(0)
    draws = rng.integers(len(names), size=(resamples, len(names)))
    sums, counts = np.stack([part.sum(0) for part in per_dataset]), np.array([len(part) for part in per_dataset])
    means = sums[draws].sum(1) / counts[draws].sum(1)[:, None]
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    total = sums.sum(0) / counts.sum()
    return Ranking(study.ranked, _floats(total), _floats(low), _floats(high), int(counts.sum()), ties)


@dataclass(frozen=True)
class Agreement:
    """Rank correlation with the published accuracies.

    Args:
        mean: Spearman's correlation over arms within each dataset, mean over datasets.
        low, high: ends of its 95 % bootstrap interval over datasets.
        datasets: how many.
    """

    mean: float
    low: float
    high: float
    datasets: int


def agreement(
    study: Study, scores: Sequence[Scored], published: Mapping[str, Mapping[str, float]], category: str | None = None
) -> Agreement | None:
    """How far the order of the arms within each dataset is the published one; None where too little can be ordered.

    That is fewer than 3 arms, which any chance orders right, or fewer than 2 datasets with all of them.

    Args:
        study: says which arms are ranked.
        scores: of any trials.
        published: accuracy past the trained length, by dataset and arm.
        category: of datasets, or all that have no scratchpad.
    """
    from scipy.stats import rankdata

    found: list[float] = []
    for name, rows in _table(study, scores, category, False, False).items():
        if name not in published:
            continue
        ours = np.array(rows).mean(axis=1)
        theirs = [published[name][arm] for arm in study.ranked]
        if len(set(ours.tolist())) > 1 and len(set(theirs)) > 1:  # all alike have no order
            found.append(float(np.corrcoef(rankdata(ours), rankdata(theirs))[0, 1]))
    if len(found) < 2 or len(study.ranked) < 3:
        return None
    values = np.array(found)
    draws = values[np.random.default_rng(0).integers(len(values), size=(2000, len(values)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return Agreement(float(values.mean()), float(low), float(high), len(found))


def best_on(study: Study, scores: Sequence[Scored]) -> dict[str, list[str]]:
    """For each dataset the arms whose mean accuracy past the trained length is highest; several where they tie.

    None where all do: nothing can be told there.
    """
    winners: dict[str, list[str]] = {}
    tables = [_table(study, scores, category, False, False) for category in (None, "scratchpad")]
    for name, rows in (tables[0] | tables[1]).items():
        means = np.round(np.array(rows).mean(axis=1), 4)
        best = [arm for arm, mean in zip(study.ranked, means, strict=True) if mean == means.max()]
        winners[name] = best if len(best) < max(2, len(means)) else []
    return winners


def rank_difference(study: Study, scores: Sequence[Scored], first: str, second: str) -> tuple[float, float, float]:
    """Mean reciprocal rank of one arm less that of another, with its 95 % bootstrap interval over datasets."""
    table = _table(study, scores, None, False, False)
    a, b = study.ranked.index(first), study.ranked.index(second)
    differences: list[np.ndarray] = []
    for rows in table.values():
        columns = np.array(rows).T
        ranks = np.stack(
            [
                mean_reciprocal_rank(np.round(column, 4)[:, None], higher_is_better=True, ties="average")
                for column in columns
            ]
        )
        differences.append(ranks[:, a] - ranks[:, b])
    if not differences:
        return float("nan"), float("nan"), float("nan")
    means = np.array([float(part.mean()) for part in differences])
    draws = means[np.random.default_rng(0).integers(len(means), size=(2000, len(means)))].mean(axis=1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(means.mean()), float(low), float(high)


def spread_of_ranks(study: Study, scores: Sequence[Scored], category: str | None = None) -> tuple[float, float] | None:
    """The highest mean reciprocal rank less the lowest, and how often chance makes it as large.

    Chance: the arms change places, together in all formats and seeds of a dataset, anew for each (2000 draws).

    Returns:
        The difference and the share of draws that reach it; None where nothing can be ranked.
    """
    table = _table(study, scores, category, False, False)
    plain = {dataset.name: dataset.plain or dataset.name for dataset in by_dataset(scores)}
    groups: dict[str, list[np.ndarray]] = {}
    for name, rows in table.items():
        columns = np.round(np.array(rows).T, 4)
        ranks = [mean_reciprocal_rank(row[:, None], higher_is_better=True, ties="average") for row in columns]
        groups.setdefault(plain[name], []).append(np.mean(ranks, axis=0))
    if not groups:
        return None
    sums = np.stack([np.sum(some, axis=0) for some in groups.values()])  # [datasets, arms]
    observed = float(np.ptp(sums.sum(0)))
    rng = np.random.default_rng(0)
    drawn = [np.ptp(rng.permuted(sums, axis=1).sum(0)) for _ in range(2000)]
    share = (1 + sum(one >= observed - 1e-9 for one in drawn)) / (1 + len(drawn))
    return observed / len(table), float(share)


def by_dataset(scores: Sequence[Scored]) -> dict[Dataset, dict[str, list[Scored]]]:
    """Scored trials by dataset and arm, in the order given."""
    found: dict[Dataset, dict[str, list[Scored]]] = {}
    for one in scores:
        found.setdefault(one.trial.dataset, {}).setdefault(one.trial.arm, []).append(one)
    return found


def _floats(values: np.ndarray) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _table(
    study: Study, scores: Sequence[Scored], category: str | None, trained_only: bool, told: bool
) -> dict[str, list[list[float]]]:
    """For each dataset `[arms][seeds]` of the seeds that every ranked arm has; nothing where none is ranked."""
    found: dict[str, list[list[float]]] = {}
    if not study.ranked:
        return found
    for dataset, arms in by_dataset(scores).items():
        fits = dataset.category == category if category else dataset.category != "scratchpad"
        if not fits or any(arm not in arms for arm in study.ranked):
            continue
        cells = {
            (arm, one.trial.experiment.seed): one
            for arm, one in itertools.chain(*([(arm, one) for one in arms[arm]] for arm in study.ranked))
        }
        seeds = set.intersection(*({one.trial.experiment.seed for one in arms[arm]} for arm in study.ranked))
        if trained_only:
            seeds = {seed for seed in seeds if not any(cells[arm, seed].undertrained for arm in study.ranked)}
        rows = [
            [cells[arm, seed].past_told if told else cells[arm, seed].past for seed in sorted(seeds)]
            for arm in study.ranked
        ]
        if seeds and np.isfinite(rows).all():
            found[dataset.name] = rows
    return found
