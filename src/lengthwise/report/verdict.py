"""Who goes furthest past the trained length, and whether that can be told from the next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lengthwise.lab.statistics import Difference, Interval, paired_difference
from lengthwise.report.comparison import RESAMPLING_SEED, Comparison, interval_of
from lengthwise.report.metrics import Metric

RULE = (
    "Separated means: the 95 % interval of the difference over shared seeds leaves out 0, and with fewer than 5 seeds "
    "every single seed agrees on which is better."
)


@dataclass(frozen=True, eq=False)
class Verdict:
    """The outcome of one comparison past the trained length.

    Args:
        winner: the best encoding; none where the comparison can't tell of any.
        score: its ranking score, the mean over `lengths` of the metric, with its interval over seeds.
        lengths: the tested lengths past the trained one which every run shares.
        runner_up: the next best; none where the winner is alone.
        difference: winner minus runner-up on shared seeds; none where they share no seed.
        separated: whether the winner is separated from the runner-up.
        level_with: every encoding that the winner is not separated from, the best first.
        text: all this in one or two sentences.
    """

    winner: str | None
    score: Interval | None
    lengths: tuple[int, ...]
    runner_up: str | None
    difference: Difference | None
    separated: bool
    level_with: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return self.text


def verdict(comparison: Comparison) -> Verdict:
    """Rank by the mean score over the tested lengths past the trained one; say what separates the first two.

    The mean is taken for each seed over the lengths that every run shares (each length counts once), then over seeds.
    The rule for "separated" is that of `lengthwise.lab.statistics.paired_difference`, applied to these means.
    """
    lengths = comparison.far_lengths
    if not lengths:
        return _nobody(lengths, f"No length past {comparison.train_length} was tested by every run: nothing to rank.")
    sound = [name for name in comparison.encodings if interval_of(list(comparison.far(name).values())) is not None]
    if not sound:
        return _nobody(lengths, "No encoding has finite scores past the trained length: every one diverged.")
    winner, others = sound[0], sound[1:]
    score = interval_of(list(comparison.far(winner).values()))
    next_score = interval_of(list(comparison.far(others[0]).values())) if others else None
    if score is not None and next_score is not None and score.mean[0] == next_score.mean[0]:
        level = _quantity(comparison.metric, comparison.metric.text(score.mean[0]))
        text = f"No encoding stands out past {comparison.train_length}: {winner} and {others[0]} are level, at {level}."
        return _nobody(lengths, text)
    differences = {name: _difference(comparison, winner, name) for name in others}
    level = tuple(name for name, difference in differences.items() if not _separated(difference, comparison.metric))
    runner_up = others[0] if others else None
    difference = differences[runner_up] if runner_up is not None else None
    separated = _separated(difference, comparison.metric)
    text = _text(comparison, winner, score, runner_up, difference, level)
    return Verdict(winner, score, lengths, runner_up, difference, separated, level, text)


def _nobody(lengths: tuple[int, ...], text: str) -> Verdict:
    return Verdict(None, None, lengths, None, None, False, (), text)


def _difference(comparison: Comparison, a: str, b: str) -> Difference | None:
    one, other = comparison.far(a), comparison.far(b)
    seeds = sorted(one.keys() & other.keys())
    if not seeds:
        return None
    rows = [np.array([[scores[seed]] for seed in seeds]) for scores in (one, other)]  # [seeds, 1]
    return paired_difference(*rows, rng=np.random.default_rng(RESAMPLING_SEED))


def _separated(difference: Difference | None, metric: Metric) -> bool:
    """Whether the winner is; where seeds are not all shared, it may be behind on those that are."""
    return difference is not None and bool(difference.separated[0]) and _ahead(difference, metric) > 0


def _ahead(difference: Difference, metric: Metric) -> float:
    return float(difference.interval.mean[0]) * (1.0 if metric.higher_is_better else -1.0)


def _text(
    comparison: Comparison,
    winner: str,
    score: Interval | None,
    runner_up: str | None,
    difference: Difference | None,
    level: tuple[str, ...],
) -> str:
    metric, lengths = comparison.metric, comparison.far_lengths
    at = f"length {lengths[0]}" if len(lengths) == 1 else f"{len(lengths)} lengths from {lengths[0]} to {lengths[-1]}"
    mean = metric.text(score.mean[0]) if score is not None else "–"
    first = f"{winner} holds up best past {comparison.train_length}: {_quantity(metric, mean)} on average at {at}."
    if runner_up is None:
        return f"{first} It was the only one with scores there."
    if difference is None:
        return f"{first} Not separated from {runner_up}: they share no seed."
    interval = difference.interval
    sign = 1.0 if metric.higher_is_better else -1.0
    gap = f"{'ahead' if _ahead(difference, metric) >= 0 else 'behind'} by "
    gap += f"{metric.text(abs(interval.mean[0]))}{metric.difference_unit}"
    ends = sorted((sign * interval.low[0], sign * interval.high[0]))
    span = "" if interval.seeds == 1 else f", 95 % interval {metric.text(ends[0])} to {metric.text(ends[1])}"
    seeds = f"{interval.seeds} shared seed{'' if interval.seeds == 1 else 's'}"
    word = "Separated" if _separated(difference, metric) else "Not separated"
    rest = [name for name in level if name != runner_up]
    also = f" Not separated from {_join(rest)} either." if rest and word == "Not separated" else ""
    also = f" Not separated from {_join(rest)}." if rest and word == "Separated" else also
    return f"{first} {word} from {runner_up}, the next: {gap} ({seeds}{span}).{also}"


def _quantity(metric: Metric, mean: str) -> str:
    return f"{mean}{metric.unit} {metric.short}" if metric.scale != 1.0 else f"{mean} {metric.short}"


def _join(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]
