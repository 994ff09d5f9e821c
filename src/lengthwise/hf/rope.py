"""One dictionary of rope settings to an extension method, and back: the schema of `transformers` 4 and 5.

    default         RoPE as it is                linear          Interpolate
    dynamic         DynamicNTK                   yarn            YaRN
    longrope        LongRoPE                     llama3          Llama3
    proportional    Proportional

`transformers` 5.24 logs a warning for a key that it does not know, and goes on without; here that is an error. Three
of its habits are kept, since checkpoints rely on them: `original_max_position_embeddings` beside the dictionary wins
over the one in it (Phi-3); `dynamic` takes its length from `max_position_embeddings`; betas of 0 mean the defaults.
One is a defect and is not kept: it ignores `truncate` in dictionaries that are nested by layer type.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.extension.interpolate import Interpolate
from lengthwise.extension.llama3 import Llama3
from lengthwise.extension.longrope import LongRoPE
from lengthwise.extension.method import Method
from lengthwise.extension.ntk import NTK, DynamicNTK
from lengthwise.extension.proportional import Proportional
from lengthwise.extension.yarn import YaRN


class ConfigNote(UserWarning):
    """Something that a config does not say, with what was taken instead, or what an encoding does not hold."""


def note(text: str) -> None:
    """Warn of what was taken for granted."""
    warnings.warn(text, ConfigNote, stacklevel=4)


@dataclass(frozen=True)
class Lengths:
    """The lengths that stand beside rope settings in a config, None where it has none."""

    longest: int | None = None
    original: int | None = None


class Kind(NamedTuple):
    """The keys of one rope type beside those of all."""

    required: tuple[str, ...]
    optional: tuple[str, ...]
    read: Callable[[Mapping[str, Any], Lengths], Method | None]


_OF_ALL = ("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved")
# Written by some releases and read by no code, or read beside the rotation; see `layers.py`.
_BESIDE = ("finetuned", "llama_4_scaling_beta", "max_position_embeddings", "original_max_position_embeddings")
_SYNONYMS = {"su": "longrope", "mrope": "default"}


def rope_type(settings: Mapping[str, Any]) -> str:
    """The type of a dictionary of rope settings, by its name in `transformers` 5.

    Raises:
        InvalidArgument: an unknown type, or that of a rotation by row and column.
    """
    given = settings.get("rope_type") or settings.get("type") or "default"
    name = _SYNONYMS.get(given, given)
    check_axes(settings)
    if name not in KINDS:
        raise InvalidArgument(f"unknown rope_type {given!r}: {nearest(str(given), KINDS)}")
    return name


def check_axes(settings: Any) -> None:
    """Raise `InvalidArgument` for rope settings of a vision model."""
    if isinstance(settings, Mapping) and settings.get("rope_type") == "axial":
        raise InvalidArgument(
            "rope_type 'axial' is a rotation by row and column, which each vision model has in a way of its own: "
            "see lengthwise.Axial and lengthwise.MRoPE"
        )


def read_method(settings: Mapping[str, Any], lengths: Lengths) -> Method | None:
    """The extension that a dictionary of rope settings asks for, None for RoPE as it is.

    Args:
        settings: flat: of one layer type.
        lengths: of the config around it.

    Raises:
        InvalidArgument: an unknown type or key, or a missing one.

    Example:
        >>> read_method({"rope_type": "linear", "factor": 4.0}, Lengths())
        Interpolate(factor=4.0)
    """
    name = rope_type(settings)
    kind = KINDS[name]
    allowed = (*_OF_ALL, *_BESIDE, *kind.required, *kind.optional)
    for key in settings:
        if key not in allowed:
            raise InvalidArgument(f"unknown key {key!r} in rope settings of type {name!r}: {nearest(key, allowed)}")
    for key in kind.required:
        if settings.get(key) is None:
            raise InvalidArgument(f"rope settings of type {name!r} need {key!r}, and have {dict(settings)}")
    try:
        return kind.read(settings, lengths)
    except InvalidArgument:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(f"rope settings of type {name!r} hold a value of another kind: {error}") from error


def original_length(settings: Mapping[str, Any], lengths: Lengths) -> int:
    """The trained length that rope settings speak of.

    Raises:
        InvalidArgument: there is none.
    """
    found = lengths.original or settings.get("original_max_position_embeddings")
    if found:
        return int(found)
    if lengths.longest is None:
        raise InvalidArgument(
            "these rope settings follow the trained length: the config needs original_max_position_embeddings"
        )
    note(f"original_max_position_embeddings is not given: max_position_embeddings, {lengths.longest}, was taken")
    return lengths.longest


def _factor(settings: Mapping[str, Any], lengths: Lengths, original: int) -> float:
    if settings.get("factor") is not None:
        return float(settings["factor"])
    if lengths.longest is None:
        raise InvalidArgument("rope settings without a factor need max_position_embeddings in the config")
    return lengths.longest / original


def _dynamic(settings: Mapping[str, Any], lengths: Lengths) -> Method:
    if settings.get("alpha") is not None:  # Hunyuan: a base of its own, whatever the length
        return NTK(float(settings["alpha"]))
    if settings.get("factor") is None:
        raise InvalidArgument("rope settings of type 'dynamic' need 'factor', or 'alpha' as Hunyuan has it")
    if lengths.longest is None:
        raise InvalidArgument("rope settings of type 'dynamic' need max_position_embeddings in the config")
    given = settings.get("original_max_position_embeddings")
    if given not in (None, lengths.longest):
        note(
            f"'dynamic' goes by max_position_embeddings, {lengths.longest}; its original_max_position_embeddings, "
            f"{given}, is not used, here as in transformers"
        )
    return DynamicNTK(float(settings["factor"]), lengths.longest)


def _yarn(settings: Mapping[str, Any], lengths: Lengths) -> Method:
    original = original_length(settings, lengths)
    fixed, mscale, mscale_all_dim = (
        None if settings.get(name) is None else float(settings[name])
        for name in ("attention_factor", "mscale", "mscale_all_dim")
    )
    return YaRN(
        _factor(settings, lengths, original),
        original,
        beta_fast=float(settings.get("beta_fast") or 32.0),
        beta_slow=float(settings.get("beta_slow") or 1.0),
        truncate=settings.get("truncate") is not False,
        attention_factor=fixed,
        mscale=mscale,
        mscale_all_dim=mscale_all_dim,
    )


def _longrope(settings: Mapping[str, Any], lengths: Lengths) -> Method:
    original = original_length(settings, lengths)
    fixed = settings.get("attention_factor")
    return LongRoPE(
        settings["short_factor"],
        settings["long_factor"],
        original,
        factor=_factor(settings, lengths, original),
        attention_factor=None if fixed is None else float(fixed),
    )


def _llama3(settings: Mapping[str, Any], lengths: Lengths) -> Method:
    low, high = float(settings["low_freq_factor"]), float(settings["high_freq_factor"])
    return Llama3(float(settings["factor"]), original_length(settings, lengths), low, high)


def _proportional(settings: Mapping[str, Any], lengths: Lengths) -> Method:
    return Proportional(float(settings.get("partial_rotary_factor", 1.0)), float(settings.get("factor") or 1.0))


def _default(settings: Mapping[str, Any], lengths: Lengths) -> None:
    return None


def _linear(settings: Mapping[str, Any], lengths: Lengths) -> Method:
    return Interpolate(float(settings["factor"]))


KINDS: dict[str, Kind] = {
    "default": Kind((), (), _default),
    "linear": Kind(("factor",), (), _linear),
    "dynamic": Kind((), ("factor", "alpha"), _dynamic),
    "yarn": Kind(
        (), ("factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"), _yarn
    ),
    "longrope": Kind(("short_factor", "long_factor"), ("factor", "attention_factor"), _longrope),
    "llama3": Kind(("factor", "low_freq_factor", "high_freq_factor"), (), _llama3),
    "proportional": Kind((), ("factor",), _proportional),
}


def write_method(method: Method | None) -> dict[str, Any]:
    """The rope settings of one method, without base and part of the head.

    Raises:
        InvalidArgument: a method that `transformers` has no rope type for.

    Example:
        >>> write_method(Interpolate(factor=4.0))
        {'rope_type': 'linear', 'factor': 4.0}
    """
    match method:
        case None:
            return {"rope_type": "default"}
        case Interpolate():
            return {"rope_type": "linear", "factor": method.factor}
        case DynamicNTK():
            return {"rope_type": "dynamic", "factor": method.factor}
        case YaRN():
            if method.ramp != "index":
                raise InvalidArgument("the ramp of transformers is in the index of the pair, and this one in rotations")
            made = {
                "rope_type": "yarn",
                "factor": method.factor,
                "original_max_position_embeddings": method.original_length,
                "beta_fast": method.beta_fast,
                "beta_slow": method.beta_slow,
            }
            given = {name: getattr(method, name) for name in ("attention_factor", "mscale", "mscale_all_dim")}
            made |= {name: value for name, value in given.items() if value is not None}
            return made if method.truncate else made | {"truncate": False}
        case LongRoPE():
            if isinstance(method.short_factor, int | float) or isinstance(method.long_factor, int | float):
                raise InvalidArgument("transformers wants a list of divisors, one a pair: give LongRoPE lists of them")
            made = {
                "rope_type": "longrope",
                "short_factor": list(method.short_factor),
                "long_factor": list(method.long_factor),
                "original_max_position_embeddings": method.original_length,
                "factor": method.factor,
                "attention_factor": method.attention_factor,
            }
            return {name: value for name, value in made.items() if value is not None}
        case Llama3():
            return {
                "rope_type": "llama3",
                "factor": method.factor,
                "original_max_position_embeddings": method.original_length,
                "low_freq_factor": method.low_freq_factor,
                "high_freq_factor": method.high_freq_factor,
            }
        case Proportional():
            made = {"rope_type": "proportional", "partial_rotary_factor": method.fraction}
            return made if method.factor == 1 else made | {"factor": method.factor}
        case _:
            raise InvalidArgument(
                f"transformers has no rope type for {type(method).__name__}: it has {', '.join(KINDS)}"
            )
