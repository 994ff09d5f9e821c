"""What is to be said of a disagreement, with the numbers of the run."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lengthwise.agreement.comparison import Comparison, Outcome


def paragraph(comparison: Comparison, outcomes: Iterable[Outcome]) -> str:
    """What is to be said of a disagreement, with the numbers of this run; empty where all agree.

    `why` may name `{float32}`, `{bfloat16}` (the largest difference at the first positions compared) and
    `{far32}`, `{far16}` (at any later ones), and `{ours_...}` and `{theirs_...}` of each: distance from the paper.
    """
    told = [outcome for outcome in outcomes if outcome.difference is not None]
    if all(outcome.status == "agrees" for outcome in told):
        return ""
    if not comparison.why:
        worst = max(told, key=lambda outcome: outcome.difference or 0.0)
        return (
            f"They differ by {number(worst.difference)} in {worst.dtype} from position {worst.start} on; why is open."
        )
    fields = _Fields()
    for outcome in told:
        short = {"float32": "32", "bfloat16": "16"}[outcome.dtype]
        key = f"far{short}" if outcome.start else outcome.dtype
        named = {key: outcome.difference, f"ours_{key}": outcome.ours_off, f"theirs_{key}": outcome.theirs_off}
        for name, value in named.items():
            if value is not None:
                fields.largest[name] = max(value, fields.largest.get(name, 0.0))
    return comparison.why.format_map(fields)


def number(value: float | None) -> str:
    """A difference in few digits."""
    if value is None:
        return "–"
    if value in (0.0, math.inf):
        return f"{value:g}"
    return f"{value:.2g}" if 0.01 <= value < 1000 else f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e+")


class _Fields(dict[str, str]):
    """Numbers by name for `str.format_map`; one that was not measured is a dash."""

    def __init__(self) -> None:
        super().__init__()
        self.largest: dict[str, float] = {}

    def __missing__(self, name: str) -> str:
        return number(self.largest.get(name))
