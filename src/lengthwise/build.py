"""From a spec string to an encoding."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from lengthwise.compose import Combined
from lengthwise.dims import Dims
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, UnknownName, nearest
from lengthwise.extension import Method, extend, extensions
from lengthwise.patterns import patterns
from lengthwise.spec import Call, bind, parse, parse_one


def build(spec: str, dims: Dims) -> nn.Module:
    """Return the encoding that a spec string names, or the one of each layer for a pattern such as `"smollm3"`.

    Constructor parameters that bear the name of a field of `dims` are filled from it, unless the spec gives them; an
    argument that is itself a name or a call is built as an encoding. Right of `+` an encoding joins
    (`lengthwise.Combined`), and a method extends all that is left of it (`lengthwise.extend`).

    Args:
        spec: `"alibi"`, `"rotary(base=500000, layout='interleaved')"`, `"rotary + alibi"`,
            `"rotary + yarn(factor=4)"`.
        dims: sizes of the model.

    Raises:
        SpecError: the spec does not parse, with the place.
        UnknownName: no such encoding, with the nearest names.
        InvalidArgument: an argument that the encoding does not take, or a value that it refuses.

    Example:
        >>> import lengthwise as lw
        >>> lw.build("rotary(base=500000)", lw.Dims(dim=512, heads=8))
        Rotary(head_dim=64, base=500000, fraction=1, layout='half')
    """
    return _sum(parse(spec), dims, outermost=True)


def build_method(spec: str, dims: Dims) -> Method:
    """Return the extension that a spec string names, for example `"yarn(4)"`; `original_length` is filled from `dims`.

    Raises:
        SpecError, UnknownName, InvalidArgument: as `build` does.
    """
    return _method(parse_one(spec), dims)


def _sum(calls: Sequence[Call], dims: Dims, outermost: bool = False) -> nn.Module:
    """What is right of a `+` extends what is left of it, or joins it."""
    whole = _build(calls[0], dims, outermost)
    joined = [whole]
    for call in calls[1:]:
        if call.name in extensions:
            joined = [extend(joined[0] if len(joined) == 1 else Combined(*joined), _method(call, dims))]
        elif call.name in encodings or call.name == "+" or (outermost and call.name in patterns):
            joined.append(_build(call, dims, outermost))
        else:
            names = [*encodings, *extensions]
            raise UnknownName(f"unknown encoding or extension {call.name!r}: {nearest(call.name, names)}")
    return joined[0] if len(joined) == 1 else Combined(*joined)


def _method(call: Call, dims: Dims) -> Method:
    maker = extensions[call.name]
    nested = Call(
        call.name,
        tuple(_method(arg, dims) if isinstance(arg, Call) else arg for arg in call.args),
        {name: _method(arg, dims) if isinstance(arg, Call) else arg for name, arg in call.kwargs.items()},
    )
    values = bind(maker, nested, {"original_length": dims.trained_length, "heads": dims.heads})
    try:
        return maker(**values)
    except TypeError as error:
        raise InvalidArgument(f"{call.name!r} can't be built from {values}: {error}") from error


def _build(call: Call, dims: Dims, outermost: bool = False) -> nn.Module:
    if call.name == "+":
        return _sum([part for part in call.args if isinstance(part, Call)], dims)
    if call.name in extensions and call.name not in encodings:
        raise UnknownName(
            f"{call.name!r} is an extension, which stands right of what it extends: 'rotary + {call.name}(...)'"
        )
    if outermost and call.name not in encodings:
        names = [*encodings, *patterns]
        if call.name not in names:
            raise UnknownName(f"unknown encoding {call.name!r}: {nearest(call.name, names)}")
        maker = patterns[call.name]
    else:
        maker = encodings[call.name]
    nested = Call(
        call.name,
        tuple(_argument(arg, dims) for arg in call.args),
        {name: _argument(arg, dims) for name, arg in call.kwargs.items()},
    )
    values = bind(maker, nested, vars(dims))
    try:
        return maker(**values)
    except (TypeError, RuntimeError) as error:  # wrong kinds of values, or more memory than there is
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"{call.name!r} can't be built from {values}: {reason}") from error


def _argument(argument: object, dims: Dims) -> object:
    if not isinstance(argument, Call):
        return argument
    if argument.name != "+" and argument.name not in encodings and not (argument.args or argument.kwargs):
        hint = f"or quote it, {argument.name!r}, where a string is meant"
        raise UnknownName(
            f"unknown encoding {argument.name!r} as an argument: {nearest(argument.name, encodings)} {hint}"
        )
    return _build(argument, dims)
