"""Settings of the wrong kind, told where they are given, and not by whatever they break later.

What a field of a method may hold is its annotation. A whole number may come as a float that is whole (`4096.0`, as JSON
has it) and a tuple as a list; both are then held as what the annotation says, so that methods can be compared and
hashed. Annotations that say something else, in methods of other packages, are not checked.
"""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Sequence
from numbers import Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lengthwise.errors import InvalidArgument

_LARGEST = 2**63 - 1  # of int64, in which positions are counted
_EXACT = 2**53  # whole numbers up to it are floats too
_WRONG = object()


def check_kinds(method: Any) -> None:
    """Raise `InvalidArgument` for a setting that is not of the kind that its annotation says."""
    if not dataclasses.is_dataclass(method):
        return
    try:
        hints = get_type_hints(type(method))
    except NameError:  # a name that its module has for type checkers alone
        return
    for field in dataclasses.fields(method):
        given, hint = getattr(method, field.name), hints[field.name]
        held = _fitted(given, hint)
        if held is _WRONG:
            raise InvalidArgument(f"{field.name} of {type(method).__name__} must be {_said(hint)}, not {given!r}")
        if held is not given:
            object.__setattr__(method, field.name, held)


def check_finite(method: Any) -> None:
    """Raise `InvalidArgument` for a number that is infinite or none, where the method itself took it."""
    for field in dataclasses.fields(method) if dataclasses.is_dataclass(method) else ():
        value = getattr(method, field.name)
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidArgument(f"{field.name} of {type(method).__name__} must be a finite number, not {value}")


def _fitted(given: Any, hint: Any) -> Any:
    """What was given, as the hint has it, or `_WRONG`."""
    kinds, origin = get_args(hint), get_origin(hint)
    if origin in (Union, types.UnionType):
        fits = (_fitted(given, kind) for kind in kinds)
        return next((one for one in fits if one is not _WRONG), _WRONG)
    if origin is Literal:  # which words are known, the method itself says best
        return given if isinstance(given, str) else _WRONG
    if origin is tuple:
        if not isinstance(given, Sequence) or isinstance(given, str | bytes) or len(given) != len(kinds):
            return _WRONG
        parts = tuple(_fitted(one, kind) for one, kind in zip(given, kinds, strict=True))
        return _WRONG if _WRONG in parts else parts
    if hint is int:
        return _whole(given)
    if hint is float:
        return _number(given)
    if origin is Sequence:
        return given if _holds_all(given, kinds[0]) else _WRONG
    return given if not isinstance(hint, type) or isinstance(given, hint) else _WRONG


def _holds_all(given: Any, kind: Any) -> bool:
    listed = given.tolist() if hasattr(given, "tolist") else given  # an array or a tensor
    if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
        return False
    return all(_fitted(one, kind) is not _WRONG for one in listed)


def _whole(given: Any) -> Any:
    if isinstance(given, bool) or not isinstance(given, Real):
        return _WRONG
    number: Any = given  # numbers.Real says little of what it can do
    if not math.isfinite(number) or number != int(number) or abs(int(number)) > _LARGEST:
        return _WRONG
    return number if type(number) is int else int(number)


def _number(given: Any) -> Any:
    if isinstance(given, bool) or not isinstance(given, Real):
        return _WRONG
    number: Any = given
    if isinstance(number, float) or (type(number) is int and abs(number) <= _EXACT):
        return number
    try:
        return float(number)
    except OverflowError:
        return _WRONG


def _said(hint: Any) -> str:
    kinds, origin = get_args(hint), get_origin(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_said(kind) for kind in kinds))
    if origin is Literal:
        return " or ".join(repr(kind) for kind in kinds)
    if origin is tuple:
        return f"{len(kinds)} of them, each {_said(kinds[0])}"
    if origin is Sequence:
        return f"a sequence, each {_said(kinds[0])}"
    words = {int: "a whole number", float: "a number", bool: "True or False", type(None): "None"}
    return words.get(hint, f"a {getattr(hint, '__name__', hint)}")
