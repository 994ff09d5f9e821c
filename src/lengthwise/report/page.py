"""One self-contained page for any results: it opens from disk, needs no network, and follows light and dark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lengthwise.files import write_whole
from lengthwise.lab.result import Result
from lengthwise.lab.statistics import ENOUGH_SEEDS
from lengthwise.report.colours import styles
from lengthwise.report.comparison import RESAMPLING_SEED, comparisons
from lengthwise.report.frame import render
from lengthwise.report.sections import Section, duration, section
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
    return render(
        "page.html",
        title=title or TITLE,
        overview=_overview(results, sections),
        figures=_figures(sections),
        texts=_texts(sections),
        sections=sections,
        command=command,
        rule=RULE,
        enough=ENOUGH_SEEDS,
        resampling_seed=RESAMPLING_SEED,
    )


def _overview(results: Sequence[Result], sections: Sequence[Section]) -> str:
    encodings = {result.experiment.encoding for result in results}
    tasks = {part.title for part in sections}
    seconds = sum(result.train_seconds + result.test_seconds for result in results)
    counts = ((len(encodings), "encoding"), (len(tasks), "task"), (len(results), "run"))
    words = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    return f"{words}; {duration(seconds)} of computing in all."


def _figures(sections: Sequence[Section]) -> dict[str, Any]:
    """Figures by the id of their element."""
    return {
        f"figure-{number}-{place}": figure.spec
        for number, part in enumerate(sections, 1)
        for place, figure in enumerate((part.main, *part.others))
    }


def _texts(sections: Sequence[Section]) -> dict[str, str]:
    """Tables to copy."""
    texts: dict[str, str] = {}
    for number, part in enumerate(sections, 1):
        texts |= {f"markdown-{number}": part.table.to_markdown(), f"csv-{number}": part.table.to_csv()}
    return texts
