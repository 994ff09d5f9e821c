"""Choosing and judging a curve through the rows of a table: by its last rows, predicted from those before.

A fit takes rows `[n, dim]` in float64 and a count, and returns the next `count` rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Fit = Callable[[Tensor, int], Tensor]

SHARE = 4
"""One part in so many of the rows is held out: the last one."""
WIDTH = 32
"""Settings are chosen by so many directions of a wide table, those of the most power."""


def held_out_error(rows: Tensor, fit: Fit) -> float:
    """How far off `fit` is on the last quarter of the rows, which it does not see, over the size of these rows.

    0 is exact; 1 is what zeros would get. NaN where there is one row only.
    """
    if len(rows) < 2:
        return math.nan
    before, truth = _parted(rows)
    off, size = float((fit(before, len(truth)) - truth).norm()), float(truth.norm())
    return off / size if size else (0.0 if off == 0 else math.inf)


def chosen(rows: Tensor, settings: Sequence[T], predict: Callable[[Tensor, int], Iterable[Tensor]]) -> T:
    """The setting with which the last quarter of the rows is predicted best from the others; the first of equals.

    Args:
        rows: all of them.
        settings: what there is to choose from.
        predict: from some rows and a count to the next `count` rows, for each of the settings.
    """
    if len(rows) < 2 or len(settings) == 1:
        return settings[0]
    before, truth = _parted(rows)
    errors = [float((guess - truth).norm()) for guess in predict(before, len(truth))]
    return settings[errors.index(min(errors))]


def narrowed(rows: Tensor) -> Tensor:
    """The rows in their directions of most power, at most `WIDTH` of them."""
    if rows.shape[1] <= WIDTH:
        return rows
    directions = torch.linalg.eigh(rows.T @ rows).eigenvectors  # the last are the strongest
    return rows @ directions[:, -WIDTH:]


def _parted(rows: Tensor) -> tuple[Tensor, Tensor]:
    held = max(1, len(rows) // SHARE)
    return rows[:-held], rows[-held:]
