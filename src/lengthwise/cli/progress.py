"""Live progress: one line that moves on a terminal, one line a run elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from types import TracebackType

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.lab.run import Progress as Step
from lengthwise.lab.sweep import Failure
from lengthwise.report.metrics import metric_of


class Live:
    """Shows how far a sweep is, on the error stream.

    Args:
        experiments: all of the sweep.
        device: named in the first line.
    """

    def __init__(self, experiments: Sequence[Experiment], device: torch.device) -> None:
        self.experiments = experiments
        self.out = Console(file=sys.stderr, markup=False, highlight=False)
        self.bar = Progress(
            TextColumn("{task.completed:.0f} of {task.total:.0f} steps", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=self.out,
            transient=True,
            disable=not self.out.is_terminal,
        )
        self.steps = [0] * len(experiments)
        self.finished = 0
        self.started = time.monotonic()
        self.total = sum(one.training.steps for one in experiments)
        self.task = self.bar.add_task("starting", total=self.total)
        self.out.print(f"{len(experiments)} runs on {device}, {self.total} steps in all")

    def __enter__(self) -> Live:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def stopping(self) -> None:
        """Ctrl-C was seen."""
        self.out.print("stopping: every run stores a checkpoint; Ctrl-C again ends them at once", soft_wrap=True)

    def progress(self, index: int, step: Step) -> None:
        """A run has gone on."""
        self.steps[index] = step.step
        one = self.experiments[index]
        what = f"step {step.step} loss {step.loss:.2f}" if step.phase == "train" else "testing"
        description = (
            f"{self.finished}/{len(self.experiments)} runs · {one.task[:20]} {one.encoding[:24]} s{one.seed} {what}"
        )
        self.bar.update(self.task, completed=sum(self.steps), description=description)

    def done(self, index: int, outcome: Result | Failure) -> None:
        """A run has ended."""
        self.finished += 1
        self.steps[index] = self.experiments[index].training.steps
        self.bar.update(self.task, completed=sum(self.steps))
        one = self.experiments[index]
        head = f"[{self.finished:>2}/{len(self.experiments)} {time.monotonic() - self.started:5.0f}s] "
        head += f"{one.task[:24]:<6} {one.encoding:<12} seed {one.seed}  "
        if isinstance(outcome, Failure):
            self.out.print(f"{head}failed: {outcome.message}", soft_wrap=True)
            return
        metric = metric_of(outcome.metric)
        scores = zip(one.test_lengths, outcome.scores[outcome.metric], strict=True)
        shown = ", ".join(f"{metric.text(score)} at {length}" for length, score in scores)
        self.out.print(f"{head}{metric.title.lower()} {shown}  ({outcome.train_seconds:.0f}s)", soft_wrap=True)
