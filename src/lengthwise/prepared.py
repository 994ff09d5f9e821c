"""From an encoding and positions to values that all layers of a forward share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.rotation import Rotation
from lengthwise.sites import SITES, direction

Logits = Callable[[Tensor, Tensor, Positions, float], Tensor]


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that an encoding has to say at some positions.

    Args:
        positions: the positions, mapped where the encoding maps them.
        embed: from token embeddings `[batch, length, dim]` to embeddings that know their positions, or None.
        rotation: of queries and keys, or None.
        bias: on the scaled logits, or None.
        logits: what computes whole logits in place of q·k, or None.
    """

    positions: Positions
    embed: Callable[[Tensor], Tensor] | None = None
    rotation: Rotation | None = None
    bias: Bias | None = None
    logits: Logits | None = None


def prepare(
    encoding: nn.Module | None,
    positions: Positions,
    *,
    generator: torch.Generator | None = None,
    training: bool = False,
) -> Prepared:
    """Ask an encoding once for all that depends on positions alone.

    An encoding that maps positions or draws them at random has a method
    `map_positions(positions, *, generator, training) -> Positions`; it is called here and nowhere else.

    Args:
        encoding: any module that keeps the contract; None does nothing.
        positions: where the queries and keys are.
        generator: source of random draws, for encodings that make some.
        training: whether draws that belong to training are made.

    Raises:
        InvalidArgument: an encoding made for causal attention with positions that are not, or no module at all.
    """
    if encoding is None:
        return Prepared(positions)
    _check_module(encoding)
    if direction(encoding) == "causal" and not positions.causal:
        raise InvalidArgument(
            f"{type(encoding).__name__} is made for causal attention, and these positions see later tokens: "
            "use causal positions, or the bidirectional form of the encoding"
        )
    mapping = getattr(encoding, "map_positions", None)
    if mapping is not None:
        positions = mapping(positions, generator=generator, training=training)
    embed, rotation, bias, logits = (getattr(encoding, method, None) for method in SITES.values())
    return Prepared(
        positions,
        embed=None if embed is None else lambda x: embed(x, positions),
        rotation=None if rotation is None else rotation(positions),
        bias=None if bias is None else bias(positions),
        logits=logits,
    )


def _check_module(encoding: object) -> None:
    # A name, or a class that was not called, would pass for an encoding that does nothing.
    if not isinstance(encoding, nn.Module):
        raise InvalidArgument(
            f"an encoding is a torch.nn.Module, not {encoding!r}: lengthwise.build makes one from a name, "
            "and a class has to be called"
        )
