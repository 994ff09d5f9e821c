"""Whether one method is better than another on the same text: a paired bootstrap over blocks of tokens.

Losses of two methods at the same tokens rise and fall together, so that their difference is known far better than
either. Neighbouring tokens depend on each other, so that whole blocks are drawn, with replacement, within each window
of text. The interval covers the choice of passages in these windows, not the choice of other texts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float

from lengthwise.errors import InvalidArgument

RESAMPLES = 4000


@dataclass(frozen=True)
class Gap:
    """How much larger one loss is than another, in nats a token, with the ends of an interval.

    Args:
        mean: of the differences.
        low: lower end.
        high: upper end.
    """

    mean: float
    low: float
    high: float

    @property
    def separated(self) -> bool:
        """Whether the interval is clear of 0."""
        return self.low > 0 or self.high < 0

    @property
    def percent(self) -> tuple[float, float, float]:
        """The same as percent of perplexity: 100 (e^gap - 1)."""
        return tuple(100 * math.expm1(min(value, 100.0)) for value in (self.mean, self.low, self.high))  # pyright: ignore[reportReturnType]


def paired_gap(
    a: Float[np.ndarray, "windows blocks"],
    b: Float[np.ndarray, "windows blocks"],
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = RESAMPLES,
) -> Gap:
    """Mean of `a - b` with a percentile interval; row and column of both are the same tokens.

    Args:
        a: losses of one method, a row a window of text, a column a block of its tokens.
        b: losses of the other.
        rng: draws the blocks.
        level: part of the resampled means inside the interval.
        resamples: number of draws.

    Raises:
        InvalidArgument: shapes that differ, or no blocks.

    Example:
        >>> gap = paired_gap(np.full((4, 8), 2.0), np.full((4, 8), 1.5), rng=np.random.default_rng(0))
        >>> gap
        Gap(mean=0.5, low=0.5, high=0.5)
    """
    if a.shape != b.shape or a.ndim != 2 or 0 in a.shape:
        raise InvalidArgument(
            f"paired losses are two arrays [windows, blocks] of one shape, not {a.shape} and {b.shape}"
        )
    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    rows, blocks = difference.shape
    means = np.zeros(resamples)
    for row in difference:  # blocks are drawn within their window
        means += row[rng.integers(blocks, size=(resamples, blocks))].mean(axis=1) / rows
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Gap(float(difference.mean()), float(low), float(high))


def in_blocks(
    losses: Float[np.ndarray, "windows small"], smaller: int, least: int = 8
) -> Float[np.ndarray, "windows blocks"]:
    """Means of `smaller` neighbours, fewer where that leaves less than `least` blocks; what is over joins the last."""
    count = losses.shape[1]
    size = max(1, min(smaller, count // least))
    whole = count // size
    edges = [*(number * size for number in range(whole)), count]
    return np.stack([losses[:, start:end].mean(axis=1) for start, end in pairwise(edges)], axis=1)
