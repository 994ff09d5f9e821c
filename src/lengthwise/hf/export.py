"""From an encoding to the rope settings of `transformers`, the other way than `encoding_from_config`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from lengthwise.compose import Combined, PerLayer
from lengthwise.encodings.mrope import MRoPE
from lengthwise.encodings.none import NoPE
from lengthwise.encodings.rotary import Rotary
from lengthwise.encodings.temperature import QueryTemperature
from lengthwise.errors import InvalidArgument
from lengthwise.extension.base import ChangeBase
from lengthwise.extension.extended import SpectrumExtended
from lengthwise.extension.interpolate import Interpolate
from lengthwise.extension.method import Method
from lengthwise.extension.ntk import NTK
from lengthwise.hf.rope import write_method
from lengthwise.spectrum import Spectrum

Settings = dict[str, Any]


def to_rope_parameters(encoding: nn.Module, layer_types: Sequence[str] | None = None) -> Settings:
    """Return `rope_parameters`, as configs of `transformers` 5 have them.

    `dynamic` goes by `max_position_embeddings`, which must then be the method's `original_length`. A config that has
    `original_max_position_embeddings` outside (Phi-3) must have the same there. Which dims make a pair is not among
    these settings: the code of each model has its own layout.

    Args:
        encoding: rotary, extended by at most one method that is more than a base or a plain factor.
        layer_types: of the config, where layers differ; the result is then nested by them.

    Raises:
        InvalidArgument: what these settings can't say, with the reason.

    Example:
        >>> import lengthwise as lw
        >>> to_rope_parameters(lw.extend(lw.Rotary(head_dim=64), lw.Interpolate(factor=4.0)))
        {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': 10000.0}
    """
    if not isinstance(encoding, PerLayer):
        return _flat(encoding)
    if layer_types is None:
        raise InvalidArgument(
            "layers differ, and rope settings tell them apart by layer_types: give those of the config, or one layer, "
            "encoding[0], where the config has no_rope_layers for the others"
        )
    if len(layer_types) != len(encoding):
        raise InvalidArgument(f"{len(layer_types)} layer_types for an encoding of {len(encoding)} layers")
    made: dict[str, Any] = {}
    for kind, layer in zip(layer_types, encoding, strict=True):
        own = None if isinstance(layer, NoPE) else _flat(layer)
        if made.setdefault(kind, own) != own:
            raise InvalidArgument(f"layers of type {kind!r} have different encodings, and rope settings one for a type")
    return made


def to_rope_scaling(encoding: nn.Module) -> Settings:
    """Return `rope_theta`, `rope_scaling` and what else `transformers` 4 (4.45 and later) has at the top of a config.

    Raises:
        InvalidArgument: what these settings can't say, with the reason.

    Example:
        >>> import lengthwise as lw
        >>> to_rope_scaling(lw.extend(lw.Rotary(head_dim=64, fraction=0.5), lw.Interpolate(factor=4.0)))
        {'rope_theta': 10000.0, 'rope_scaling': {'rope_type': 'linear', 'factor': 4.0}, 'partial_rotary_factor': 0.5}
    """
    if isinstance(encoding, PerLayer):
        raise InvalidArgument(
            "transformers 4 has no one place for layers that differ: each model has settings of its own for it, such "
            "as rope_local_base_freq or no_rope_layers; give one layer, encoding[0]"
        )
    settings = _flat(encoding)
    if settings["rope_type"] == "proportional":
        raise InvalidArgument("rope_type 'proportional' came with transformers 5")
    top: Settings = {"rope_theta": settings.pop("rope_theta"), "rope_scaling": None}
    part = settings.pop("partial_rotary_factor", None)
    if settings != {"rope_type": "default"}:
        top["rope_scaling"] = settings
    return top if part is None else top | {"partial_rotary_factor": part}


def parts_of(encoding: nn.Module) -> tuple[Rotary, tuple[Method, ...]]:
    """A rotary encoding and the methods that extend it, the first one first.

    Raises:
        InvalidArgument: another encoding, or a method that moves pairs or positions instead of frequencies.
    """
    inner, methods = _parts_of(encoding)
    if not isinstance(inner, Rotary):
        raise InvalidArgument(
            "what this engine reads of MRoPE is not known: to_rope_parameters writes it for transformers"
        )
    return inner, methods


def _parts_of(encoding: nn.Module) -> tuple[Rotary | MRoPE, tuple[Method, ...]]:
    inner = getattr(encoding, "unextended", encoding)
    if not isinstance(inner, Rotary | MRoPE):
        raise InvalidArgument(f"rope settings are for rotary encodings, and {type(inner).__name__} is another")
    layer = encoding
    while layer is not inner:
        if not isinstance(layer, SpectrumExtended):
            method: Any = getattr(layer, "method", None)
            raise InvalidArgument(
                f"no rope settings say {type(method).__name__}: it changes more than the frequencies of a rotation, "
                "and an engine must have it in its code"
            )
        layer = layer.encoding
    plain = Spectrum.of_base(inner.base, inner.rotary_dim)
    if inner.spectrum.attention_factor != 1 or not torch.equal(inner.spectrum.inv_freq, plain.inv_freq):
        raise InvalidArgument(f"this {type(inner).__name__} was given frequencies by hand, which no rope settings say")
    return inner, getattr(encoding, "methods", ())


def folded(rotary: Rotary | MRoPE, methods: Sequence[Method]) -> tuple[float, Method | None]:
    """The base after methods that only change it, and the one other method.

    Raises:
        InvalidArgument: several that are not one.
    """
    base = rotary.base
    rest: list[Method] = []
    for method in methods:
        if isinstance(method, ChangeBase) and not rest:
            base = float(method.base)
        elif isinstance(method, NTK) and method.variant == "base" and not rest and rotary.rotary_dim > 2:
            base *= method.factor ** (rotary.rotary_dim / (rotary.rotary_dim - 2))
        else:
            rest.append(method)
    factors = [one.factor for one in rest if isinstance(one, Interpolate)]
    if len(rest) > 1 and len(factors) == len(rest):
        rest = [Interpolate(math.prod(factors))]
    if len(rest) > 1:
        names = " + ".join(type(one).__name__ for one in rest)
        raise InvalidArgument(f"rope settings say one method, and these are {len(rest)}: {names}")
    return base, rest[0] if rest else None


def _flat(encoding: nn.Module) -> Settings:
    temperature: QueryTemperature | None = None
    if isinstance(encoding, Combined):
        extra = [part for part in encoding.parts if isinstance(part, QueryTemperature)]
        rest = [part for part in encoding.parts if not isinstance(part, QueryTemperature)]
        if len(extra) != 1 or len(rest) != 1:
            raise InvalidArgument(f"rope settings say one rotation, and this is {encoding!r}")
        encoding, temperature = rest[0], extra[0]
    rotary, methods = _parts_of(encoding)
    base, method = folded(rotary, methods)
    settings = write_method(method) | {"rope_theta": base}
    if rotary.fraction != 1:
        settings["partial_rotary_factor"] = rotary.fraction
    if isinstance(rotary, MRoPE):
        settings |= {"mrope_section": list(rotary.sections)}
        settings |= {"mrope_interleaved": True} if rotary.interleaved else {}
    if temperature is not None:
        if temperature.offset != 0 or settings.get("original_max_position_embeddings") != temperature.floor:
            raise InvalidArgument(
                "llama_4_scaling_beta has offset 0 and the floor original_max_position_embeddings, and this is "
                f"{temperature!r}"
            )
        settings["llama_4_scaling_beta"] = temperature.scale
    return settings
