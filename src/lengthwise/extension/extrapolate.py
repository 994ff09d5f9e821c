"""A learned table carried on past its last row by a function that was fitted to its rows.

    E'[i] = E[i],  i < n;    E'[i] = f(i),  i >= n

No paper; trained tables of text models are smooth enough for it at times, and `fit_error` says whether one is. It is
measured on the last quarter of the trained rows, predicted from those before; settings of the fit are chosen without
them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.extension.fits import SHARE, Fit, held_out_error
from lengthwise.extension.fourier_fit import fourier, line
from lengthwise.extension.gaussian_fit import gaussian
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions


def last(rows: Tensor, count: int) -> Tensor:
    """The last row again and again."""
    return rows[-1:].expand(count, -1)


def linear(rows: Tensor, count: int) -> Tensor:
    """The line through the last quarter of the rows, at least two of them, carried on."""
    return line(rows[-max(2, len(rows) // SHARE) :], count)


FITS: Mapping[str, Fit] = MappingProxyType({"last": last, "linear": linear, "fourier": fourier, "gaussian": gaussian})


@extensions.register("extrapolate")
@dataclass(frozen=True)
class Extrapolate(Method):
    """The rows of a table as they are, and predicted ones after them.

    The result has `fit_error`: the error of the prediction over the size of what was predicted, on the last quarter of
    the trained rows; 0 is exact, and 1 is what zeros would get. Its `repr` says it too.

    Args:
        length: number of rows after it.
        fit: `"last"`, the last row again; `"linear"`, the trend of the last quarter; `"fourier"`, a line and a few
            sines by least squares; `"gaussian"`, a Gaussian process, which returns to the mean of the rows.

    Raises:
        InvalidArgument: a length below that of the table, an unknown fit.

    Example:
        >>> import torch, lengthwise as lw
        >>> learned = lw.Learned(dim=1, max_length=8).with_table(torch.arange(8.0)[:, None])
        >>> longer = lw.extend(learned, lw.Extrapolate(length=10, fit="linear"))
        >>> [round(row, 3) for row in longer.table[-3:].flatten().tolist()], round(longer.fit_error, 3)
        ([7.0, 8.0, 9.0], 0.0)
    """

    length: int
    fit: Literal["last", "linear", "fourier", "gaussian"] = "linear"

    formula: ClassVar[str] = "E'[i] = f(i) past the last row, f fitted to the rows"
    paper: ClassVar[str] = "no paper"
    example: ClassVar[str] = "extrapolate(length=256, fit='fourier')"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InvalidArgument(f"length is the number of rows after it, at least 1, and is {self.length}")
        if self.fit not in FITS:
            raise InvalidArgument(f"unknown fit {self.fit!r}: {nearest(self.fit, FITS)}")

    def map_table(self, table: Tensor) -> Tensor:
        """The table `[rows, dim]` with predicted rows after it, in the table's dtype; itself where it is as long."""
        more = self.length - table.shape[0]
        if more < 0:
            raise InvalidArgument(
                f"length {self.length} is shorter than the table of {table.shape[0]} rows, which serves it as it is"
            )
        if more == 0:
            return table
        if table.is_meta:  # no rows to fit: they are loaded later, all of them
            return table.new_empty(self.length, table.shape[1])
        return torch.cat((table, FITS[self.fit](table.double(), more).to(table.dtype)))

    def error_on(self, table: Tensor) -> float:
        """The error of the fit on the last quarter of the rows of `table`, predicted from those before."""
        if table.is_meta:
            return math.nan
        return held_out_error(table.double(), FITS[self.fit])
