"""One self-contained page for any results: it opens from disk, needs no network, and follows light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
import vl_convert

from lengthwise.files import write_whole
from lengthwise.lab.result import Result
from lengthwise.lab.statistics import ENOUGH_SEEDS
from lengthwise.report.colours import styles
from lengthwise.report.comparison import RESAMPLING_SEED, comparisons
from lengthwise.report.sections import Section, duration, section
from lengthwise.report.theme import FONT, theme_config
from lengthwise.report.verdict import RULE

TITLE = "Positional encodings past the trained length"


def write_page(
    results: Sequence[Result],
    path: str | Path,
    *,
    title: str | None = None,
    command: str | None = None,
    summaries: Mapping[str, str] | None = None,
) -> Path:
    """Write the report of `results` as one HTML file and return its path.

    Results of several tasks, settings, lengths and seeds may be mixed: each task and setting gets its own section.
    The same results give the same file.

    Args:
        results: any number, at least one.
        path: of the file; missing folders are made, an older file is replaced whole.
        title: of the page.
        command: the command line that made the results, shown for those who want to repeat them.
        summaries: one line for each task's spec that says what a model has to do, shown at the head of its section.

    Raises:
        InvalidArgument: no results, or results with scores missing.
        StorageError: the file can't be written.
    """
    path = Path(path)
    write_whole(
        path,
        render_page(results, title=title, command=command, summaries=summaries).encode("utf-8", "backslashreplace"),
    )
    return path


def render_page(
    results: Sequence[Result],
    *,
    title: str | None = None,
    command: str | None = None,
    summaries: Mapping[str, str] | None = None,
) -> str:
    """The page of `write_page` as text."""
    groups = comparisons(results)
    look = styles(name for group in groups for name in group.encodings)
    sections = [section(group, look, (summaries or {}).get(group.task, "")) for group in groups]
    folder = files("lengthwise.report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string((folder / "page.html").read_text(encoding="utf-8")).render(
        title=title or TITLE,
        overview=_overview(results, sections),
        sections=sections,
        command=command,
        rule=RULE,
        enough=ENOUGH_SEEDS,
        resampling_seed=RESAMPLING_SEED,
        font=FONT,
        css=(folder / "page.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
        vega=vega(),
        data=json_in_html(_data(sections)),
    )


def vega() -> str:
    """Vega, Vega-Lite and vega-embed as one script that sets `vegaEmbed`."""
    # None asks for the bundle that vl_convert keeps ready; its stubs want a snippet, which costs seconds a page.
    return vl_convert.javascript_bundle(None)  # pyright: ignore[reportArgumentType]


def _overview(results: Sequence[Result], sections: Sequence[Section]) -> str:
    encodings = {result.experiment.encoding for result in results}
    tasks = {part.title for part in sections}
    seconds = sum(result.train_seconds + result.test_seconds for result in results)
    counts = ((len(encodings), "encoding"), (len(tasks), "task"), (len(results), "run"))
    words = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return f"{words}; {duration(seconds)} of computing in all."


def _data(sections: Sequence[Section]) -> dict[str, Any]:
    """What the page's script reads: figures and texts to copy by the id of their element, and the themes."""
    figures = {
        f"figure-{number}-{place}": figure.spec
        for number, part in enumerate(sections, 1)
        for place, figure in enumerate((part.main, *part.others))
    }
    texts: dict[str, str] = {}
    for number, part in enumerate(sections, 1):
        texts |= {f"markdown-{number}": part.table.to_markdown(), f"csv-{number}": part.table.to_csv()}
    # The page has one legend for all figures of a section.
    themes = {name: {**theme_config(name), "legend": {"disable": True}} for name in ("light", "dark")}
    return {"figures": figures, "texts": texts, "themes": themes}


def json_in_html(data: Mapping[str, Any]) -> str:
    """JSON that can't end the script element it stands in, whatever its strings hold."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
