"""What is wrong in the positional settings of a config: contradictions, missing and unknown keys, values out of range.

The keys are those of `transformers` 5.24 (`rope_parameters`) and 4 (`rope_scaling`), whose own checks only log. Each
check is a function that yields findings; all of them read the config as it was written, before any default is filled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lengthwise.errors import nearest
from lengthwise.hf import families
from lengthwise.hf.rope_checks import CHECKS, KEYS, check_type
from lengthwise.hf.rope_settings import LEVELS, Finding, number_of, ropes, text_part
from lengthwise.hf.sizes import lookup


def check_config(config: Mapping[str, Any]) -> list[Finding]:
    """All findings of a config, errors first; empty for one that agrees with itself."""
    flat = text_part(config)
    found = [*_of_config(flat)]
    for rope in ropes(flat):
        known = rope.kind in KEYS
        found += check_type(rope)
        for check in CHECKS if known else ():
            found += check(rope)
    unique = dict.fromkeys(found)
    return sorted(unique, key=lambda one: LEVELS.index(one.level))


def _of_config(config: Mapping[str, Any]) -> Iterator[Finding]:
    new, old = config.get("rope_parameters"), config.get("rope_scaling")
    # Version 4 has rope_theta beside its dictionary, where version 5 has it inside.
    apart = {key for one in (new, old) for key in (one or ()) if key != "rope_theta"}
    if new and old and any(dict(new).get(key) != dict(old).get(key) for key in apart):
        yield Finding(
            "two-dictionaries",
            "error",
            "rope_parameters and rope_scaling are both given and differ: which is read depends on the version",
            "keep rope_parameters for transformers 5, rope_scaling with rope_theta beside it for 4",
        )
    theta = number_of(config.get("rope_theta"))
    for rope in ropes(config):
        inner = rope.number("rope_theta")
        if theta is not None and inner is not None and inner != theta and not rope.nested:
            yield Finding(
                "two-bases",
                "error",
                f"rope_theta is {theta:g} in the config and {inner:g} in {rope.where}",
                "keep the one that the weights were trained with, in one place",
            )
    for where, value in (
        ("rope_theta", config.get("rope_theta")),
        *((f"{rope.where}.rope_theta", rope.settings.get("rope_theta")) for rope in ropes(config)),
    ):
        number = number_of(value)
        if value is not None and (number is None or number <= 1):
            yield Finding("base-range", "error", f"{where} is {value!r}, and a base is a number above 1", "correct it")
    part = number_of(config.get("partial_rotary_factor"))
    for rope in ropes(config):
        inner = rope.number("partial_rotary_factor")
        if part is not None and inner is not None and part != inner and not rope.nested:
            yield Finding(
                "two-fractions",
                "error",
                f"partial_rotary_factor is {part:g} in the config and {inner:g} in {rope.where}",
                "keep one of them",
            )
    yield from _missing(config)
    yield from _layers(config)


def _missing(config: Mapping[str, Any]) -> Iterator[Finding]:
    kind = config.get("model_type")
    if kind not in families.HALF | families.INTERLEAVED:
        return
    given = [lookup(config, "theta"), *(rope.settings.get("rope_theta") for rope in ropes(config))]
    bases = [name for name in ("global_rope_theta", "local_rope_theta", "rope_local_base_freq") if config.get(name)]
    if not bases and all(one is None for one in given) and kind not in families.FIXED_THETA:
        yield Finding(
            "base-missing",
            "warning",
            f"rope_theta is not given: {families.THETA.get(str(kind), 10000.0):g} is taken, the default of {kind!r}",
            "give the base that the model was trained with",
        )
    if lookup(config, "max_length") is None:
        yield Finding(
            "length-missing",
            "note",
            "max_position_embeddings is not given: nothing says how long the trained sequences were",
            "give it",
        )


def _layers(config: Mapping[str, Any]) -> Iterator[Finding]:
    types, settings = config.get("layer_types"), config.get("rope_parameters")
    if not isinstance(settings, Mapping):
        return
    inner = [key for key, value in settings.items() if isinstance(value, Mapping) or value is None]
    if not any(isinstance(settings[key], Mapping) for key in inner):
        return
    if not types:
        yield Finding(
            "layers-without-types",
            "warning",
            f"rope_parameters has settings for {', '.join(inner)}, and layer_types, which says which layer is which, "
            "is not given",
            "give layer_types, one for each layer",
        )
        return
    for kind in sorted({*types} - {*inner}):
        yield Finding(
            "layer-type-without-settings",
            "error",
            f"layer_types has {kind!r}, and rope_parameters has no settings for it: {nearest(kind, inner)}",
            "add them; null for layers that do not rotate",
        )
    for kind in sorted({*inner} - {*types}):
        yield Finding(
            "settings-without-layer",
            "warning",
            f"rope_parameters has settings for {kind!r}, and no layer is of that type",
            "remove them, or correct layer_types",
        )
