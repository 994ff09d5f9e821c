"""`extend`: from an encoding and a method to an encoding that goes further."""

from __future__ import annotations

import copy

from torch import nn

from lengthwise.compose import Combined, PerLayer
from lengthwise.errors import InvalidArgument
from lengthwise.extension.extended import (
    DistanceExtended,
    Extended,
    PositionsExtended,
    QueriesExtended,
    SpectrumExtended,
    TableExtended,
)
from lengthwise.extension.method import Method
from lengthwise.extension.pairs_extended import PairsExtended
from lengthwise.extension.registry import extensions
from lengthwise.sites import axes, claims, direction, sites


def extend(encoding: nn.Module, method: Method) -> nn.Module:
    """Return a new encoding, the old one extended by a method; the old one is left as it is.

    What an encoding has decides what a method can do to it: `spectrum` and `with_spectrum`, `table` and
    `with_table`, `of_distance`, `rotation`, positions at all. Of several encodings in one (`Combined`, `PerLayer`) the
    method extends each that can take it. A second method acts on the result of the first.

    Args:
        encoding: any encoding.
        method: an extension, such as `lengthwise.YaRN(4, original_length=2048)`.

    Raises:
        InvalidArgument: the encoding can't take the method; the message names those that it can take.

    Example:
        >>> import lengthwise as lw
        >>> lw.extend(lw.Rotary(head_dim=64), lw.Interpolate(factor=4))
        Rotary(head_dim=64, base=10000, fraction=1, layout='half') + Interpolate(factor=4)
    """
    _check_kinds(encoding, method)
    reason = refusal(encoding, type(method), method)
    if reason is not None:
        if not sites(encoding) and not _knows_positions(encoding):
            raise InvalidArgument(
                f"{type(encoding).__name__} is no positional encoding: it has none of the methods of one, such as "
                "rotation(positions) or logit_bias(positions)"
            )
        able = [name for name, kind in extensions.items() if refusal(encoding, kind) is None]
        hint = f"it can take {', '.join(able)}" if able else "it can take none"
        raise InvalidArgument(f"{type(method).__name__} can't extend {_name(encoding)}: {reason}; {hint}")
    return _extended(copy.deepcopy(encoding), method)


def applies(encoding: nn.Module, kind: type[Method]) -> bool:
    """Whether `extend` can apply a method of this kind to an encoding."""
    return refusal(encoding, kind) is None


def refusal(encoding: nn.Module, kind: type[Method], method: Method | None = None) -> str | None:
    """Why a method can't extend an encoding, or None."""
    parts = _parts(encoding, kind)
    if parts is not None:
        reasons = [refusal(part, kind, method) for part in parts]
        return None if None in reasons else "; ".join(dict.fromkeys(reason for reason in reasons if reason))
    found = _way(encoding, kind)
    if isinstance(found, str):
        return found
    if found is SpectrumExtended:
        if getattr(method, "scales_rotation", False) and not hasattr(encoding, "rotation"):
            return "it multiplies cosines and sines, which this encoding adds to embeddings: give it attention_factor=1"
        return _second_spectrum(encoding, kind)
    return _pairs(encoding) if found is PairsExtended else None


def _extended(encoding: nn.Module, method: Method) -> nn.Module:
    if isinstance(encoding, Combined) and not method.whole:
        return Combined(*(_where_it_can(part, method) for part in encoding.parts))
    if isinstance(encoding, PerLayer):
        made = {part: _where_it_can(part, method) for part in encoding.distinct}
        return PerLayer([made[encoding[layer]] for layer in range(len(encoding))])
    way = _way(encoding, type(method))
    if isinstance(way, str):
        raise InvalidArgument(way)
    if way is None:
        return method.transform(encoding)  # pyright: ignore[reportAttributeAccessIssue]
    return way(encoding, method)


def _where_it_can(encoding: nn.Module, method: Method) -> nn.Module:
    return encoding if refusal(encoding, type(method), method) is not None else _extended(encoding, method)


