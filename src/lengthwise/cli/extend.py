"""`lengthwise extend RUNS...`: trained models taken past their length by every extension that applies."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from lengthwise.cli.options import Verbose, console
from lengthwise.errors import InvalidArgument
from lengthwise.files import check_file
from lengthwise.lab.extend import Extended, Run, extend_run, find_runs
from lengthwise.lab.extend_store import Measurements
from lengthwise.lab.run import pick_device


def _named(metavar: str) -> object:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


@dataclass(kw_only=True)
class Extend:
    """Take trained models past their length by extensions, without training again."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], _named("RUNS...")]
    """Folders that 'lengthwise compare' filled (runs)."""
    methods: Annotated[tuple[str, ...], _named("SPEC...")] = ()
    """Methods: "yarn(8)" "rerope(64)" (each that applies)."""
    lengths: Annotated[tuple[int, ...], _named("N...")] = ()
    """Lengths to test (those of the runs)."""
    each_length: Annotated[bool, tyro.conf.arg(help_behavior_hint=""), tyro.conf.FlagCreatePairsOff] = False
    """Add rows with settings for each length by itself."""
    device: Annotated[str, _named("NAME")] = "cpu"
    """cpu, cuda, ... (cpu)."""
    report: Annotated[Path, _named("FILE")] = Path("extend.html")
    """The page to write (extend.html)."""
    results: Annotated[Path, _named("FILE")] = Path("extend.json")
    """What was measured; it is not measured again (extend.json)."""
    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Measure, print, write."""
        if self.lengths and min(self.lengths) < 1:
            raise InvalidArgument(f"--lengths are at least 1, not {min(self.lengths)}")
        device = pick_device(self.device)
        runs, unfinished = find_runs(list(self.runs) or [Path("runs")])
        for folder in unfinished:
            print(f"lengthwise: {folder} is not done and left out", file=sys.stderr)
        check_file(self.report)
        check_file(self.results)
        store = Measurements(self.results)
        found: list[Extended] = []
        with _Live(runs) as live:
            for run in runs:
                live.begin(run)
                found.append(
                    extend_run(
                        run,
                        store,
                        specs=tuple(dict.fromkeys(spec.strip() for spec in self.methods)),
                        lengths=self.lengths,
                        each=self.each_length,
                        device=device,
                        on_progress=live.progress,
                    )
                )
                live.end()
        if self.methods and all(len(one.measured) == 1 for one in found):
            reasons = dict.fromkeys(f"{spec}: {reason}" for one in found for spec, reason in one.left_out.items())
            raise InvalidArgument(f"no run can take any of these methods: {'; '.join(reasons)}")
        self._finish(found, shlex.join(["lengthwise", *given]))
        return 0

    def _finish(self, found: Sequence[Extended], command: str) -> None:
        from lengthwise.report.extension import as_rich, panel_as_rich, panels  # here: figures are slow to load
        from lengthwise.report.extension_page import overviews, write_extensions

        shown = panels(found)
        written = write_extensions(shown, self.report, command=command)
        out = console()
        for panel in shown:
            out.print()
            out.print(panel_as_rich(panel))
        for one in overviews(shown):
            out.print(f"\n{one.title}, as it is and by the best method", style="bold")
            out.print(as_rich("encoding", one.columns, one.rows))
        out.print(f"\nreport:  {written.resolve().as_uri()}\nresults: {self.results}", soft_wrap=True)


class _Live:
    """One line that moves on a terminal; one line a run elsewhere."""

    def __init__(self, runs: Sequence[Run]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.out = Console(file=sys.stderr, markup=False, highlight=False)
        self.bar = Progress(
            TextColumn("{task.completed:.0f} of {task.total:.0f} runs", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=self.out,
            transient=True,
            disable=not self.out.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=len(runs))
        self.name = ""

    def __enter__(self) -> _Live:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def begin(self, run: Run) -> None:
        """A run is next."""
        one = run.result.experiment
        self.name = f"{one.task[:24]} {one.encoding} seed {one.seed}"
        self.bar.update(self.task, description=self.name)
        if not self.out.is_terminal:
            self.out.print(self.name, soft_wrap=True)

    def progress(self, label: str) -> None:
        """A method is next."""
        self.bar.update(self.task, description=f"{self.name}: {label}")

    def end(self) -> None:
        """A run is done."""
        self.bar.advance(self.task)
