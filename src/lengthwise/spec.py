"""Spec strings: `"rotary(base=500000, layout='interleaved') + alibi"` to a tree of calls.

The grammar is the part of Python's expressions that names things: a name, a call with literal, keyword
or nested arguments, and `+`. Python's own parser reads it, so quoting and numbers are Python's too.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lengthwise.errors import InvalidArgument, SpecError, nearest


@dataclass(frozen=True)
class Call:
    """One named thing with its arguments; an argument is a literal or another `Call`, a sum the `Call` of "+"."""

    name: str
    args: tuple[object, ...]
    kwargs: Mapping[str, object]


def parse(spec: str) -> list[Call]:
    """Return the calls of `spec`, in the order in which `+` joins them.

    Raises:
        SpecError: the text does not parse; the message shows the place.

    Example:
        >>> parse("rotary(base=500000.0) + yarn(4)")[1]
        Call(name='yarn', args=(4,), kwargs={})
    """
    text = " ".join(spec.split("\n")).strip()  # one line, so that a place in it is one number
    if not text:
        raise SpecError("the spec is empty: give a name such as 'rotary' or 'rotary(base=500000)'")
    try:
        tree = ast.parse(text, mode="eval")
    except (RecursionError, MemoryError):
        raise _at(text, 0, "it is nested too deeply") from None
    except (SyntaxError, ValueError) as error:
        place = error.offset if isinstance(error, SyntaxError) and error.offset else 1
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise _at(text, place - 1, reason) from None
    try:
        return _sum(tree.body, text)
    except RecursionError:
        raise _at(text, 0, "it is nested too deeply") from None


def parse_one(spec: str) -> Call:
    """Return the one call of `spec`; a sum is an error."""
    calls = parse(spec)
    if len(calls) != 1:
        raise SpecError(f"{spec!r} joins {len(calls)} things with '+'; only one is allowed here")
    return calls[0]


def bind(maker: Callable[..., object], call: Call, fill: Mapping[str, object] | None = None) -> dict[str, object]:
    """Match the arguments of `call` to the parameters of `maker`, taking what is missing from `fill`.

    Raises:
        InvalidArgument: an unknown, repeated or missing argument; the message lists the parameters.
    """
    signature = inspect.signature(maker)
    shown = f"{call.name}{signature.replace(return_annotation=inspect.Signature.empty)}"
    variadic = {p.kind: name for name, p in signature.parameters.items() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    named = [name for name in signature.parameters if name not in variadic.values()]
    if inspect.Parameter.VAR_KEYWORD not in variadic:
        for keyword in call.kwargs:
            if keyword not in named:
                hint = nearest(keyword, named) if named else "it has none"
                raise InvalidArgument(f"{call.name!r} has no parameter {keyword!r}: {hint} (it takes {shown})")
    try:
        bound = signature.bind_partial(*call.args, **call.kwargs).arguments
    except TypeError as error:
        raise InvalidArgument(f"{call.name!r}: {error}; it takes {shown}") from None
    if inspect.Parameter.VAR_POSITIONAL in variadic and bound.pop(variadic[inspect.Parameter.VAR_POSITIONAL], ()):
        raise InvalidArgument(f"{call.name!r} takes its extra arguments by name only; it takes {shown}")
    if inspect.Parameter.VAR_KEYWORD in variadic:
        bound.update(bound.pop(variadic[inspect.Parameter.VAR_KEYWORD], {}))
    for name in named:
        if name in bound:
            continue
        if fill is not None and name in fill:
            bound[name] = fill[name]
        elif signature.parameters[name].default is inspect.Parameter.empty:
            raise InvalidArgument(f"{call.name!r} needs {name!r}; it takes {shown}")
    return bound


def _sum(node: ast.expr, text: str) -> list[Call]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _sum(node.left, text) + _sum(node.right, text)
    return [_call(node, text)]


def _call(node: ast.expr, text: str) -> Call:
    if isinstance(node, ast.Name):
        return Call(node.id, (), {})
    if isinstance(node, ast.Constant) and node.value is None:
        return Call("none", (), {})  # a user who writes None means the encoding 'none'
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        kwargs: dict[str, object] = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise _at_node(text, keyword.value, "'**' has no meaning in a spec")
            if keyword.arg in kwargs:
                raise _at_node(text, keyword, f"{keyword.arg!r} is given twice")
            kwargs[keyword.arg] = _argument(keyword.value, text)
        return Call(node.func.id, tuple(_argument(value, text) for value in node.args), kwargs)
    raise _at_node(text, node, "expected a name or a call such as rotary(base=500000)")


def _argument(node: ast.expr, text: str) -> object:
    if isinstance(node, ast.Name | ast.Call):
        return _call(node, text)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return Call("+", tuple(_sum(node, text)), {})
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError):
        raise _at_node(text, node, "expected a number, a quoted string, a list or a name") from None


def _at_node(text: str, node: ast.expr | ast.keyword, reason: str) -> SpecError:
    # Python counts the columns of its nodes in bytes.
    return _at(text, len(text.encode()[: node.col_offset].decode()), reason)


def _at(text: str, column: int, reason: str) -> SpecError:
    # One line, so that a command line can print it as it is: the mark stands before what does not parse.
    column = max(0, min(column, len(text)))
    before, after = text[:column], text[column:]
    before = before if len(before) <= 60 else f"…{before[-60:]}"
    after = after if len(after) <= 60 else f"{after[:60]}…"
    return SpecError(f"the spec does not parse here: {before}»{after} ({reason})")
