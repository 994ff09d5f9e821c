"""`lengthwise stretch MODEL --to LENGTH`: measure ways to stretch a trained model, and write the best as a model."""

from __future__ import annotations

import json
import logging
import shlex
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from lengthwise.cli.options import Verbose, console
from lengthwise.files import write_whole

if TYPE_CHECKING:
    from lengthwise.hf.stretch import Outcome
    from lengthwise.report.stretch import StretchPage


def _named(metavar: str) -> object:
    return tyro.conf.arg(metavar=metavar, help_behavior_hint="")


@dataclass(kw_only=True)
class Stretch:
    """Measure ways to stretch a trained model on your text, and write the best."""

    model: Annotated[tyro.conf.Positional[Path], _named("MODEL")]
    """Folder of a model, or a .gguf file."""
    to: Annotated[int, _named("LENGTH")]
    """Tokens to stretch to."""
    methods: Annotated[tuple[str, ...], _named("SPEC...")] = ()
    """Methods, parted by ";": "yarn(2); ntk(2)" (ten)."""
    lengths: Annotated[tuple[int, ...], _named("N...")] = ()
    """Ends of the ranges to tell apart (half the trained length, and on to LENGTH)."""
    data: Annotated[tuple[Path, ...], _named("FILE...")] = ()
    """Text to measure on (Python's language reference)."""
    windows: Annotated[int, _named("N")] = 4
    """Texts of LENGTH tokens (4)."""
    keys: Annotated[int, _named("N")] = 16
    """Passkeys hidden in a text; 0 for none (16)."""
    haystacks: Annotated[int, _named("N")] = 1
    """Texts with passkeys at each length (1)."""
    trained: Annotated[int | None, _named("N")] = None
    """Trained length (the config's)."""
    all: Annotated[bool, tyro.conf.arg(help_behavior_hint=""), tyro.conf.FlagCreatePairsOff] = False
    """Measure every method on every window, also those that are clearly worse on the first."""
    out: Annotated[Path | None, _named("FOLDER")] = None
    """For measurements, page and model; what is in it is not measured again (stretch-NAME)."""
    json: Annotated[bool, tyro.conf.arg(help_behavior_hint=""), tyro.conf.FlagCreatePairsOff] = False
    """Print the outcome as JSON."""
    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Measure, print, write."""
        logging.getLogger("transformers").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module=r"transformers|gguf")
        from lengthwise.hf import dims_from_config, encoding_from_config, stretch
        from lengthwise.hf.stretch.candidate import split
        from lengthwise.hf.stretch.source import find, trained_length
        from lengthwise.hf.stretch.text import read_text, windows

        source = find(self.model)
        config = source.config()
        plan = stretch.plan(
            self.trained or trained_length(config),
            self.to,
            self.lengths,
            windows=self.windows,
            keys=self.keys,
            haystacks=self.haystacks,
            race=not self.all,
        )
        specs = split(self.methods) or stretch.defaults(plan.factor, plan.trained)
        candidates = stretch.candidates(
            encoding_from_config(config), specs, replace(dims_from_config(config), trained_length=plan.trained)
        )
        text, named = read_text(self.data)
        tokenizer = source.tokenizer()
        tokens = windows(tokenizer, text, length=plan.target, count=plan.windows)
        out = self.out or Path(f"stretch-{source.name}")
        store = stretch.Store(out)
        with store.locked():
            model = source.model()
            with _Live() as live:
                work = stretch.Stretch(
                    model, tokenizer, source.fingerprint, candidates, tokens, plan, store, live.progress
                )
                outcome = work.run({"model": source.name, "text": named})
            use = ""
            if outcome.written is not None:
                chosen = next(one for one in candidates if one.label == outcome.written)
                folder = stretch.write_model(source, config, chosen, plan.target, out / "model")
                stretch.verify(source, folder, model, chosen, tokens[0])
                use = stretch.loading(source, folder)
            self._finish(outcome, source.name, use, shlex.join(["lengthwise", *given]), out)
        return 0

    def _finish(self, outcome: Outcome, name: str, use: str, command: str, out: Path) -> None:
        from lengthwise.hf.stretch.shown import as_page
        from lengthwise.report.stretch import write_stretch

        page = as_page(outcome, name=name, use=use, command=command)
        written = write_stretch(page, out / "report.html")
        data = outcome.as_dict() | {"load": use}
        write_whole(out / "stretch.json", (json.dumps(data, indent=1) + "\n").encode())
        if self.json:
            print(json.dumps(data, indent=2))
            return
        _print(page)
        console().print(f"\nreport: {written.resolve().as_uri()}", soft_wrap=True)
        if use:
            console().print(f"model:  {out / 'model'}\nload:   {use}", soft_wrap=True)


def _print(page: StretchPage) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    shown = Table(title=page.title, box=SIMPLE_HEAD, pad_edge=False, title_style="bold")
    for number, name in enumerate(page.head):
        if number:
            shown.add_column(name.replace(" ", "\n"), justify="right", no_wrap=True)
        else:
            shown.add_column(name, min_width=16, overflow="fold")
    for row in page.rows:
        shown.add_row(*row)
    out = console()
    out.print(shown)
    out.print(page.verdict, style="bold")
    for note in page.notes:
        out.print(note, style="dim")


class _Live:
    """One line that moves on a terminal; one line a measurement elsewhere."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.out = Console(file=sys.stderr, markup=False, highlight=False)
        self.bar = Progress(
            TextColumn("{task.percentage:3.0f} %", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            TextColumn("{task.description}", markup=False),
            console=self.out,
            transient=True,
            disable=not self.out.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=None)
        self.last = ""

    def __enter__(self) -> _Live:
        self.bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.stop()

    def progress(self, what: str, done: float, left: float) -> None:
        """What is measured now, how much is done, and how much there is in all."""
        self.bar.update(self.task, completed=done, total=max(done, left), description=what or None)
        if what and what != self.last:
            self.last = what
            if not self.out.is_terminal:
                share = done / left if left else 1.0
                self.out.print(f"{share:4.0%} {what}", soft_wrap=True)
