"""`lengthwise show NAME`: one encoding, extension, pattern, task or study; encodings with a picture."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from lengthwise.build import build, build_method
from lengthwise.cli.list import WORDS, summary
from lengthwise.cli.options import Verbose, console, find_modules_here
from lengthwise.compose import PerLayer
from lengthwise.dims import Dims
from lengthwise.encodings.registry import encodings, example
from lengthwise.errors import InvalidArgument, UnknownName, nearest
from lengthwise.extension.extend import applies, extend
from lengthwise.extension.method import Method, changes
from lengthwise.extension.registry import extensions
from lengthwise.patterns import patterns
from lengthwise.sites import CLAIMS, cached_keys, claims, direction, sites
from lengthwise.spec import parse
from lengthwise.studies import Choice, studies
from lengthwise.tasks import SymbolTask, build_task, tasks


@dataclass(kw_only=True)
class Show:
    """Show an encoding, extension, pattern, task or study: formula, source, picture."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
    """A name from `lengthwise list`, a spec such as "rotary(base=500000)", or package.module:Class(size=3) of yours."""
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
        if ":" in self.name.partition("(")[0]:
            find_modules_here()
            self._encoding()
            return 0
        calls = parse(self.name)
        known = [*encodings, *extensions, *patterns, *tasks, *studies]
        for call in calls:
            if call.name not in known:
                raise UnknownName(
                    f"unknown encoding, extension, pattern, task or study {call.name!r}: {nearest(call.name, known)}"
                )
        name = calls[0].name
        if len(calls) > 1 or name in encodings:
            made: list[type[object]] = []
            for place, call in enumerate(calls):
                if call.name in extensions and place > 0:
                    made.append(extensions[call.name])
                elif call.name in encodings:
                    made.append(encodings[call.name])
                else:
                    raise InvalidArgument(
                        f"'+' joins encodings, and extensions behind one; {call.name!r} can't stand there"
                    )
            self._encoding(made)
        elif name in extensions:
            self._extension(name)
        elif name in patterns:
            self._pattern(name)
        elif name in studies:
            self._study()
        else:
            self._task()
        return 0

    def _extension(self, name: str) -> None:
        if self.plot is not None:
            raise InvalidArgument(
                f"{name!r} is an extension: --plot draws an encoding with it, such as "
                f"'rotary + {extensions[name].example}'"
            )
        out = console()
        kind = extensions[name]
        dims = Dims(self.dim, self.heads, max_length=128)
        method = build_method(kind.example if self.name == name else self.name, dims)
        taking = [one for one in encodings if applies(build(example(one), dims), kind)]
        kept = ", ".join(claim.replace("_", " ") for claim in _kept(taking, method, dims))
        out.print(f"{self.name}  ({kind.__module__}.{kind.__name__})", style="bold")
        out.print(f"{summary(kind)}.\n", soft_wrap=True)
        rows = [
            ("formula", kind.formula),
            ("changes", " or ".join(changes(kind))),
            ("parameters", parameters(kind)),
            ("source", kind.paper),
            ("extends", ", ".join(taking) or "none of the registered encodings"),
            ("keeps", kept or "no claim"),
            ("cache", f"keys are kept {method.cached_keys.replace('_', ' ')}"),
            ("example", f"lengthwise show '{taking[0] if taking else 'rotary'} + {kind.example}'"),
        ]
        for title, text in rows:
            out.print(f"{title:<11}{text}", soft_wrap=True)

    def _pattern(self, name: str) -> None:
        if self.plot is not None:
            raise InvalidArgument(f"{name!r} is a pattern of layers: --plot draws the encoding of one")
        out = console()
        made = patterns[name]
        out.print(f"{self.name}  ({made.__module__}.{made.__name__})", style="bold")
        out.print(f"{summary(made)}.\n", soft_wrap=True)
        out.print(f"{'parameters':<11}{parameters(made)}", soft_wrap=True)
        spec = "alternate(rotary, none)" if self.name == "alternate" else self.name  # which has no encodings of its own
        layers = build(spec, Dims(self.dim, self.heads, layers=12, max_length=self.length))
        assert isinstance(layers, PerLayer)
        for layer, encoding in enumerate(layers):
            out.print(f"{f'layer {layer}':<11}{' '.join(repr(encoding).split())}", soft_wrap=True)

    def _encoding(self, made: Sequence[type[object]] = ()) -> None:
        if self.length < 2:
            raise InvalidArgument(f"--length must be at least 2, not {self.length}")
        from lengthwise.report.pictures import as_chart, as_lines, picture  # figures are slow to load
        from lengthwise.report.theme import save
        from lengthwise.testing.makers import maker

        out = console()
        dims = Dims(self.dim, self.heads, max_length=self.length)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # the same picture each time
            encoding = maker(self.name, dims)()
        made = made or [type(encoding)]
        learned = sum(parameter.numel() for parameter in encoding.parameters() if parameter.requires_grad)
        drawn = picture(encoding, dims, self.length)
        if self.plot is not None:
            save(as_chart(drawn, self.name), self.plot)
        out.print(f"{self.name}  ({', '.join(f'{one.__module__}.{one.__name__}' for one in made)})", style="bold")
        for one in made:
            if summary(one):
                out.print(f"{summary(one)}.")
        out.print()
        rows = [
            *(("formula", str(getattr(one, "formula", "not stated"))) for one in made),
            ("acts on", ", ".join(WORDS[site] for site in sites(encoding)) or "nothing"),
            *(("parameters", parameters(one)) for one in made),
            ("trained", f"{learned} numbers at dim {self.dim}, {self.heads} heads"),
            *(("source", str(getattr(one, "paper", "not stated"))) for one in made),
            ("direction", f"{direction(encoding)} attention"),
        ]
        if getattr(encoding, "axes", 1) != 1:
            rows.append(("positions", f"of {getattr(encoding, 'axes', 1)} axes"))
        if cached_keys(encoding) == "none":
            rows.append(("cache", "none: later tokens change earlier keys"))
        elif "rotation" in sites(encoding) or cached_keys(encoding) != "rotated":
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

    def _study(self) -> None:
        if self.plot is not None:
            raise InvalidArgument(f"{self.name!r} is a study: --plot draws encodings; `lengthwise study` writes a page")
        out = console()
        made = studies[self.name]
        study = made(Choice())
        out.print(f"{self.name}  ({made.__module__}.{made.__name__})", style="bold")
        out.print(f"{summary(made)}.\n", soft_wrap=True)
        sizes = f"{len(study.datasets)} datasets, {len(study.arms)} encodings"
        rows = [("trials", f"{len(study.trials)}: {sizes}, each with {Choice().seeds} seeds (--seeds)")]
        rows += [("encoding", f"{arm}: {spec}") for arm, spec in study.arms.items()]
        rows += [
            (
                "dataset",
                f"{one.name}: {one.small}, trained {_ends(one.small_trained)}, tested {_ends(one.small_tested)}; "
                f"as published {one.spec}, {_ends(one.trained)} and {_ends(one.tested)}",
            )
            for one in study.datasets
        ]
        rows.append(("example", f"lengthwise study {self.name} --seeds 1"))
        for name, text in rows:
            out.print(f"{name:<11}{text}", soft_wrap=True)

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
        rows += [
            (
                "dataset",
                f"{one.name} of {one.study}: {one.spec}, trained {_ends(one.trained)}, tested {_ends(one.tested)}",
            )
            for one in getattr(task, "datasets", ())
        ]
        for name, text in rows:
            out.print(f"{name:<11}{text}", soft_wrap=True)
        for prompt, answer in task.examples if isinstance(task, SymbolTask) else ():
            out.print(f"{'example':<11}{prompt}  ->  {answer}", soft_wrap=True)


def _ends(lengths: Sequence[int]) -> str:
    return f"{min(lengths)} to {max(lengths)}"


def _kept(names: Sequence[str], method: Method, dims: Dims) -> list[str]:
    """Claims that every encoding keeps that made them, among those that can take the method with these settings."""
    made: set[str] = set()
    lost: set[str] = set()
    for name in names:
        plain = build(example(name), dims)
        try:
            after = claims(extend(plain, method))
        except InvalidArgument:
            continue
        made |= claims(plain)
        lost |= claims(plain) - after
    return sorted(made - lost)


def parameters(made: Callable[..., object]) -> str:
    """Constructor parameters with their defaults; those that a model's sizes fill in stand alone."""
    shown: list[str] = []
    for parameter in inspect.signature(made).parameters.values():
        has_default = parameter.default is not inspect.Parameter.empty
        shown.append(f"{parameter.name}={parameter.default!r}" if has_default else parameter.name)
    return ", ".join(shown) or "none"
