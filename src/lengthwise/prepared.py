"""From an encoding and positions to values that all layers of a forward share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.query_key import Composed, QueryKeyMap
from lengthwise.sites import SITES, Logits, direction

T = TypeVar("T")
Read = Callable[[Tensor, Any], tuple[QueryKeyMap | Bias | Logits, Any]]


@dataclass(frozen=True, eq=False)
class Prepared:
    """All that an encoding has to say at some positions.

    Args:
        positions: the positions, mapped where the encoding maps them.
        embed: from token embeddings `[batch, length, dim]` to embeddings that know their positions, or None.
        rotation: of queries and keys, or None.
        bias: on the scaled logits, or None.
        logits: what computes whole logits in place of q·k, or None.
        normalizes: the logits are logarithms of the weights themselves.
        rotation_of_new: makes the rotation of the queries and of new keys at their positions, before these join a
            cache of rotated keys; or None.
        readers: each from hidden states and a state to what these decide, and the state after them.
    """

    positions: Positions
    embed: Callable[[Tensor], Tensor] | None = None
    rotation: QueryKeyMap | None = None
    bias: Bias | None = None
    logits: Logits | None = None
    normalizes: bool = False
    rotation_of_new: Callable[[], QueryKeyMap] | None = None
    readers: tuple[Read, ...] = ()

    def read(self, hidden: Tensor, state: Any = None) -> tuple[Prepared, Any]:
        """Let an encoding read hidden states: the same with what these decide, and the state for later tokens.

        Args:
            hidden: `[batch, new, dim]` of the queries' tokens, as the layer's attention reads them.
            state: what the last call returned, where earlier tokens are in a cache.

        Returns:
            Itself and the same state for an encoding that reads none. A rotation that was read covers new keys only.
        """
        if not self.readers:
            return self, state
        self.positions.check_tokens(hidden)
        if state is not None and not (isinstance(state, tuple) and len(state) == len(self.readers)):
            raise InvalidArgument("state is the tuple that Prepared.read returned for the tokens before, or None")
        states = [None] * len(self.readers) if state is None else list(state)
        read = replace(self, readers=())
        for place, reader in enumerate(self.readers):
            found, states[place] = reader(hidden, states[place])
            read = read._with(found)
        return read, tuple(states)

    def _with(self, found: QueryKeyMap | Bias | Logits) -> Prepared:
        if isinstance(found, Bias):
            return replace(self, bias=found if self.bias is None else self.bias + found)
        if isinstance(found, QueryKeyMap):
            # Once read, only new keys can be mapped, and what else turns them is of these too.
            both = found if self.rotation_of_new is None else Composed((self.rotation_of_new(), found))
            return replace(self, rotation=both, rotation_of_new=lambda: both)
        if self.logits is not None:
            raise InvalidArgument("two encodings compute whole logits: only one can")
        return replace(self, logits=found)


def prepare(
    encoding: nn.Module | None,
    positions: Positions,
    *,
    generator: torch.Generator | None = None,
    training: bool = False,
) -> Prepared:
    """Ask an encoding once for all that depends on positions alone.

    An encoding that maps positions or draws them at random has a method
    `map_positions(positions, *, generator, training) -> Positions`; it is called here and nowhere else. One that draws
    anew for each row says `draws_each_row = True`: models then give each row positions of its own. One that holds other
    encodings may have `prepare(positions, *, generator, training) -> Prepared`, which is then all that is asked.

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
    own = getattr(encoding, "prepare", None)
    if own is not None:
        return own(positions, generator=generator, training=training)
    mapping = getattr(encoding, "map_positions", None)
    if mapping is not None:
        positions = mapping(positions, generator=generator, training=training)
    embed, rotation, bias, logits, read = (getattr(encoding, method, None) for method in SITES.values())
    name = type(encoding).__name__
    laid = None if bias is None else _asked(bias, positions, name)
    if laid is not None and not isinstance(laid, Bias):
        raise InvalidArgument(
            f"{name}.logit_bias returned {type(laid).__name__}, and not a Bias: DenseBias(values) makes one of a tensor"
        )
    return Prepared(
        positions,
        embed=None if embed is None else lambda x: embed(x, positions),
        rotation=None if rotation is None else _asked(rotation, positions, name),
        bias=laid,
        logits=logits,
        normalizes=getattr(encoding, "normalizes", False),
        rotation_of_new=None if rotation is None else lambda: rotation(positions.new()),
        readers=() if read is None else (lambda hidden, state: read(hidden, positions, state),),
    )


def _asked(method: Callable[[Positions], T], positions: Positions, name: str) -> T:
    try:
        return method(positions)
    except InvalidArgument as error:  # among many encodings, which one?
        raise error if name in str(error) else InvalidArgument(f"{name}: {error}") from error


def join(parts: Sequence[Prepared], positions: Positions) -> Prepared:
    """All that several encodings have to say at `positions`, which each may have mapped for itself.

    Embeddings and rotations act in order, biases are summed, at most one computes whole logits.
    """
    embeds = [part.embed for part in parts if part.embed is not None]
    rotations = [part.rotation for part in parts if part.rotation is not None]
    of_new = [part.rotation_of_new for part in parts if part.rotation_of_new is not None]
    biases = [part.bias for part in parts if part.bias is not None]
    computing = [part for part in parts if part.logits is not None]
    if len(computing) > 1:
        raise InvalidArgument("two encodings compute whole logits: only one can")
    normalizes = any(part.normalizes for part in parts)
    if normalizes and biases:
        raise InvalidArgument("an encoding that normalizes its rows by itself has no logits that a bias could join")

    def embed(x: Tensor) -> Tensor:
        for one in embeds:
            x = one(x)
        return x

    bias = None
    for one in biases:
        bias = one if bias is None else bias + one
    return Prepared(
        positions,
        embed=embed if embeds else None,
        rotation=Composed(tuple(rotations)) if rotations else None,
        bias=bias,
        logits=_at_own_positions(computing[0], positions) if computing else None,
        normalizes=normalizes,
        rotation_of_new=(lambda: Composed(tuple(make() for make in of_new))) if of_new else None,
        readers=tuple(reader for part in parts for reader in part.readers),
    )


def _at_own_positions(part: Prepared, positions: Positions) -> Logits | None:
    logits = part.logits
    own = part.positions is not positions and not hasattr(logits, "ready")
    return _LogitsAt(logits, part.positions) if logits is not None and own else logits


@dataclass(frozen=True, eq=False)
class _LogitsAt:
    """Logits at positions of their own, whichever they are asked for."""

    logits: Logits
    positions: Positions

    def __call__(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        return self.logits(q, k, self.positions, scale)

    def part(self, rows: slice, columns: slice) -> Logits:
        own = getattr(self.logits, "part", None)
        return _LogitsAt(self.logits if own is None else own(rows, columns), self.positions.part(rows, columns))


def _check_module(encoding: object) -> None:
    # A name, or a class that was not called, would pass for an encoding that does nothing.
    if not isinstance(encoding, nn.Module):
        raise InvalidArgument(
            f"an encoding is a torch.nn.Module, not {encoding!r}: lengthwise.build makes one from a name, "
            "and a class has to be called"
        )
