"""From a spec string to an encoding."""

from __future__ import annotations

from torch import nn

from lengthwise.compose import Combined
from lengthwise.dims import Dims
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, UnknownName, nearest
from lengthwise.patterns import patterns
from lengthwise.spec import Call, bind, parse


def build(spec: str, dims: Dims) -> nn.Module:
    """Return the encoding that a spec string names, or the one of each layer for a pattern such as `"smollm3"`.

    Constructor parameters that bear the name of a field of `dims` are filled from it, unless the spec gives them; an
    argument that is itself a name or a call is built as an encoding. `+` joins encodings (`lengthwise.Combined`).

    Args:
        spec: `"alibi"`, `"rotary(base=500000, layout='interleaved')"`, `"rotary + alibi"`.
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
    parts = [_build(call, dims, outermost=True) for call in parse(spec)]
    return parts[0] if len(parts) == 1 else Combined(*parts)


def _build(call: Call, dims: Dims, outermost: bool = False) -> nn.Module:
    if call.name == "+":
        return Combined(*(_build(part, dims) for part in call.args if isinstance(part, Call)))
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
