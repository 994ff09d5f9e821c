"""One dictionary of rope settings as it was written, and what an audit says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LEVELS = ("error", "warning", "note")
SYNONYMS = {"su": "longrope", "mrope": "default"}


@dataclass(frozen=True)
class Finding:
    """One thing that an audit found.

    Args:
        code: short name that stays the same between releases.
        level: `"error"`: what runs is not what is meant, or nothing runs; `"warning"`: probably so; `"note"`: to know.
        message: what is there.
        advice: what to do.
    """

    code: str
    level: str
    message: str
    advice: str


@dataclass(frozen=True)
class Rope:
    """One dictionary of rope settings, and what stands beside it.

    Args:
        where: its name in the config.
        settings: the dictionary itself.
        kind: its rope type, or what was written in its place.
        longest, original: lengths beside it, None where there are none.
        pairs: how many pairs of dims are rotated, None where the config does not say.
        nested: whether there is one for each kind of layer.
    """

    where: str
    settings: Mapping[str, Any]
    kind: str
    longest: float | None
    original: float | None
    pairs: int | None
    nested: bool

    def number(self, key: str) -> float | None:
        """A setting as a number, None where it is none."""
        return number_of(self.settings.get(key))

    @property
    def starts_at(self) -> float | None:
        """The trained length that the settings speak of, as `transformers` takes it."""
        return self.original or self.number("original_max_position_embeddings")

    @property
    def stretch(self) -> float | None:
        """The factor, given or the ratio of the lengths."""
        given = self.number("factor")
        if given is not None or self.longest is None or self.starts_at is None:
            return given
        return self.longest / self.starts_at


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The part of a config that speaks of text."""
    inner = config.get("text_config")
    return text_part(inner) if isinstance(inner, Mapping) else config


def ropes(config: Mapping[str, Any]) -> list[Rope]:
    """Every dictionary of rope settings in a config."""
    made: list[Rope] = []
    for name in ("rope_parameters", "rope_scaling"):
        given = config.get(name)
        if not isinstance(given, Mapping) or not given:
            continue
        inner = {key: value for key, value in given.items() if isinstance(value, Mapping)}
        for key, settings in (inner or {"": given}).items():
            made.append(_rope(config, f"{name}.{key}" if key else name, settings, bool(inner)))
    return made


def pairs_of(config: Mapping[str, Any], settings: Mapping[str, Any]) -> int | None:
    """How many pairs of dims are rotated, as far as a config says it."""
    dim, heads = number_of(config.get("hidden_size")), number_of(config.get("num_attention_heads"))
    width = number_of(config.get("qk_rope_head_dim")) or number_of(config.get("head_dim"))
    if width is None and dim is not None and heads:
        width = dim // heads
    if width is None:
        return None
    part = number_of(settings.get("partial_rotary_factor"))
    part = part if part is not None else number_of(config.get("partial_rotary_factor"))
    part = part if part is not None else number_of(config.get("rotary_pct"))
    if config.get("qk_rope_head_dim") or part is None:
        part = 1.0
    return int(width * part) // 2


def _rope(config: Mapping[str, Any], where: str, settings: Mapping[str, Any], nested: bool) -> Rope:
    kind = str(settings.get("rope_type") or settings.get("type") or "default")
    longest, original = config.get("max_position_embeddings"), config.get("original_max_position_embeddings")
    return Rope(
        where,
        settings,
        SYNONYMS.get(kind, kind),
        number_of(longest),
        None if nested else number_of(original),  # transformers read it beside flat settings only
        pairs_of(config, settings),
        nested,
    )


def number_of(value: Any) -> float | None:
    """A value of a config as a number, None where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)
