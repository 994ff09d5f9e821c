"""What each score is called, which way is better, and how it is written, the same in tables, figures and pages."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lengthwise.errors import InvalidArgument, nearest


@dataclass(frozen=True)
class Metric:
    """A kind of score.

    Args:
        name: the key in `Result.scores`.
        title: for an axis or a heading, with the unit.
        short: for a sentence.
        higher_is_better: the direction.
        scale: scores are multiplied by it before they are shown: 100 for shares shown in percent.
        decimals: shown after the point.
        unit: follows a number in a sentence.
        difference_unit: follows a difference of two in a sentence.
    """

    name: str
    title: str
    short: str
    higher_is_better: bool
    scale: float
    decimals: int
    unit: str
    difference_unit: str

    def text(self, score: float) -> str:
        """A score as shown, without its unit; "–" where there is none (nan)."""
        return "–" if math.isnan(score) else f"{score * self.scale:.{self.decimals}f}".replace("-", "−")

    def better(self, score: float) -> float:
        """A number that is larger for a better score, for sorting; a score that is not finite comes last."""
        if not math.isfinite(score):
            return -math.inf
        return score if self.higher_is_better else -score


_METRICS = {
    metric.name: metric
    for metric in (
        Metric("exact_match", "Exact match (% of examples)", "exact match", True, 100.0, 1, " %", " points"),
        Metric(
            "symbol_accuracy",
            "Symbol accuracy, teacher-forced (%)",
            "teacher-forced symbol accuracy",
            True,
            100.0,
            1,
            " %",
            " points",
        ),
        Metric(
            "exact_match_told_end",
            "Exact match, told where to stop (% of examples)",
            "exact match, told where to stop",
            True,
            100.0,
            1,
            " %",
            " points",
        ),
        Metric(
            "bits_per_byte",
            "Bits per byte (less is better)",
            "bits per byte",
            False,
            1.0,
            2,
            " bits per byte",
            " bits per byte",
        ),
    )
}


def metric_of(name: str) -> Metric:
    """The metric of that name; an unknown one raises `InvalidArgument` with the nearest."""
    if name not in _METRICS:
        raise InvalidArgument(f"unknown metric {name!r}: {nearest(name, _METRICS)}")
    return _METRICS[name]
