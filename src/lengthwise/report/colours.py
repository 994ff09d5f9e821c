"""Colour, point shape and dash of each encoding: the same in every figure and, as far as can be, in every page.

Colours are six of Okabe and Ito (2008, "Color Universal Design"), whose black and yellow vanish on a dark or a white
page; a violet and a brown stand in for these. All eight stay apart under the three kinds of colour blindness and
stand out from white and from near black. A shape says the same once more for print.

An encoding's place in the palette comes from a hash of its name, not from the registry's order, so that adding an
encoding never recolours another. Where two on one page want the same place, the later by name takes the next free one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#8a3ffc", "#8c6432")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
OUTLINES = {
    "circle": "M11 6A5 5 0 1 1 1 6A5 5 0 1 1 11 6Z",
    "square": "M1.5 1.5H10.5V10.5H1.5Z",
    "triangle-up": "M6 1L11.5 10.5H0.5Z",
    "diamond": "M6 0.5L10.5 6L6 11.5L1.5 6Z",
    "cross": "M4 1H8V4H11V8H8V11H4V8H1V4H4Z",
    "triangle-down": "M0.5 1.5H11.5L6 11Z",
    "triangle-right": "M1.5 0.5L11 6L1.5 11.5Z",
    "triangle-left": "M10.5 0.5L1 6L10.5 11.5Z",
}
"""Each shape as an SVG path on 12 by 12, for a legend outside a figure."""
DASHES = ((), (6, 3), (2, 2))
# With this salt none, learned, sinusoidal, rotary, alibi, t5, kerple and fire take eight different places.
_SALT = "2442"


@dataclass(frozen=True)
class Style:
    """How one encoding is drawn.

    Args:
        colour: as `#rrggbb`, for light and dark pages alike.
        shape: a point shape of Vega-Lite.
        dash: lengths of stroke and gap in pixels; empty for a solid line.
    """

    colour: str
    shape: str
    dash: tuple[int, ...]


def styles(encodings: Iterable[str]) -> dict[str, Style]:
    """A style for each encoding of a page, by spec string; the order of `encodings` does not matter.

    Up to eight encodings differ in colour and shape; from the ninth on colours repeat with dashed, then dotted lines.
    """
    taken: set[int] = set()
    out: dict[str, Style] = {}
    # Plain names choose first, so that `rotary` keeps its colour beside `rotary(base=500000)`.
    for spec in sorted(set(encodings), key=lambda spec: (not spec.isidentifier(), spec)):
        if len(taken) == len(PALETTE):
            taken.clear()
        place = _preferred(spec)
        while place in taken:
            place = (place + 1) % len(PALETTE)
        taken.add(place)
        dash = DASHES[len(out) // len(PALETTE) % len(DASHES)]
        out[spec] = Style(PALETTE[place], SHAPES[place], dash)
    return out


def _preferred(spec: str) -> int:
    """The place that the first name of a spec wants."""
    found = re.search(r"[A-Za-z_]\w*", spec)
    name = found.group() if found else spec
    digest = hashlib.sha256(f"{_SALT}:{name}".encode()).digest()
    return int.from_bytes(digest[:4]) % len(PALETTE)
