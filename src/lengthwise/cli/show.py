"""`lengthwise show NAME`: one encoding or task, with a picture."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from torch import nn

from lengthwise.build import build
from lengthwise.cli.list import acts_on, summary
from lengthwise.cli.options import Verbose, console
from lengthwise.dims import Dims
from lengthwise.encodings.registry import encodings, example
from lengthwise.errors import InvalidArgument, UnknownName, nearest
from lengthwise.sites import CLAIMS, cached_keys, claims, direction, sites
from lengthwise.spec import parse_one
from lengthwise.tasks import SymbolTask, build_task, tasks


@dataclass(kw_only=True)
class Show:
    """Show one encoding or task: formula, parameters, source, claims, a picture."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
    """A name from `lengthwise list`, or a spec such as "rotary(base=500000)"."""
    plot: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Write the picture to a .png, .svg or .html file instead of drawing it here."""
    length: Annotated[int, tyro.conf.arg(metavar="N")] = 64
    """Positions in the picture."""
    dim: Annotated[int, tyro.conf.arg(metavar="N")] = 64
    """Width of the model."""
    heads: Annotated[int, tyro.conf.arg(metavar="N")] = 4
    """Heads of the model."""

    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Print what is known of it."""
        call = parse_one(self.name)
        if call.name in encodings:
            self._encoding(encodings[call.name])
        elif call.name in tasks:
            self._task()
        else:
            raise UnknownName(f"unknown encoding or task {call.name!r}: {nearest(call.name, [*encodings, *tasks])}")
        return 0

    def _encoding(self, made: type[nn.Module]) -> None:
        if self.length < 2:
            raise InvalidArgument(f"--length must be at least 2, not {self.length}")
        from lengthwise.report.pictures import as_chart, as_lines, picture  # figures are slow to load
        from lengthwise.report.theme import save

        out = console()
        dims = Dims(self.dim, self.heads, max_length=self.length)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same picture each time
            encoding = build(example(self.name) if self.name in encodings else self.name, dims)
        learned = sum(parameter.numel() for parameter in encoding.parameters() if parameter.requires_grad)
        drawn = picture(encoding, dims, self.length)
        if self.plot is not None:
            save(as_chart(drawn, self.name), self.plot)
        title = self.name if self.name == made.__name__ else f"{self.name}  ({made.__module__}.{made.__name__})"
        out.print(title, style="bold")
        out.print(f"{summary(made)}.\n")
        rows = [
            ("formula", str(getattr(made, "formula", "not stated"))),
            ("acts on", acts_on(made)),
            ("parameters", parameters(made)),
            ("trained", f"{learned} numbers at dim {self.dim}, {self.heads} heads"),
            ("source", str(getattr(made, "paper", "not stated"))),
            ("direction", f"{direction(encoding)} attention"),
        ]
        if getattr(encoding, "axes", 1) != 1:
            rows.append(("positions", f"of {getattr(encoding, 'axes', 1)} axes"))
        if "rotation" in sites(encoding):
            rows.append(("cache", f"keys are kept {cached_keys(encoding).replace('_', ' ')}"))
        if learned:
            rows.append(("picture", "first random values, before any training"))
        for name, text in rows:
            out.print(f"{name:<11}{text}", soft_wrap=True)
        made_claims = sorted(claims(encoding))
        for place, claim in enumerate(made_claims or ["none"]):
            out.print(
                f"{'claims' if place == 0 else '':<11}{claim.replace('_', ' ')}: {CLAIMS.get(claim, '')}",
                soft_wrap=True,
            )
        if self.plot is None:
            out.print()
            for line in as_lines(drawn):
                out.print(line, no_wrap=True)
        else:
            out.print(f"\npicture: {self.plot}", soft_wrap=True)

    def _task(self) -> None:
        if self.plot is not None:
            raise InvalidArgument(f"{self.name!r} is a task: --plot draws encodings")
        out = console()
        task = build_task(self.name)
        out.print(f"{self.name}  ({type(task).__module__}.{type(task).__name__})", style="bold")
        out.print(f"{task.summary}\n", soft_wrap=True)
        rows = [
            ("parameters", parameters(type(task))),
            ("length", f"counts {task.length_counts}"),
            ("measured", task.metric.replace("_", " ")),
            ("tokens", f"{len(task.vocabulary)} different ones"),
            ("version", str(task.version)),
        ]
        for name, text in rows:
            out.print(f"{name:<11}{text}", soft_wrap=True)
        for prompt, answer in task.examples if isinstance(task, SymbolTask) else ():
            out.print(f"{'example':<11}{prompt}  ->  {answer}", soft_wrap=True)


def parameters(made: type) -> str:
    """Constructor parameters with their defaults; those that a model's sizes fill in stand alone."""
    shown: list[str] = []
    for parameter in inspect.signature(made).parameters.values():
        has_default = parameter.default is not inspect.Parameter.empty
        shown.append(f"{parameter.name}={parameter.default!r}" if has_default else parameter.name)
    return ", ".join(shown) or "none"
