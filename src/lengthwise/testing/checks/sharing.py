"""Modules of one class with other settings share nothing. It runs first: a table that is large already hides faults."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lengthwise.positions import Positions
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import output
from lengthwise.testing.verdict import Broken, NotApplicable, agree, same

_MOST = 5
"""Settings that are doubled."""
_SILENT = ("dropout", "eps", "init", "std", "decay", "momentum")
"""Settings with these in their names may change nothing that an encoding gives; nor may those of first values."""


@dataclass(frozen=True)
class _Twin:
    """One changed setting: its name, what makes the twin, and whether parameters begin as they do without it."""

    setting: str
    make: Callable[[], nn.Module]
    same_start: bool


@check(
    "modules with other settings share nothing, and give other numbers",
    cause="a global table keyed without all that decides it",
)
def nothing_shared(subject: Subject) -> None:
    """Twins with one setting doubled: each and the module itself run first once, at lengths that grow."""
    twins = list(_twins(subject))[:_MOST]
    if not twins:
        raise NotApplicable("it has no numeric setting to change")
    if subject.fits(21 + 16 * len(twins)) < 21 + 16 * len(twins):
        raise NotApplicable("its table is too short")
    with torch.no_grad():
        for number, twin in enumerate(twins):
            makes = {f"a twin with another {twin.setting}": twin.make, "the module itself": subject.build}
            start = 15 + 16 * number
            _take_turns(subject, makes, start)
            _take_turns(subject, dict(reversed(makes.items())), start + 8)
        quiet: list[str] = []
        prefix = subject.causal and _prefix(subject)
        for number, twin in enumerate(twins):
            if prefix:
                length = 21 + 16 * number
                for make in (twin.make, subject.build):
                    one, longer = (_run(subject, make, count) for count in (length, length + 2))
                    what = f"{length} tokens against {length + 2}, while a twin with another {twin.setting} is about"
                    agree(one, longer[:, :, :length], output(torch.float32, length), what)
            probe, positions = Probe(subject, twin.make()), subject.sequence(21)
            x = probe.inputs(1, 21)
            what = f"a twin with another {twin.setting}, against itself without the promise that positions are aligned"
            agree(probe(x, positions), probe(x, subject.rows(positions, 1)), output(torch.float32, 21), what)
            silent = any(word in twin.setting for word in _SILENT) or not twin.same_start
            if not silent and not _differ(subject, twin.make):
                quiet.append(twin.setting)
    if quiet:
        raise Broken(f"twins with another {', another '.join(quiet)} give the same numbers as the module itself")


def _take_turns(subject: Subject, makes: Mapping[str, Callable[[], nn.Module]], length: int) -> None:
    """The first makes what it needs, the second as much and more, then a fresh one of the first is asked again."""
    (name, first), (other, second) = makes.items()
    before = _run(subject, first, length)
    short, longer = (_run(subject, second, count) for count in (length, length + 6))
    same(_run(subject, first, length), before, f"{name}, after {other} ran at {length + 6} tokens")
    if subject.causal and _prefix(subject):
        allowed = output(torch.float32, length)
        agree(short, longer[:, :, :length], allowed, f"{other}, {length} tokens after {name}, against {length + 6}")


def _run(subject: Subject, make: Callable[[], nn.Module], length: int) -> Tensor:
    probe = Probe(subject, make())
    return probe(probe.inputs(1, length), subject.sequence(length))


def _differ(subject: Subject, twin: Callable[[], nn.Module]) -> bool:
    """Whether a setting shows: near or far, in either direction, or in training."""
    length = subject.fits(24)
    asked: list[tuple[Positions, bool]] = [(subject.sequence(length, causal=causal), False) for causal in subject.ways]
    asked += [(subject.window(subject.far(length), length), False), (subject.sequence(length), True)]
    for positions, training in asked:
        outs: list[Tensor] = []
        for make in (twin, subject.build):
            probe, generator = Probe(subject, make()), torch.Generator().manual_seed(9)
            outs.append(probe(probe.inputs(1, length), positions, generator=generator, training=training))
        if not torch.equal(*outs):
            return True
    return False


def _twins(subject: Subject) -> Iterator[_Twin]:
    """Makers of modules of the same class and state with one numeric setting doubled, as far as they can be made."""
    one = subject.build()
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(subject.type).parameters
    except (TypeError, ValueError):
        return
    if not all(hasattr(one, name) for name in parameters):
        parameters = {name: part for name, part in parameters.items() if hasattr(one, name) or _needed(part)}
    if not all(hasattr(one, name) for name in parameters):
        return
    values = {name: getattr(one, name) for name in parameters}
    for name, value in values.items():
        if not isinstance(value, float) or not value:
            continue

        def make(changed: Mapping[str, object] = values | {name: value * 2}) -> nn.Module:
            twin = _seeded(subject.type, changed)
            if _shapes(twin) == _shapes(one):
                twin.load_state_dict(one.state_dict())
            return twin

        try:
            own, twins = _seeded(subject.type, values).state_dict(), _seeded(subject.type, values | {name: value * 2})
        except (TypeError, ValueError, RuntimeError):
            continue
        same_start = _shapes(twins) == _shapes(one) and all(
            torch.equal(part, own[key]) for key, part in twins.state_dict().items()
        )
        yield _Twin(name, make, same_start)


def _seeded(made: Callable[..., nn.Module], values: Mapping[str, object]) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return made(**values)


def _shapes(module: nn.Module) -> dict[str, torch.Size]:
    return {name: part.shape for name, part in module.state_dict().items()}


def _needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is inspect.Parameter.empty


def _prefix(subject: Subject) -> bool:
    """Whether rows of a causal pass are those of a shorter one."""
    part, whole = (_run(subject, subject.build, length) for length in (11, 13))
    return torch.allclose(part, whole[:, :, :11], atol=1e-4)
