"""From a name, a spec or an import path to what makes the encoding."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torch import nn

from lengthwise.build import build
from lengthwise.compose import PerLayer
from lengthwise.dims import Dims
from lengthwise.encodings.registry import encodings, example
from lengthwise.errors import InvalidArgument, LengthwiseError, UnknownName, nearest
from lengthwise.spec import Call, bind, parse_one


@dataclass(frozen=True)
class OfSpec:
    """Makes what a spec says.

    Args:
        spec: `"rotary(base=500000)"`.
        dims: sizes of the model.
    """

    spec: str
    dims: Dims

    @property
    def label(self) -> str:
        """What it is called in reports."""
        return self.spec

    def __call__(self) -> nn.Module:
        """A fresh module."""
        return build(self.spec, self.dims)


@dataclass(frozen=True)
class OfPath:
    """Makes a class of any package; arguments of its constructor that are not given are filled from the sizes by name.

    Args:
        path: `"package.module:Class"`, or `"package.module:Class(trained=5)"`.
        dims: sizes of the model.

    Raises:
        InvalidArgument: nothing there, or a parameter that no size fills.
    """

    path: str
    dims: Dims

    @property
    def label(self) -> str:
        """What it is called in reports."""
        return self.path

    def __call__(self) -> Any:
        """A fresh module."""
        where, bracket, rest = self.path.partition("(")
        made = self._found(where)
        call = parse_one(f"{where.rpartition(':')[2].rpartition('.')[2]}{bracket}{rest}") if bracket else None
        call = call or Call(where, (), {})
        given = [*inspect.signature(made).parameters][: len(call.args)] + list(call.kwargs)
        for name, parameter in inspect.signature(made).parameters.items():
            optional = parameter.default is not parameter.empty or parameter.kind in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            )
            if not optional and name not in given and name not in vars(self.dims):
                raise InvalidArgument(
                    f"{self.path} needs {name!r}, which is no size of a model ({', '.join(vars(self.dims))}): "
                    f"say it, {where}({name}=...), give it a default, or call lengthwise.testing.check_encoding with "
                    "a function"
                )
        arguments = (tuple(map(self._argument, call.args)), {k: self._argument(v) for k, v in call.kwargs.items()})
        values = bind(made, Call(call.name, *arguments), vars(self.dims))
        try:
            return made(**values)
        except LengthwiseError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise InvalidArgument(f"{self.path} can't be made from {values}: {reason}") from error

    def _argument(self, argument: object) -> object:
        return build(_text(argument), self.dims) if isinstance(argument, Call) else argument

    def _found(self, where: str) -> Any:
        module, _, name = where.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except Exception as error:  # a module of someone else may fail in any way
            reason = f"{type(error).__name__}: {error}"
            raise InvalidArgument(f"can't import {module!r} of {where!r}: {reason}") from error
        for part in name.split("."):
            if not hasattr(found, part):
                choices = [name for name in dir(found) if _can_make(name, getattr(found, name))]
                raise InvalidArgument(f"{module} has no {part!r}: {nearest(part, choices)}")
            found = getattr(found, part)
        if not callable(found):
            raise InvalidArgument(f"{where} is {found!r}: expected a class, or a function that makes an encoding")
        return found


@dataclass(frozen=True)
class OfLayer:
    """Makes one of the encodings that another maker's `PerLayer` holds.

    Args:
        whole: makes the `PerLayer`.
        place: which of its distinct encodings.
        layers: where it stands.
    """

    whole: OfSpec | OfPath
    place: int
    layers: Sequence[int]

    @property
    def label(self) -> str:
        """What it is called in reports."""
        which = ", ".join(map(str, self.layers))
        return f"{self.whole.label}, layer{'s' if len(self.layers) > 1 else ''} {which}"

    def __call__(self) -> nn.Module:
        """A fresh module."""
        made = self.whole()
        assert isinstance(made, PerLayer)
        return made.distinct[self.place]


def maker(target: str, dims: Dims) -> OfSpec | OfPath:
    """What makes `target`: an import path where it has a colon outside brackets, else a name or a spec.

    A name that sizes alone do not make stands for its example.
    """
    if ":" in target.partition("(")[0]:
        return OfPath(target, dims)
    return OfSpec(example(target) if target in encodings else target, dims)


def makers(target: str, dims: Dims) -> list[OfSpec | OfPath | OfLayer]:
    """What makes `target`, or each different encoding of it where it has one for each layer."""
    make = maker(target, dims)
    made = make()
    if not isinstance(made, PerLayer):
        return [make]
    places = range(len(made.distinct))
    return [OfLayer(make, place, [at for at, of in enumerate(made.of_layer) if of == place]) for place in places]


def registered(dims: Dims, *, others: bool = True) -> list[OfSpec]:
    """What makes each registered encoding; one that sizes alone do not make says an `example` of itself.

    Args:
        dims: sizes of the model.
        others: also those that other packages added.

    Raises:
        UnknownName: an example that names another encoding.
    """
    specs: list[OfSpec] = []
    for name, made in encodings.items():
        if name in encodings.others and not others:
            continue
        spec = str(getattr(made, "example", name))
        if not spec.startswith(name):
            raise UnknownName(f"the example of {name!r} is {spec!r}: it must build {name!r} itself")
        specs.append(OfSpec(spec, dims))
    return specs


def _text(argument: object) -> str:
    """A call as a spec."""
    if not isinstance(argument, Call):
        return repr(argument)
    parts = [*map(_text, argument.args), *(f"{name}={_text(value)}" for name, value in argument.kwargs.items())]
    return f"{argument.name}({', '.join(parts)})"


def _can_make(name: str, thing: object) -> bool:
    return not name.startswith("_") and callable(thing) and not isinstance(thing, ModuleType)
