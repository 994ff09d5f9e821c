"""Which layer has which encoding: patterns of published models by name.

Settings are the defaults of the configs in `transformers`. A pattern says where each layer's encoding acts, and the
windows and temperatures that come with it; norms of queries and keys, and their order, are the model's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

from torch import nn

from lengthwise.compose import Combined, PerLayer
from lengthwise.encodings.chunks import Chunks
from lengthwise.encodings.none import NoPE
from lengthwise.encodings.rotary import Rotary
from lengthwise.encodings.temperature import QueryTemperature
from lengthwise.encodings.window import Window
from lengthwise.errors import InvalidArgument
from lengthwise.registry import Registry

patterns: Registry[Callable[..., PerLayer]] = Registry("pattern of layers", "lengthwise.patterns")
"""Patterns by name; `lengthwise.build` makes them from a spec as it makes encodings."""


@patterns.register("alternate")
def alternate(encoding: nn.Module, every_last: nn.Module, layers: int, every: int = 4) -> PerLayer:
    """One encoding in most layers, another in each layer whose number, counted from 1, is a multiple of `every`.

    Args:
        encoding: of most layers.
        every_last: of layers `every`, `2 * every`, ...
        layers: number of layers.
        every: length of the period.

    Example:
        >>> import lengthwise as lw
        >>> layers = lw.build("alternate(rotary, none, every=2)", lw.Dims(dim=64, heads=4, layers=4))
        >>> [type(one).__name__ for one in layers]
        ['Rotary', 'NoPE', 'Rotary', 'NoPE']
    """
    if layers < 1 or every < 1:
        raise InvalidArgument(f"layers and every must be at least 1, not {layers} and {every}")
    chosen = [every_last if (layer + 1) % every == 0 else encoding for layer in range(layers)]
    return PerLayer([_own(one, layer != chosen.index(one)) for layer, one in enumerate(chosen)])


@patterns.register("smollm3")
def smollm3(head_dim: int, layers: int, base: float = 2000000.0) -> PerLayer:
    """SmolLM3: rotary, and none in every fourth layer (2501.18795, id UNVERIFIED: "RNoPE")."""
    return alternate(Rotary(head_dim, base), NoPE(), layers)


@patterns.register("llama4")
def llama4(head_dim: int, heads: int, layers: int, base: float = 500000.0, chunk: int = 8192) -> PerLayer:
    """Llama 4 ("iRoPE"): rotary within chunks; in every fourth layer none, with a temperature that grows with position.

    Llama 4 normalizes queries and keys after the rotation, on these layers only; that is the model's part.
    """
    local = Combined(Rotary(head_dim, base, layout="interleaved"), Chunks(heads, chunk))
    return alternate(local, QueryTemperature(), layers)


@patterns.register("cohere2")
def cohere2(head_dim: int, heads: int, layers: int, base: float = 10000.0, window: int = 4096) -> PerLayer:
    """Command A and Cohere 2 (2504.00698, id UNVERIFIED): rotary within a window; neither in every fourth."""
    local = Combined(Rotary(head_dim, base, layout="interleaved"), Window(window - 1, heads))
    return alternate(local, NoPE(), layers)


@patterns.register("gemma3")
def gemma3(
    head_dim: int, heads: int, layers: int, local_base: float = 10000.0, base: float = 1000000.0, window: int = 4096
) -> PerLayer:
    """Gemma 3 (2503.19786, id UNVERIFIED): rotary within a window; in every sixth layer a larger base and no window.

    The window is the config's default; released models have smaller ones (UNVERIFIED).
    """
    return alternate(
        Combined(Rotary(head_dim, local_base), Window(window - 1, heads)), Rotary(head_dim, base), layers, 6
    )


def _own(encoding: nn.Module, again: bool) -> nn.Module:
    """A module of its own for each layer, where an encoding is not shared by layers."""
    if getattr(encoding, "shared", True) or not again:
        return encoding
    other = copy.deepcopy(encoding)
    for module in other.modules():
        reset = getattr(module, "reset_parameters", None)
        if reset is not None:
            reset()
    return other
