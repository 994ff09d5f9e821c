"""`lengthwise compare`: train the same small model with each encoding, and test it past the trained length."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from lengthwise.cli.options import Verbose
from lengthwise.cli.progress import Live
from lengthwise.cli.report import write_and_print
from lengthwise.errors import InvalidArgument, LengthwiseError
from lengthwise.files import check_file, check_folder
from lengthwise.lab.experiment import Experiment, Training
from lengthwise.lab.run import check, pick_device, pinned
from lengthwise.lab.sweep import sweep
from lengthwise.models.config import ModelConfig
from lengthwise.tasks import Task, build_task

ENCODINGS = ("none", "learned", "sinusoidal", "t5", "alibi", "rotary")
# Measured so that the defaults end within five minutes on two cores, and still tell the encodings apart (docs/log.md).
SYMBOLS = Training(steps=1200, batch=32, learning_rate=3e-3)
TEXT = Training(steps=600, batch=8, learning_rate=3e-3)


def _once(specs: Sequence[str]) -> list[str]:
    """Each spec once, in the order given."""
    return list(dict.fromkeys(spec.strip() for spec in specs))


def _names(metavar: str) -> object:
    # The help texts say their defaults in words: tyro's hint would say None or 0.
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


@dataclass(kw_only=True)
class Compare:
    """Train one small model with each encoding; test it past the trained length.

    Defaults stand in parentheses.
    """

    encodings: Annotated[tuple[str, ...], _names("NAME...")] = ENCODINGS
    """Names or specs: "rotary(base=500000)" (six kinds)."""
    tasks: Annotated[tuple[str, ...], _names("NAME...")] = ("text", "sort(symbols=8)")
    """Names or specs: (text "sort(symbols=8)")."""
    data: Annotated[tuple[Path, ...], _names("PATH...")] = ()
    """Text to read: files, folders (Python's library)."""
    train_length: Annotated[int | None, _names("N")] = None
    """Longest in training (text 128 bytes, else 10)."""
    test_lengths: Annotated[tuple[int, ...], _names("N...")] = ()
    """Lengths to test (text up to 8 times, else 4)."""
    seeds: Annotated[int, _names("N")] = 2
    """Models of each encoding, a seed each (2)."""
    steps: Annotated[int | None, _names("N")] = None
    """Updates in training (text 600, else 1200)."""
    batch: Annotated[int | None, _names("N")] = None
    """Sequences in an update (text 8, else 32)."""
    learning_rate: Annotated[float | None, _names("RATE")] = None
    """At its highest (0.003)."""
    dim: Annotated[int, _names("N")] = 64
    """Width of the model (64)."""
    layers: Annotated[int, _names("N")] = 2
    """Layers of the model (2)."""
    heads: Annotated[int, _names("N")] = 4
    """Heads of the model (4)."""
    jobs: Annotated[int, _names("N")] = 0
    """Runs side by side, one thread each (one a core)."""
    device: Annotated[str, _names("NAME")] = "auto"
    """cpu, cuda, ... (auto: a GPU where there is one)."""
    runs: Annotated[Path, _names("PATH")] = Path("runs")
    """Folder of runs; those in it are kept (runs)."""
    report: Annotated[Path, _names("FILE")] = Path("report.html")
    """The page to write (report.html)."""
    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Train, test, print, write."""
        experiments = self.experiments()
        device = pick_device(self.device)
        check_folder(self.runs)
        check_file(self.report)
        live = Live(experiments, device=device)
        with live:
            outcome = sweep(
                experiments,
                runs=self.runs,
                jobs=self.jobs,
                device=self.device,
                on_progress=live.progress,
                on_done=live.done,
                on_stop=live.stopping,
            )
        left = len(experiments) - len(outcome.results) - len(outcome.failures)
        if outcome.interrupted and left:  # a page takes seconds, and whoever stops wants to be gone
            print(
                f"lengthwise: stopped with {left} of {len(experiments)} runs not done; the same command goes on from "
                f"here, and 'lengthwise report {shlex.quote(str(self.runs))}' shows what is done",
                file=sys.stderr,
            )
            return 130
        if outcome.results:
            write_and_print(outcome.results, self.report, command=shlex.join(["lengthwise", *given]))
        if outcome.failures:
            if self.verbose:
                print(outcome.failures[0].details, file=sys.stderr)
            first = outcome.failures[0]
            raise LengthwiseError(
                f"{len(outcome.failures)} of {len(experiments)} runs failed; first {first.experiment.address}: "
                f"{first.message}"
            )
        return 0

    def experiments(self) -> list[Experiment]:
        """All that is to be run, checked: encodings by turns, so that a broken-off sweep has some of each."""
        if not self.encodings or not self.tasks:
            raise InvalidArgument("name at least one encoding and one task; 'lengthwise list' shows them")
        for name, value, least in (("seeds", self.seeds, 1), ("jobs", self.jobs, 0)):
            if value < least:
                raise InvalidArgument(f"--{name} must be at least {least}, not {value}")
        if self.data and "text" not in _once(self.tasks):
            raise InvalidArgument("--data is read by the task text: add it to --tasks")
        found: list[Experiment] = []
        for spec in _once(self.tasks):
            if self.data and spec == "text":
                spec = self._text()
            task = build_task(spec)
            for seed in range(self.seeds):
                for encoding in _once(self.encodings):
                    found.append(pinned(self._experiment(encoding, spec, task, seed), task))
                    if seed == 0:
                        check(found[-1], task)
        return found

    def _text(self) -> str:
        """The spec of the user's text, without what this command itself writes into its folders."""
        paths = [path.resolve() for path in self.data]
        written = [path.resolve() for path in (self.runs, self.report)]
        inside = [str(path) for path in written if any(path.is_relative_to(folder) for folder in paths)]
        left_out = f", leave_out={inside!r}" if inside else ""
        return f"text(paths={[str(path) for path in paths]!r}{left_out})"

    def _experiment(self, encoding: str, spec: str, task: Task, seed: int) -> Experiment:
        text = task.metric == "bits_per_byte"
        length = (128 if text else 10) if self.train_length is None else self.train_length
        ratios = (1.0, 1.5, 2.0, 4.0, 8.0) if text else (1.0, 1.2, 1.5, 2.0, 3.0, 4.0)
        tests = tuple(sorted(set(self.test_lengths or (round(length * ratio) for ratio in ratios))))
        training = TEXT if text else SYMBOLS
        changes = {"steps": self.steps, "batch": self.batch, "learning_rate": self.learning_rate}
        return Experiment(
            encoding=encoding,
            task=spec,
            train_length=length,
            test_lengths=tests,
            seed=seed,
            model=ModelConfig(dim=self.dim, layers=self.layers, heads=self.heads),
            training=replace(training, **{name: value for name, value in changes.items() if value is not None}),
            test_examples=64 if text else 256,
        )
