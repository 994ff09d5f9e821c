"""Which layer rotates how: rope settings for all or by layer type, layers without, and with a base of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.hf.families import ALL_WITHOUT_WINDOW, FULL_EVERY, NO_ATTENTION, SLIDING_ONLY, TWO_BASES
from lengthwise.hf.rope import note
from lengthwise.hf.sizes import Config, head_dim, lookup, need

Settings = dict[str, Any]


@dataclass(frozen=True)
class Layer:
    """What one layer does: rope settings, or None where it does not rotate, and the width of a head."""

    settings: Settings | None
    head_dim: int


def of_layers(config: Config, model_type: str) -> list[Layer]:
    """The layers of a model; one alone stands for all where they are the same.

    Raises:
        InvalidArgument: rope settings that do not fit the layers.
    """
    types = layer_types(config)
    settings = _settings(config, model_type)
    nested = _nested(settings, types)
    widths = _widths(config, types)
    without = _without(config, model_type, types)
    bases: Sequence[float] | None = config.get("layer_rope_theta")
    scaled: Sequence[int] | None = config.get("rope_scaling_layers")
    if not (nested or widths or without or bases or scaled is not None):
        return [Layer(settings, head_dim(config))]
    made: list[Layer] = []
    for index in range(_count(config, types)):
        own = _of_type(settings, types[index] if types else "", config) if nested else dict(settings)
        if own is not None and bases:
            own = own | {"rope_theta": bases[index]} if bases[index] else None
        if own is not None and scaled is not None and index not in scaled:
            own = {key: own[key] for key in ("rope_theta", "partial_rotary_factor") if key in own}
        made.append(Layer(None if index in without else own, widths.get(index) or head_dim(config)))
    return made


def layer_types(config: Config) -> list[str]:
    """The type of each layer, empty where a config tells none apart."""
    given = config.get("layer_types")
    if given:
        return list(given)
    name = str(config.get("model_type"))
    pattern = config.get("sliding_window_pattern") or config.get("global_attn_every_n_layers")
    if pattern is None and name in FULL_EVERY:
        pattern = FULL_EVERY[name]
        note(f"layer_types is not given: full attention in every {pattern}th layer was taken, as its class has it")
    if not isinstance(pattern, int):
        return []
    first = 0 if name.startswith("modernbert") else pattern - 1
    return [
        "full_attention" if index % pattern == first else "sliding_attention" for index in range(need(config, "layers"))
    ]


def _settings(config: Config, model_type: str) -> Settings:
    """Rope settings as `transformers` 5 has them, flat or nested by layer type."""
    given = config.get("rope_parameters")
    if given is not None:
        if not given and lookup(config, "theta") is None:
            raise InvalidArgument("rope_parameters is empty: it needs rope_theta, by layer type where layers differ")
        return dict(given)
    scaling: Settings = dict(config.get("rope_scaling") or {})
    if model_type not in TWO_BASES:
        return scaling
    full = config.get("global_rope_theta") or lookup(config, "theta")
    local = config.get("rope_local_base_freq") or config.get("local_rope_theta")
    same = TWO_BASES[model_type][0] == TWO_BASES[model_type][1]
    bases = full, (full if same else local)
    if None in bases:
        note(f"the bases of {model_type!r} are not all given: {TWO_BASES[model_type]} of its class were taken")
    full, local = (base or known for base, known in zip(bases, TWO_BASES[model_type], strict=True))
    return {"full_attention": scaling | {"rope_theta": full}, "sliding_attention": {"rope_theta": local}}


def _nested(settings: Settings, types: list[str]) -> bool:
    return any(isinstance(value, Mapping) or (value is None and key in types) for key, value in settings.items())


def _of_type(settings: Settings, kind: str, config: Config) -> Settings | None:
    if not kind:
        raise InvalidArgument("rope settings by layer type need layer_types, one for each layer, in the config")
    if kind in settings:
        own = settings[kind]
        return None if own is None else dict(own)
    if kind in NO_ATTENTION:
        return None
    raise InvalidArgument(f"no rope settings for layers of type {kind!r}: {nearest(kind, settings)}")


def _widths(config: Config, types: list[str]) -> dict[int, int]:
    """Heads of another width, by layer (Gemma 4)."""
    found = {
        int(index): int(own["head_dim"])
        for index, own in (config.get("per_layer_config") or {}).items()
        if own.get("head_dim")
    }
    full = config.get("global_head_dim")
    return found or {index: full for index, kind in enumerate(types) if full and kind == "full_attention"}


def _without(config: Config, model_type: str, types: list[str]) -> set[int]:
    """The layers that do not rotate although the settings are for all."""
    if config.get("use_mem_rope") is False or config.get("position_embedding_type", "rope") in (None, "nope"):
        return set(range(_count(config, types)))
    if model_type in ("llama4_text", "smollm3", "mistral_large4_text"):
        return _marked(config, model_type)
    if model_type not in SLIDING_ONLY:
        return set()
    if config.get("sliding_window") is None:
        return set() if model_type in ALL_WITHOUT_WINDOW else set(range(_count(config, types)))
    if not types:
        raise InvalidArgument(f"{model_type!r} rotates in sliding layers only: its config needs layer_types")
    forced = _forced(config) if model_type == "cohere2_moe" else set[int]()
    return {index for index, kind in enumerate(types) if kind != "sliding_attention"} - forced


def _marked(config: Config, model_type: str) -> set[int]:
    marks = config.get("no_rope_layers")
    if marks:
        return {index for index, rotates in enumerate(marks) if not rotates}
    interval = config.get("no_rope_layer_interval")
    if interval is None:
        note(f"{model_type!r} says no no_rope_layers: every 4th layer goes without, as its class has it")
        interval = 4
    return {index for index in range(need(config, "layers")) if (index + 1) % interval == 0}


def _forced(config: Config) -> set[int]:
    """Dense layers of Command A with experts, which rotate whatever their window."""
    if config.get("prefix_dense_sliding_window_pattern") != 1:
        return set()
    return {index for index, kind in enumerate(config.get("mlp_layer_types") or ()) if kind == "dense"}


def _count(config: Config, types: list[str]) -> int:
    return len(types) or int(need(config, "layers"))
