"""One small registry for encodings, extensions, tasks and attention backends.

A name is registered by a decorator in the file that defines the thing, or by another package through
a Python entry point of the registry's group; entry points are read when a name is first asked for
that the package itself does not have, or when everything is listed. One that can't be loaded is told when it is
asked for, and stops nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from importlib.metadata import entry_points
from types import ModuleType
from typing import Generic, TypeVar, cast

from lengthwise.errors import InvalidArgument, LengthwiseError, UnknownName, nearest

T = TypeVar("T")
S = TypeVar("S")


class Registry(Generic[T]):
    """Names to things of one kind.

    Args:
        kind: what one thing is called in messages, for example `"encoding"`.
        group: entry-point group through which other packages add theirs, for example
            `"lengthwise.encodings"`.
    """

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = group
        self._things: dict[str, T] = {}
        self._broken: dict[str, LengthwiseError] = {}
        self._others: set[str] = set()
        self._entry_points_read = False

    def register(self, name: str) -> Callable[[S], S]:
        """Return a decorator that registers under `name`; a name taken by another thing is an error."""

        def decorate(thing: S) -> S:  # a type of its own: type checkers see the very class that was registered
            taken = self._things.get(name)
            if taken is not None and taken is not thing:
                raise InvalidArgument(
                    f"the {self.kind} name {name!r} is taken by {taken!r}; register {thing!r} under another name"
                )
            self._things[name] = cast("T", thing)
            return thing

        return decorate

    def __getitem__(self, name: str) -> T:
        if name not in self._things:
            self._read_entry_points()
        if name not in self._things and name in self._broken:
            raise self._broken[name]
        if name not in self._things:
            raise UnknownName(f"unknown {self.kind} {name!r}: {nearest(name, self._things)}")
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._things:
            self._read_entry_points()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        self._read_entry_points()
        return iter(sorted(self._things))

    def __len__(self) -> int:
        self._read_entry_points()
        return len(self._things)

    def items(self) -> list[tuple[str, T]]:
        """All names with their things, sorted by name."""
        return [(name, self._things[name]) for name in self]

    def own_items(self) -> list[tuple[str, T]]:
        """The names registered so far, sorted, without asking other packages for theirs."""
        return sorted(self._things.items(), key=lambda item: item[0])

    def name_of(self, thing: T) -> str:
        """The name that `thing` is registered under."""
        for name, candidate in self.items():
            if candidate is thing:
                return name
        raise UnknownName(f"{thing!r} is not a registered {self.kind}")

    @property
    def others(self) -> Set[str]:
        """Names that other packages added through entry points."""
        self._read_entry_points()
        return self._others

    @property
    def broken(self) -> Mapping[str, LengthwiseError]:
        """Entry points of other packages that could not be loaded, by name; the rest works without them."""
        self._read_entry_points()
        return self._broken

    def _read_entry_points(self) -> None:
        if self._entry_points_read:
            return
        self._entry_points_read = True  # first, since what is loaded may ask for a name itself
        for point in entry_points(group=self.group):
            before = set(self._things)
            try:
                if not point.name.isidentifier():
                    raise InvalidArgument("a name has to be one that a spec can hold: letters, digits and _")
                thing = point.load()
                if not isinstance(thing, ModuleType):  # a module registers its own things as it is loaded
                    self.register(point.name)(thing)
            except Exception as error:  # whatever another package does, it is told under its name, when it is asked for
                package = point.dist.name if point.dist is not None else "another package"
                told = LengthwiseError(
                    f"the {self.kind} {point.name!r} of the package {package!r} could not be loaded "
                    f"from {point.value!r}: {type(error).__name__}: {error}"
                )
                told.__cause__ = error
                self._broken[point.name] = told
            self._others |= self._things.keys() - before