def _parts(encoding: nn.Module, kind: type[Method]) -> list[nn.Module] | None:
    if isinstance(encoding, Combined) and not kind.whole:
        return list(encoding.parts)
    return list(encoding.distinct) if isinstance(encoding, PerLayer) else None


def _way(encoding: nn.Module, kind: type[Method]) -> type[Extended] | str | None:
    """The class that extends `encoding`, None for the method's own `transform`, or why there is none."""
    takes = getattr(kind, "takes", None)
    reason = None if takes is None else takes(encoding)
    if reason is not None:
        return str(reason)
    needs: list[str] = []
    for hook, has, way, need in _WAYS:
        if not hasattr(kind, hook):
            continue
        if all(_has(encoding, one) for one in has) and (sites(encoding) or hook == "scale_queries"):
            return way
        needs.append(need)
    if hasattr(kind, "transform"):
        return None
    return f"it changes {' or '.join(needs)}, and this encoding has none"


_WAYS: tuple[tuple[str, tuple[str, ...], type[Extended], str], ...] = (
    ("map_spectrum", ("spectrum", "with_spectrum"), SpectrumExtended, "the frequencies of a rotation"),
    ("map_table", ("table", "with_table"), TableExtended, "a learned table"),
    ("branches", ("rotation",), PairsExtended, "a rotation"),
    ("map_distance", ("of_distance",), DistanceExtended, "a bias of distance"),
    ("branches", ("of_distance",), PairsExtended, "a bias of distance"),
    ("map_positions", (), PositionsExtended, "positions"),
    ("scale_queries", (), QueriesExtended, "queries"),
)


def _has(encoding: nn.Module, name: str) -> bool:
    # The class first: frequencies that follow the length are there, and refuse to be read without one.
    return hasattr(type(encoding), name) or hasattr(encoding, name)


def _pairs(encoding: nn.Module) -> str | None:
    if isinstance(encoding, QueriesExtended | PairsExtended):
        return f"it moves queries and keys, which {type(encoding.method).__name__} has used: apply it first"
    if hasattr(encoding, "prepare"):
        return "it moves pairs, and this encoding chooses positions or holds several encodings: apply it to them first"
    if axes(encoding) != 1:
        return f"it moves tokens in a row, and this encoding reads {axes(encoding)} axes"
    if direction(encoding) == "bidirectional":
        return "it is made for causal attention, and this encoding is not"
    if hasattr(encoding, "rotation") and "translation_invariant" not in claims(encoding):
        return "it moves tokens to other distances, and this encoding sees more than distances"
    return None


def _second_spectrum(encoding: nn.Module, kind: type[Method]) -> str | None:
    before = [one for one in getattr(encoding, "methods", ()) if hasattr(one, "map_spectrum")]
    for one in before:
        both_plain = one.plain_factor and kind.plain_factor
        if not both_plain and not one.rebases:
            return (
                f"its frequencies were changed by {type(one).__name__}, and two methods in a row are one with the "
                "product of their factors only where both are plain factors"
            )
    return None


def _check_kinds(encoding: object, method: object) -> None:
    # Names, and classes that were not called, are what a user has at hand.
    if not isinstance(encoding, nn.Module):
        raise InvalidArgument(f"extend takes an encoding, which is a torch.nn.Module, not {encoding!r}")
    if not isinstance(method, Method):
        raise InvalidArgument(f"extend takes an extension such as Interpolate(factor=4), not {method!r}")


def _knows_positions(encoding: nn.Module) -> bool:
    # NoPE has none of the methods, and says so by its claims.
    return any(hasattr(encoding, name) for name in ("claims", "prepare", "map_positions"))


def _name(encoding: nn.Module) -> str:
    methods = getattr(encoding, "methods", ())
    base = getattr(encoding, "unextended", encoding)
    return " + ".join([type(base).__name__, *(type(one).__name__ for one in methods)])
