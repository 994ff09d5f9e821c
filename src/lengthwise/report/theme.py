"""Light and dark looks of a figure, and writing a figure alone to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import altair as alt
import vl_convert

from lengthwise.errors import InvalidArgument
from lengthwise.files import write_whole

Theme = Literal["light", "dark"]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"
_INK = {"light": ("#1d2126", "#5a626c", "#e4e7eb", "#ffffff"), "dark": ("#e8eaed", "#a2abb6", "#30353c", "#16191d")}


def theme_config(theme: Theme) -> dict[str, Any]:
    """A Vega-Lite `config` for one theme; the ground stays clear, so that the page shows through."""
    strong, soft, faint, _ = _INK[theme]
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": soft,
            "titleColor": soft,
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "labelFontSize": 11,
            "titlePadding": 10,
            "gridColor": faint,
            "domainColor": faint,
            "tickColor": faint,
            "domain": False,
        },
        "axisBand": {"ticks": False},
        "axisQuantitative": {"ticks": False, "labelPadding": 6},
        "legend": {
            "labelColor": strong,
            "orient": "bottom",
            "columns": 4,
            "labelFontSize": 12,
            "symbolSize": 80,
            "symbolOpacity": 1,
            "symbolStrokeWidth": 2,
            "labelLimit": 320,
        },
        "header": {"labelColor": strong, "titleColor": strong, "labelFontSize": 12},
        "rule": {"color": soft},
        "text": {"color": strong},
        "title": {"color": strong},
    }


def save(
    chart: alt.LayerChart | alt.ConcatChart | alt.FacetChart,
    path: str | Path,
    *,
    theme: Theme = "light",
    width: int = 640,
    scale: float = 2.0,
) -> Path:
    """Write one figure to `.html` (works without a network), `.png` or `.svg`; the ending decides.

    Args:
        chart: a figure of `lengthwise.report.figures`.
        path: where to; an older file is replaced whole.
        theme: `"light"` or `"dark"`.
        width: of the plot, in pixels; plots side by side keep the widths they have.
        scale: pixels of a PNG for each pixel of the figure.

    Raises:
        InvalidArgument: another ending.
        StorageError: the file can't be written.
    """
    path = Path(path)
    config = {**theme_config(theme), "background": _INK[theme][3]}
    spec = {**chart.to_dict(), "padding": 16, "config": config}
    if isinstance(chart, alt.LayerChart):
        spec["width"] = width
    match path.suffix.lower():
        case ".html":
            content = vl_convert.vegalite_to_html(spec, bundle=True).encode()
        case ".svg":
            content = vl_convert.vegalite_to_svg(spec).encode()
        case ".png":
            content = vl_convert.vegalite_to_png(spec, scale=scale)
        case _:
            raise InvalidArgument(f"a figure is written to .html, .png or .svg, not to {path.name!r}")
    write_whole(path, content)
    return path
