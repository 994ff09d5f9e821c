"""`lengthwise report RUNS...`: the page again, from stored runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from lengthwise.cli.options import Verbose, console
from lengthwise.errors import StorageError
from lengthwise.files import check_file
from lengthwise.lab.result import Result
from lengthwise.lab.store import find_results
from lengthwise.spec import parse_one
from lengthwise.tasks import tasks


@dataclass(kw_only=True)
class Report:
    """Write the report of stored runs: tables here, figures on one page."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUNS...", help_behavior_hint="")]
    """Run folders, or folders that hold them."""
    output: Path = Path("report.html")
    """The page to write."""

    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Read, print, write."""
        places = list(self.runs) or [Path("runs")]
        results, unfinished = find_results(places)
        for folder in unfinished:
            print(f"lengthwise: {folder} is not done and left out", file=sys.stderr)
        if not results:
            raise StorageError(
                f"no run in {', '.join(map(str, places))} is done: finish them with 'lengthwise compare'"
            )
        check_file(self.output)
        write_and_print(results, self.output, command=None)
        return 0


def write_and_print(results: Sequence[Result], path: Path, command: str | None) -> None:
    """Write the page, print the tables, and say where the page is.

    The page comes first, since a reader such as `head` may end this process while it prints; where the page can't be
    written, the tables are still shown.
    """
    try:
        written = write_report(results, path, command)
    finally:
        print_tables(results)
    console().print(f"\nreport: {written.resolve().as_uri()}", soft_wrap=True)


def print_tables(results: Sequence[Result]) -> None:
    """Print the table and the verdict of each comparison."""
    from lengthwise.report.comparison import comparisons  # here and below: figures are slow to load
    from lengthwise.report.tables import as_rich, summary
    from lengthwise.report.verdict import RULE, verdict

    out = console()
    for group in comparisons(results):
        out.print()
        title = f"{group.task}: trained at {group.train_length} {group.length_counts}"
        out.print(as_rich(summary(group), title=f"{title} ({group.setting})" if group.setting else title))
        out.print(verdict(group).text, style="bold")
    out.print(f"\n{RULE}", style="dim")


def write_report(results: Sequence[Result], path: Path, command: str | None) -> Path:
    """Write the page and return its path."""
    from lengthwise.report.page import write_page

    known = {result.experiment.task: parse_one(result.experiment.task).name for result in results}
    summaries = {spec: tasks[name].summary for spec, name in known.items() if name in tasks}
    return write_page(results, path, command=command, summaries=summaries)
