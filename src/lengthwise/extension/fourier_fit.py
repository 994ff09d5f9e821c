"""Sines and a line through the rows of a table, by least squares.

    f(i) = a + b i + sum over k of c_k cos(w_k i) + d_k sin(w_k i)

All dims share the frequencies, and have a, b, c, d of their own. Frequencies are found one after another: that of the
most power in what is left, then all of them moved to where the squares are least (Gauss-Newton). How many there are is
chosen by rows held out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lengthwise.extension.fits import chosen, narrowed

TERMS = (0, 1, 2, 4, 8, 12)
"""Numbers of frequencies that are tried, as far as there are 8 rows for each."""
FINER = 8
"""Frequencies looked at between 1 and 2 turns in all rows; what turns less than half is left to the line."""
STEPS = 4
"""Of Gauss-Newton, after each new frequency."""


def line(rows: Tensor, count: int) -> Tensor:
    """The next `count` rows on the line through `rows`."""
    return _carried_on(rows, count, [])


def fourier(rows: Tensor, count: int) -> Tensor:
    """The next `count` rows by a line and a few sines."""
    narrow = narrowed(rows)
    tried = [terms for terms in TERMS if 8 * terms <= len(rows)]

    def each(some: Tensor, more: int) -> list[Tensor]:
        found = _frequencies(some, tried[-1])
        return [_carried_on(some, more, found[terms]) for terms in tried]

    terms = chosen(narrow, tried, each)
    return _carried_on(rows, count, _frequencies(narrow, terms)[terms])


def _carried_on(rows: Tensor, count: int, frequencies: Sequence[float]) -> Tensor:
    weights = _solve(_features(rows, 0, len(rows), frequencies), rows)
    return _features(rows, len(rows), count, frequencies) @ weights


def _frequencies(rows: Tensor, terms: int) -> list[list[float]]:
    """The frequencies of a fit with 0, 1, ... `terms` of them, in turns a row."""
    found: list[list[float]] = [[]]
    for _ in range(terms):
        known = _features(rows, 0, len(rows), found[-1])
        best = [*found[-1], _strongest(rows - known @ _solve(known, rows))]
        for _ in range(STEPS):
            best = _moved(rows, best)
        found.append(best)
    return found


def _strongest(rest: Tensor) -> float:
    power = torch.fft.rfft(rest, n=FINER * len(rest), dim=0).abs().square().sum(1)
    lowest = FINER // 2
    return (lowest + int(power[lowest:].argmax())) / (FINER * len(rest))


def _moved(rows: Tensor, frequencies: Sequence[float]) -> list[float]:
    """One step of Gauss-Newton for the frequencies, the other numbers of the fit at their best throughout."""
    known = _features(rows, 0, len(rows), frequencies)
    weights = _solve(known, rows)
    place = 2 * math.pi * torch.arange(len(rows), dtype=rows.dtype, device=rows.device)
    slopes: list[Tensor] = []
    for k in range(len(frequencies)):
        cos, sin = known[:, 2 + 2 * k], known[:, 3 + 2 * k]
        slope = torch.outer(place * cos, weights[3 + 2 * k]) - torch.outer(place * sin, weights[2 + 2 * k])
        slopes.append((slope - known @ _solve(known, slope)).flatten())
    step = _solve(torch.stack(slopes, 1), (rows - known @ weights).flatten()[:, None])[:, 0]
    limit = 0.25 / len(rows)  # a quarter of a turn at the last row: past it the slopes say nothing
    lowest = 0.5 / len(rows)
    pairs = zip(frequencies, step.clamp(-limit, limit).tolist(), strict=True)
    return [min(max(frequency + by, lowest), 0.5) for frequency, by in pairs]


def _features(rows: Tensor, first: int, count: int, frequencies: Sequence[float]) -> Tensor:
    """1, the place and the waves at `count` places from `first` on, `[count, 2 + 2 frequencies]`."""
    place = torch.arange(first, first + count, dtype=rows.dtype, device=rows.device)
    angles = [2 * math.pi * frequency * place for frequency in frequencies]
    waves = [wave for angle in angles for wave in (angle.cos(), angle.sin())]
    return torch.stack([torch.ones_like(place), place / len(rows), *waves], dim=1)


def _solve(features: Tensor, values: Tensor) -> Tensor:
    """Least squares, with a little of a ridge where features are too few or too alike to tell apart."""
    inner = features.T @ features
    ridge = 1e-9 * inner.diagonal().max().clamp(min=torch.finfo(inner.dtype).tiny)
    inner.diagonal().add_(ridge)
    return torch.linalg.solve(inner, features.T @ values)
