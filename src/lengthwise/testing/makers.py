"""From a name, a spec or an import path to what makes the encoding."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from torch import nn

from lengthwise.build import build
from lengthwise.dims import Dims
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, LengthwiseError, UnknownName, nearest


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
    """Makes a class of any package, its constructor's arguments filled from the sizes by name.

    Args:
        path: `"package.module:Class"`.
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

    def __call__(self) -> nn.Module:
        """A fresh module."""
        made = self._found()
        values: dict[str, Any] = {}
        for name, parameter in inspect.signature(made).parameters.items():
            if name in vars(self.dims):
                values[name] = vars(self.dims)[name]
            elif parameter.default is parameter.empty and parameter.kind not in (
                parameter.VAR_POSITIONAL,
                parameter.VAR_KEYWORD,
            ):
                raise InvalidArgument(
                    f"{self.path} needs {name!r}, which is no size of a model ({', '.join(vars(self.dims))}): "
                    "give it a default, or call lengthwise.testing.check_encoding with a function"
                )
        try:
            return made(**values)
        except LengthwiseError:
            raise
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise InvalidArgument(f"{self.path} can't be made from {values}: {reason}") from error

    def _found(self) -> Any:
        module, _, name = self.path.partition(":")
        try:
            found: Any = importlib.import_module(module)
        except Exception as error:  # a module of someone else may fail in any way
            reason = f"{type(error).__name__}: {error}"
            raise InvalidArgument(f"can't import {module!r} of {self.path!r}: {reason}") from error
        for part in name.split("."):
            if not hasattr(found, part):
                raise InvalidArgument(f"{module} has no {part!r}: {nearest(part, dir(found))}")
            found = getattr(found, part)
        if not callable(found):
            raise InvalidArgument(f"{self.path} is {found!r}: expected a class, or a function that makes an encoding")
        return found


def maker(target: str, dims: Dims) -> OfSpec | OfPath:
    """What makes `target`: an import path where it has a colon outside brackets, else a name or a spec."""
    if ":" in target.partition("(")[0]:
        return OfPath(target, dims)
    return OfSpec(target, dims)


def registered(dims: Dims) -> list[OfSpec]:
    """What makes each registered encoding; one that sizes alone do not make says an `example` of itself.

    Raises:
        UnknownName: an example that names another encoding.
    """
    specs: list[OfSpec] = []
    for name, made in encodings.items():
        spec = str(getattr(made, "example", name))
        if not spec.startswith(name):
            raise UnknownName(f"the example of {name!r} is {spec!r}: it must build {name!r} itself")
        specs.append(OfSpec(spec, dims))
    return specs
