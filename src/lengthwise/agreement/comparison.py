"""One encoding of this package beside the same one of a peer, and the numbers that come out.

The difference of two numbers a and b is |a - b| / max(1, |a|, |b|); that of two results is the largest one. Above the
tolerance of the dtype the two disagree. Where the paper's formula was worked out in float64 by `exact`, which shares no
code with the encodings, the distance of each from it is told too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lengthwise.agreement.peers import version
from lengthwise.agreement.place import STARTS, Place

TOLERANCE = {
    # An angle of 127 radians is known to 32 eps in float32, and a turn has two products of it.
    torch.float32: 64 * torch.finfo(torch.float32).eps,
    # A few roundings of numbers near 1, as in the tests.
    torch.bfloat16: 4 * torch.finfo(torch.bfloat16).eps,
}
"""Above which two results disagree."""
Make = Callable[[Place], Tensor]


@dataclass(frozen=True, eq=False)
class Comparison:
    """The same quantity made twice.

    Args:
        spec: of our encoding.
        peer: name of the other package.
        part: what of it.
        quantity: what is compared.
        ours: makes it with this package.
        theirs: makes it with the other.
        exact: makes it from the paper's formula in float64, where there is one.
        dtypes: in which they are compared.
        starts: first positions at which the peer can be asked.
        why: what differs and which follows the paper, for where they disagree; see `lengthwise.agreement.wording`.
    """

    spec: str
    peer: str
    part: str
    quantity: str
    ours: Make
    theirs: Make
    exact: Make | None = None
    dtypes: Sequence[torch.dtype] = tuple(TOLERANCE)
    starts: Sequence[int] = STARTS
    why: str = ""


@dataclass(frozen=True)
class Outcome:
    """What one comparison gave at one place.

    Args:
        dtype: name of the dtype.
        start: first position.
        status: "agrees", "differs", "not installed" or "failed".
        difference: of ours and theirs; None where nothing was compared, infinity where a result is not finite.
        ours_off: distance of ours from the paper's formula.
        theirs_off: distance of theirs.
        note: version of the peer, or why there is no number.
    """

    dtype: str
    start: int
    status: str
    difference: float | None = None
    ours_off: float | None = None
    theirs_off: float | None = None
    note: str = ""


def measure(comparison: Comparison) -> list[Outcome]:
    """Compare at each dtype and place; a peer that is missing, or fails, is told in the outcome."""
    found = version(comparison.peer)
    outcomes: list[Outcome] = []
    for dtype in comparison.dtypes:
        for start in comparison.starts:
            name = str(dtype).removeprefix("torch.")
            if found is None:
                outcomes.append(Outcome(name, start, "not installed", note=f"{comparison.peer} is not installed"))
                continue
            place = Place(dtype, start)
            with torch.no_grad():
                # Theirs first: where one function makes both, what fails in the peer must not look like ours.
                try:
                    theirs = comparison.theirs(place)
                except Exception as error:  # another version of a peer may fail to load, or lack anything
                    outcomes.append(Outcome(name, start, "failed", note=_failure(comparison, found, error)))
                    continue
                ours = comparison.ours(place)
                exact = None if comparison.exact is None else comparison.exact(place)
                try:
                    away = difference(ours, theirs)
                except Exception as error:  # another version of a peer may give anything
                    outcomes.append(Outcome(name, start, "failed", note=_failure(comparison, found, error)))
                    continue
            status = "agrees" if away <= TOLERANCE[dtype] else "differs"
            off = (None, None) if exact is None else (difference(ours, exact), difference(theirs, exact))
            outcomes.append(Outcome(name, start, status, away, *off, note=f"{comparison.peer} {found}"))
    return outcomes


def _failure(comparison: Comparison, found: str, error: Exception) -> str:
    return f"{comparison.peer} {found}: {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def difference(a: Tensor, b: Tensor) -> float:
    """Largest |a - b| / max(1, |a|, |b|).

    Raises:
        ValueError: results of different shapes, which are not the same quantity.
    """
    if a.shape != b.shape:
        raise ValueError(f"ours is {list(a.shape)} and theirs {list(b.shape)}: not the same quantity")
    a, b = a.double(), b.double()
    away = ((a - b).abs() / torch.maximum(a.abs(), b.abs()).clamp(min=1.0)).max().item()
    return away if math.isfinite(away) else math.inf
