"""Results that may be compared: one task, data, trained length, model and training; encodings and seeds differ.

Nothing else may be averaged over seeds. `comparisons` sorts any pile of results into such groups, and everything in a
report is made from one of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from lengthwise.errors import InvalidArgument
from lengthwise.lab.result import Result
from lengthwise.lab.statistics import Interval, mean_interval
from lengthwise.report.metrics import Metric, metric_of

RESAMPLING_SEED = 0
"""Seed of every bootstrap in a report: the same results give the same page."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Encodings tried on one task under one setting.

    Args:
        task: spec string of the task.
        train_length: longest length in training.
        metric: what is reported first.
        length_counts: what a length counts: "symbols to sort".
        setting: what sets this group apart from others of the same task; empty where it is the only one.
        results: the runs, one for each encoding, seed and list of test lengths.
        lengths: all lengths tested by any run, rising.
        scores: metric name, encoding and length to the score of each seed.
        encodings: the best first; see `far_lengths`.
    """

    task: str
    train_length: int
    metric: Metric
    length_counts: str
    setting: str
    results: tuple[Result, ...]
    lengths: tuple[int, ...]
    scores: Mapping[tuple[str, str, int], Mapping[int, float]]
    encodings: tuple[str, ...]

    @property
    def far_lengths(self) -> tuple[int, ...]:
        """Lengths past the trained one that every run was tested at: the ranking score is the mean over these."""
        return tuple(length for length in _shared_lengths(self.results) if length > self.train_length)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All metrics of the runs, the one reported first ahead."""
        names = {name for result in self.results for name in result.scores}
        return (self.metric, *(metric_of(name) for name in sorted(names - {self.metric.name})))

    def at(self, encoding: str, length: int, metric: Metric | None = None) -> Mapping[int, float]:
        """Scores of one encoding at one length, by seed; empty where it was not tested there."""
        return self.scores.get(((metric or self.metric).name, encoding, length), {})

    def interval(self, encoding: str, length: int, metric: Metric | None = None) -> Interval | None:
        """Mean over seeds with its interval; none where not tested, or where a run diverged."""
        return interval_of(list(self.at(encoding, length, metric).values()))

    def far(self, encoding: str) -> dict[int, float]:
        """The ranking score of each seed: its mean over `far_lengths`; empty where there are none."""
        rows = [self.at(encoding, length) for length in self.far_lengths]
        return {seed: float(np.mean([row[seed] for row in rows])) for seed in sorted(rows[0])} if rows else {}

    def untrained_rows(self, encoding: str) -> tuple[int, int] | None:
        """Trained rows and all rows of a learned table that has rows which training never reached."""
        for result in self.results:
            rows, trained = result.table_rows, result.trained_rows
            if result.experiment.encoding == encoding and rows is not None and trained is not None and trained < rows:
                return trained, rows
        return None

    def label(self, encoding: str) -> str:
        """The encoding as shown: with a dagger where some rows of its table were never trained."""
        return f"{encoding} †" if self.untrained_rows(encoding) else encoding


def comparisons(results: Sequence[Result]) -> list[Comparison]:
    """Sort results into groups that may be compared, in the order in which each group first appears.

    Where one encoding and seed were tested twice at one length, the run that ended last counts.

    Raises:
        InvalidArgument: there are no results, or a result has not one score for each of its test lengths.
    """
    if not results:
        raise InvalidArgument("there are no results to report: run `lengthwise compare` first, or name its runs")
    groups: dict[tuple[object, ...], list[Result]] = {}
    for result in results:
        _check(result)
        one = result.experiment
        groups.setdefault((one.task, one.train_length, one.model, one.training, one.data), []).append(result)
    return [_comparison(group, _setting(group[0], list(groups.values()))) for group in groups.values()]


def interval_of(scores: Sequence[float]) -> Interval | None:
    """Mean and interval of one score a seed; none where there are no scores or one is not finite."""
    if not scores or not all(map(math.isfinite, scores)):
        return None
    return mean_interval(np.array(scores)[:, None], rng=np.random.default_rng(RESAMPLING_SEED))


def _comparison(group: list[Result], setting: str) -> Comparison:
    scores: dict[tuple[str, str, int], dict[int, float]] = {}
    for result in sorted(group, key=lambda result: result.environment.get("finished", "")):
        one = result.experiment
        for name, values in result.scores.items():
            for length, score in zip(one.test_lengths, values, strict=True):
                scores.setdefault((name, one.encoding, length), {})[one.seed] = score
    first = group[0]
    draft = Comparison(
        task=first.experiment.task,
        train_length=first.experiment.train_length,
        metric=metric_of(first.metric),
        length_counts=first.length_counts,
        setting=setting,
        results=tuple(sorted(group, key=lambda result: (result.experiment.encoding, result.experiment.seed))),
        lengths=tuple(sorted({length for result in group for length in result.experiment.test_lengths})),
        scores=scores,
        encodings=tuple(sorted({result.experiment.encoding for result in group})),
    )
    ranked = sorted(draft.encodings, key=lambda encoding: _rank(draft, encoding), reverse=True)
    return replace(draft, encodings=tuple(ranked))


def _rank(comparison: Comparison, encoding: str) -> tuple[float, float]:
    """Best first past the trained length; what is level there goes by all lengths."""
    far = list(comparison.far(encoding).values())
    everywhere = [score for length in comparison.lengths for score in comparison.at(encoding, length).values()]
    return _goodness(comparison.metric, far), _goodness(comparison.metric, everywhere)


def _goodness(metric: Metric, scores: Sequence[float]) -> float:
    return metric.better(float(np.mean(scores))) if scores else -math.inf


def _shared_lengths(results: Sequence[Result]) -> list[int]:
    return sorted(set.intersection(*(set(result.experiment.test_lengths) for result in results)))


def _check(result: Result) -> None:
    count = len(result.experiment.test_lengths)
    name = result.experiment.address
    if result.metric not in result.scores:
        raise InvalidArgument(f"the result {name} has no scores for its metric {result.metric!r}: run it again")
    for metric, values in result.scores.items():
        if len(values) != count:
            raise InvalidArgument(
                f"the result {name} has {len(values)} scores of {metric!r} for {count} test lengths: run it again"
            )


def _setting(result: Result, groups: list[list[Result]]) -> str:
    """What differs from the other groups of the same task, as "layers 2, steps 500"."""
    siblings = [_flat(group[0]) for group in groups if group[0].experiment.task == result.experiment.task]
    own = _flat(result)
    return ", ".join(f"{key} {own[key]}" for key in own if any(other[key] != own[key] for other in siblings))


def _flat(result: Result) -> dict[str, object]:
    one = result.experiment
    return {"trained length": one.train_length, "data": one.data, **asdict(one.model), **asdict(one.training)}
