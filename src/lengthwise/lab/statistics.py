"""What several seeds say together: means with intervals, paired differences, mean reciprocal ranks.

Pure functions on arrays, as in rliable (Agarwal et al. 2021, arXiv 2108.13264). Intervals are percentile bootstraps
over seeds: seeds are drawn again with replacement, and the interval holds the middle part of the means that come out.
With n seeds only n**n draws differ; where these are no more than `resamples`, all of them are taken and chance plays
no part.

A percentile interval of few seeds is too narrow: one of 95 % holds the true mean about nine times in ten at 10 seeds,
and half the time at 2. `enough` and `note` say so wherever an interval is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Bool, Float, Int64

from lengthwise.errors import InvalidArgument, nearest

ENOUGH_SEEDS = 5
"""From this many seeds on an interval is shown without a warning."""

Ties = Literal["average", "min", "first"]
_SCIPY_TIES = {"average": "average", "min": "min", "first": "ordinal"}


@dataclass(frozen=True, eq=False)
class Interval:
    """Means over seeds with bootstrap intervals, one for each length.

    Args:
        mean: `[lengths]`.
        low: lower ends `[lengths]`; nan where there is one seed only.
        high: upper ends `[lengths]`; nan where there is one seed only.
        seeds: number of seeds.
        enough: whether there were at least `ENOUGH_SEEDS`.
        note: what a reader must know about so few seeds; empty where there were enough.
    """

    mean: Float[np.ndarray, " lengths"]
    low: Float[np.ndarray, " lengths"]
    high: Float[np.ndarray, " lengths"]
    seeds: int
    enough: bool
    note: str


@dataclass(frozen=True, eq=False)
class Difference:
    """Mean of a - b over shared seeds, and where the two are separated.

    Args:
        interval: of the differences, `[lengths]`.
        separated: `[lengths]`; see `paired_difference` for the rule.
    """

    interval: Interval
    separated: Bool[np.ndarray, " lengths"]


def mean_interval(
    scores: Float[np.ndarray, "seeds lengths"],
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 10_000,
) -> Interval:
    """Mean over seeds at each length, with a percentile bootstrap interval.

    One seed has a mean and no interval: its ends are nan. With 2 or 3 seeds a 95 % interval reaches from the lowest
    to the highest score seen.

    Args:
        scores: one row a seed, one column a length.
        rng: draws the resamples; not touched where `seeds ** seeds <= resamples`.
        level: part of the resampled means inside the interval, between 0 and 1.
        resamples: largest number of resamples.

    Raises:
        InvalidArgument: not two axes, no seeds, values that are not finite, or `level` or `resamples` out of range.

    Example:
        >>> interval = mean_interval(np.array([[0.2, 1.0], [0.4, 1.0]]), rng=np.random.default_rng(0))
        >>> interval.low.tolist(), interval.high.tolist(), interval.note
        ([0.2, 1.0], [0.4, 1.0], '2 seeds: the interval spans what was seen, not what is to be expected')
    """
    scores = _checked(scores, "scores", "[seeds, lengths]")
    if not 0.0 < level < 1.0:
        raise InvalidArgument(f"level must lie between 0 and 1, for example 0.95, and is {level}")
    if resamples < 1:
        raise InvalidArgument(f"resamples must be at least 1, not {resamples}")
    seeds = len(scores)
    if seeds == 1:
        unknown = np.full(scores.shape[1], np.nan)
        return Interval(scores[0], unknown, unknown, 1, False, _note(1))
    means = scores[_draws(seeds, resamples, rng)].mean(axis=1)  # [resamples, seeds, lengths] -> [resamples, lengths]
    tail = (1.0 - level) / 2.0
    # Ends are means that came out, never between two of them; the upper end mirrors the lower one exactly.
    low = np.quantile(means, tail, axis=0, method="inverted_cdf")
    high = -np.quantile(-means, tail, axis=0, method="inverted_cdf")
    return Interval(scores.mean(axis=0), low, high, seeds, seeds >= ENOUGH_SEEDS, _note(seeds))


def paired_difference(
    a: Float[np.ndarray, "seeds lengths"],
    b: Float[np.ndarray, "seeds lengths"],
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 10_000,
) -> Difference:
    """Mean of `a - b` over seeds that both ran, with its interval, and whether the two are separated.

    Row i of `a` and row i of `b` are the same seed. **Separated** means: there are at least 2 seeds, the interval does
    not hold 0, and with fewer than 5 seeds every single seed has the same sign. It is a description of what was seen,
    not a significance test, which so few seeds could never pass.

    Raises:
        InvalidArgument: as `mean_interval`, or the shapes differ.
    """
    a, b = _checked(a, "a", "[seeds, lengths]"), _checked(b, "b", "[seeds, lengths]")
    if a.shape != b.shape:
        raise InvalidArgument(f"a and b must hold the same seeds and lengths, and are {a.shape} and {b.shape}")
    difference = a - b
    interval = mean_interval(difference, rng=rng, level=level, resamples=resamples)
    separated = (interval.low > 0) | (interval.high < 0)  # nan, the ends of a single seed, compares false
    if not interval.enough:
        separated &= (difference > 0).all(axis=0) | (difference < 0).all(axis=0)
    return Difference(interval, separated)


def mean_reciprocal_rank(
    scores: Float[np.ndarray, "encodings trials"], *, higher_is_better: bool, ties: Ties = "average"
) -> Float[np.ndarray, " encodings"]:
    """Mean over trials of 1 / rank, rank 1 being the best; 1 is always first.

    Rules for ties: `"average"` gives each the mean of the ranks they share (two at the top: 1.5 each), so that the
    order of the rows does not matter; `"min"` gives each the best of these ranks (1 each); `"first"` ranks them in the
    order of the rows (1 and 2), which favours early rows, as in the repository of Kazemnejad et al. 2023 (arXiv
    2305.19466).

    Args:
        scores: one row an encoding, one column a trial (a task, a length, a seed).
        higher_is_better: false for bits per byte.
        ties: the rule.

    Raises:
        InvalidArgument: not two axes, none of either, values that are not finite, or an unknown rule.
    """
    scores = _checked(scores, "scores", "[encodings, trials]")
    if ties not in _SCIPY_TIES:
        raise InvalidArgument(f"unknown rule for ties {ties!r}: {nearest(ties, _SCIPY_TIES)}")
    from scipy.stats import rankdata  # here, since it takes 2 s to load and a report does not rank

    ranks = rankdata(-scores if higher_is_better else scores, method=_SCIPY_TIES[ties], axis=0)
    return np.asarray(1.0 / ranks).mean(axis=1)


def _draws(seeds: int, resamples: int, rng: np.random.Generator) -> Int64[np.ndarray, "resamples seeds"]:
    """All draws of `seeds` rows with replacement where they are few enough, random ones otherwise."""
    # In Python's whole numbers: seeds ** seeds leaves int64 behind at 16 seeds.
    if seeds**seeds <= resamples:
        return np.indices((seeds,) * seeds).reshape(seeds, -1).T
    return rng.integers(seeds, size=(resamples, seeds))


def _note(seeds: int) -> str:
    if seeds == 1:
        return "1 seed: no interval; how much another seed would differ is unknown"
    if seeds < 4:
        return f"{seeds} seeds: the interval spans what was seen, not what is to be expected"
    return "" if seeds >= ENOUGH_SEEDS else f"{seeds} seeds: the interval is rough, and likely too narrow"


def _checked(scores: Float[np.ndarray, "rows columns"], name: str, axes: str) -> Float[np.ndarray, "rows columns"]:
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 2 or 0 in scores.shape:
        raise InvalidArgument(f"{name} must be {axes} with at least one of each, and has shape {scores.shape}")
    if not np.isfinite(scores).all():
        raise InvalidArgument(f"{name} must be finite; leave out or repeat the runs that diverged")
    return scores
