"""Search for LongRoPE's divisors by evolution (Ding et al. 2024, 2402.13753, id UNVERIFIED, algorithm 1).

On a score of your own, such as the perplexity of a model on long text. The default sizes are the paper's from memory
(UNVERIFIED).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from lengthwise.errors import InvalidArgument
from lengthwise.extension.settings import check_factor, check_positive

Factors = tuple[float, ...]
_MOST = 1.25  # times the factor: the paper's upper bound


def search_longrope(
    score: Callable[[Factors], float],
    pairs: int,
    factor: float,
    *,
    starts: Sequence[Sequence[float]] = (),
    population: int = 64,
    parents: int = 32,
    mutations: int = 16,
    crossovers: int = 16,
    probability: float = 0.3,
    generations: int = 40,
    step: float = 0.01,
    seed: int = 0,
) -> Factors:
    """Search divisors for LongRoPE by evolution: those of the lowest score that was met.

    It starts from interpolation, from NTK-aware scaling and from `starts`, and mutations of these. In each generation
    the best so far are parents: some children are parents with a few divisors drawn anew, some take each divisor from
    one of two. All divisors are from 1 to 1.25 factor, in steps, and never fall from a pair to the next, as in the
    paper; those of a child that would are put in order. None are scored twice. The same seed gives the same search.

    Args:
        score: of divisors, lower is better: for example the perplexity of a model extended by
            `LongRoPE(divisors, divisors, original_length, factor)` on long text.
        pairs: rotated pairs, half the rotated dims of a head.
        factor: target length over trained length, at least 1.
        starts: divisors to start from besides.
        population: how many are scored at first.
        parents: how many of the best have children.
        mutations: children of one parent, each generation.
        crossovers: children of two parents, each generation.
        probability: that a mutation draws a divisor anew.
        generations: how often.
        step: between two neighbouring values of a divisor.
        seed: of the draws.

    Raises:
        InvalidArgument: sizes below 1, a factor below 1, a probability that is none, or starts that do not fit.

    Example:
        >>> from lengthwise.extension.longrope_search import search_longrope
        >>> def score(divisors):
        ...     return abs(divisors[0] - 1) + abs(divisors[1] - 3)
        >>> search_longrope(score, pairs=2, factor=4, step=0.5)
        (1.0, 3.0)
    """
    check_factor(factor)
    for name, size in (("pairs", pairs), ("population", population), ("parents", parents)):
        if size < 1:
            raise InvalidArgument(f"{name} must be at least 1, not {size}")
    for name, size in (("mutations", mutations), ("crossovers", crossovers), ("generations", generations)):
        if size < 0:
            raise InvalidArgument(f"{name} must be at least 0, not {size}")
    check_positive("step", step)
    if not 0 < probability <= 1:
        raise InvalidArgument(f"probability must be above 0, at most 1, not {probability}")
    draw, last = random.Random(seed), math.floor((_MOST * factor - 1) / step + 1e-9)
    scores: dict[tuple[int, ...], float] = {}

    # Divisors are counted in steps above 1, so that equal ones are equal.
    def meet(steps: tuple[int, ...]) -> None:
        if steps not in scores:
            scores[steps] = score(_values(steps, step))

    def mutated(parent: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(draw.randint(0, last) if draw.random() < probability else one for one in parent))

    def crossed(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(draw.choice(both) for both in zip(one, other, strict=True)))

    first = [[factor] * pairs, [factor ** (m / max(pairs - 1, 1)) for m in range(pairs)], *starts]
    for divisors in first:
        meet(_steps(divisors, pairs, step, last))
    for _ in range(population - len(scores)):
        meet(mutated(draw.choice(list(scores))))
    for _ in range(generations):
        best = sorted(scores, key=lambda steps: (scores[steps], steps))[:parents]
        for _ in range(mutations):
            meet(mutated(draw.choice(best)))
        for _ in range(crossovers):
            meet(crossed(draw.choice(best), draw.choice(best)))
    return _values(min(scores, key=lambda steps: (scores[steps], steps)), step)


def _steps(divisors: Sequence[float], pairs: int, step: float, last: int) -> tuple[int, ...]:
    steps = tuple(min(max(round((one - 1) / step), 0), last) for one in divisors)
    if len(steps) != pairs or list(steps) != sorted(steps):
        raise InvalidArgument(f"starts are lists of {pairs} divisors that never fall, not {list(divisors)}")
    return steps


def _values(steps: Sequence[int], step: float) -> Factors:
    return tuple(round(1 + one * step, 9) for one in steps)
