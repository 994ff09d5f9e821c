"""What every page has: its head, theme, figures and script, in one file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import jinja2
import vl_convert

from lengthwise.report.theme import FONT, theme_config


def render(
    name: str,
    *,
    title: str,
    overview: str,
    figures: Mapping[str, Any],
    texts: Mapping[str, str] | None = None,
    changes: Mapping[str, Any] | None = None,
    **values: Any,
) -> str:
    """A page from its template.

    Args:
        name: the template, a file of this package that extends `frame.html`.
        title: of the page.
        overview: the line below it.
        figures: Vega-Lite specs by the id of the element that shows them.
        texts: what buttons copy, by the name that they ask for.
        changes: of the `config` of both themes; a legend outside of the figures where None.
        values: what the template asks for.
    """
    folder = files("lengthwise.report")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(lambda one: (folder / one).read_text(encoding="utf-8")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    hidden = {"legend": {"disable": True}} if changes is None else changes
    themes = {theme: {**theme_config(theme), **hidden} for theme in ("light", "dark")}
    return environment.get_template(name).render(
        title=title,
        overview=overview,
        font=FONT,
        css=(folder / "page.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
        # None asks for the bundle that vl_convert keeps ready; its stubs want a snippet, which costs seconds a page.
        vega=vl_convert.javascript_bundle(None),  # pyright: ignore[reportArgumentType]
        data=_json_in_html({"figures": figures, "texts": texts or {}, "themes": themes}),
        **values,
    )


def _json_in_html(data: Mapping[str, Any]) -> str:
    """JSON that can't end the script element it stands in, whatever its strings hold."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
