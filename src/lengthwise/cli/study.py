"""`lengthwise study NAME`: repeat a published study, small or as it was."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import tyro

from lengthwise.cli.options import Verbose, console
from lengthwise.cli.progress import Live
from lengthwise.errors import InvalidArgument, LengthwiseError
from lengthwise.files import check_file, check_folder
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.lab.run import pick_device
from lengthwise.lab.sweep import Failure, sweep
from lengthwise.studies import Choice, Study, studies
from lengthwise.studies.attention import AttentionFiles
from lengthwise.studies.kazemnejad2023 import chosen_datasets
from lengthwise.studies.search import search
from lengthwise.studies.study import ResultFiles


def _names(metavar: str) -> object:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


class _Stopped(Exception):
    """Ctrl-C was pressed; what is done is stored."""


@dataclass(kw_only=True)
class RunStudy:
    """Repeat a published study: train, test, rank, and hold it against what was published.

    Defaults stand in parentheses.
    """

    name: Annotated[tyro.conf.Positional[str], _names("NAME")]
    """A study from `lengthwise list`."""
    scale: Annotated[Literal["small", "medium", "paper"], _names("NAME")] = "small"
    """small: two cores; medium: one GPU; paper: as published (small)."""
    tasks: Annotated[tuple[str, ...], _names("WORD...")] = ()
    """Datasets whose names hold one of these words, or of these tasks (all)."""
    encodings: Annotated[tuple[str, ...], _names("NAME...")] = ()
    """NoPE, T5, ALiBi, Rotary, APE, or specs of others, which are not ranked (the published five)."""
    seeds: Annotated[int, _names("N")] = 3
    """Models of each encoding and dataset (3)."""
    scratchpads: Annotated[tuple[str, ...], _names("FORMAT...")] = ()
    """Six datasets with scratchpads too: minimal, full, "no input", ... or letters of icovr (without)."""
    search: bool = False
    """Find one setting a dataset, on trained lengths alone, and stop."""
    jobs: Annotated[int, _names("N")] = 0
    """Runs side by side, one thread each (one a core)."""
    device: Annotated[str, _names("NAME")] = "auto"
    """cpu, cuda, ... (auto: a GPU where there is one)."""
    runs: Annotated[Path, _names("PATH")] = Path("runs")
    """Folder of runs, with trained models (runs)."""
    results: Annotated[Path | None, _names("PATH")] = None
    """Folder of results, a few KB a trial (results/NAME-SCALE)."""
    report: Annotated[Path, _names("FILE")] = Path("study.html")
    """The page to write (study.html)."""

    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Train what is missing, print, write."""
        make = studies[self.name]
        stored = ResultFiles(self.results or Path("results") / f"{self.name}-{self.scale}")
        choice = Choice(
            self.scale, self.tasks, self.encodings, self.seeds, stored.settings(), scratchpads=self.scratchpads
        )
        pick_device(self.device)
        check_file(self.report)
        study = make(choice)
        known = {} if self.search else stored.read(study.trials)
        left = [trial for trial in study.trials if trial not in known]
        if left:  # a page of stored results needs neither
            for folder in (self.runs, stored.folder):
                check_folder(folder)
        try:
            if self.search:
                return self._search(choice, stored)
            print(f"{len(known)} of {len(study.trials)} trials are done, {len(left)} to run", file=sys.stderr)
            by_experiment = {trial.experiment: trial for trial in left}
            self._sweep(
                [trial.experiment for trial in left],
                lambda result: stored.write(by_experiment[result.experiment], result),
            )
        except _Stopped:
            print(f"lengthwise: stopped; the same command goes on from {stored.folder}", file=sys.stderr)
            return 130
        self._show(study, stored, shlex.join(["lengthwise", *given]))
        return 0

    def _search(self, choice: Choice, stored: ResultFiles) -> int:
        if self.scale != "small":
            raise InvalidArgument("settings are searched for at --scale small; the others are fixed")
        if self.scratchpads:
            raise InvalidArgument("datasets with a scratchpad take the setting of the plain ones: leave them out here")
        again = [one.name for one in chosen_datasets(choice) if one.name in choice.settings]
        if again:
            print(
                f"{stored.folder} has settings of {len(again)} of these datasets already: they are searched for anew, "
                "and trials made with another setting stay there but count no more",
                file=sys.stderr,
            )
        chosen, tried = search(replace(choice, settings={}), lambda experiments: self._sweep(list(experiments)))
        stored.write_search(chosen, tried)
        out = console()
        reached = {(row["dataset"], _setting(row["setting"])): min(row["reached"].values()) for row in tried}
        for name, setting in chosen.items():
            worst = reached.get((name, _setting(setting)))
            told = "not tried: no cheaper one does" if worst is None else f"worst {worst:.3f}"
            out.print(f"{name:<32} {_setting(setting):<40} {told}", highlight=False)
        return 0

    def _sweep(self, experiments: list[Experiment], keep: Callable[[Result], None] | None = None) -> list[Result]:
        """Run experiments; each result is handed on when it is there. Failures are an error at the end."""
        if not experiments:
            return []
        live = Live(experiments, device=pick_device(self.device))

        def done(index: int, outcome: Result | Failure) -> None:
            live.done(index, outcome)
            if keep is not None and isinstance(outcome, Result):
                keep(outcome)

        with live:
            outcome = sweep(
                experiments,
                runs=self.runs,
                jobs=self.jobs,
                device=self.device,
                on_progress=live.progress,
                on_done=done,
                on_stop=live.stopping,
            )
        if outcome.failures:
            first = outcome.failures[0]
            if self.verbose:
                print(first.details, file=sys.stderr)
            raise LengthwiseError(
                f"{len(outcome.failures)} of {len(experiments)} trials failed; first {first.experiment.address}: "
                f"{first.message}"
            )
        if outcome.interrupted and len(outcome.results) < len(experiments):
            raise _Stopped
        return outcome.results

    def _show(self, study: Study, stored: ResultFiles, command: str) -> None:
        from lengthwise.report.study import findings, print_study, write_study_page  # figures are slow to load

        attention = AttentionFiles(stored.folder)
        attention.keep(study, self.runs)
        found = findings(study, stored.read(study.trials), attention.distances(), attention.reach())
        print_study(found, console())
        written = write_study_page(found, self.report, command=command)
        console().print(f"\nreport: {written.resolve().as_uri()}", soft_wrap=True)


def _setting(setting: Mapping[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in setting.items())
