"""Encodings made of encodings: several at once, one axis of several, one for each layer.

Combined(a, b)       rotations in order, then at most one computation of logits, then the sum of the biases
OnAxis(a, axis)      a reads one axis of positions that have several
PerLayer([a, b])     a in layer 0, b in layer 1 (Llama 4, SmolLM3, Command A, Gemma 3)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, join, prepare
from lengthwise.query_key import Composed, QueryKeyMap
from lengthwise.sites import CACHE_RULES, SITES, Logits, cached_keys, claims, direction, follows_length, sites
from lengthwise.wrapping import act_as


class Combined(nn.Module):
    """Several encodings at once; in a spec they are joined with `+`.

    Embeddings and rotations act in order, biases are summed, at most one part computes whole logits. A claim holds if
    every part that acts where the claim speaks of makes it; of cache rules the strictest holds.

    Args:
        parts: at least one encoding.

    Raises:
        InvalidArgument: parts that can't act together.

    Example:
        >>> import lengthwise as lw
        >>> lw.sites(lw.Combined(lw.Rotary(head_dim=64), lw.ALiBi(heads=8)))
        ('rotation', 'bias')
    """

    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        if not parts:
            raise InvalidArgument("Combined needs at least one encoding")
        if any(isinstance(part, PerLayer) for part in parts):
            raise InvalidArgument("PerLayer can't be joined as a whole: join the encodings of each layer")
        directions = {direction(part) for part in parts} - {"any"}
        if len(directions) > 1:
            raise InvalidArgument("one encoding is for causal attention and another for bidirectional: they can't join")
        if len([part for part in parts if hasattr(part, "attention_logits")]) > 1:
            raise InvalidArgument("two encodings compute whole logits: only one can")
        self.normalizes = any(getattr(part, "normalizes", False) for part in parts)
        if self.normalizes and any(hasattr(part, "logit_bias") for part in parts):
            raise InvalidArgument("an encoding that normalizes its rows by itself has no logits that a bias could join")
        self.parts = nn.ModuleList(parts)
        for method in SITES.values():
            if any(hasattr(part, method) for part in parts):
                setattr(self, method, getattr(self, f"_{method}"))
        made = frozenset[str]().union(*(claims(part) for part in parts))
        self.claims = frozenset(claim for claim in made if _holds(claim, parts))
        self.direction = directions.pop() if directions else "any"
        self.axes = max(getattr(part, "axes", 1) for part in parts)
        for part in parts:
            if sites(part) and getattr(part, "axes", 1) != self.axes:
                raise InvalidArgument(
                    f"{type(part).__name__} reads {getattr(part, 'axes', 1)} axis, and another encoding {self.axes}: "
                    f"OnAxis(encoding, axis, axes={self.axes}) lets it read one of them"
                )
        limits = [limit for part in parts if (limit := getattr(part, "max_position", None)) is not None]
        self.max_position = min(limits) if limits else None
        self.cached_keys = max((cached_keys(part) for part in parts), key=CACHE_RULES.index)
        self.follows_length = any(map(follows_length, parts))
        made_for = [number for part in parts if (number := getattr(part, "kv_heads", None)) is not None]
        self.kv_heads = math.lcm(*made_for) if made_for else None  # a multiple of what each part tells apart
        self.draws_each_row = any(getattr(part, "draws_each_row", False) for part in parts)
        self.shared = all(getattr(part, "shared", True) for part in parts)

    def __repr__(self) -> str:
        return " + ".join(repr(part) for part in self.parts)

    def prepare(
        self, positions: Positions, *, generator: torch.Generator | None = None, training: bool = False
    ) -> Prepared:
        """Each part at its own map of `positions`, joined."""
        return join(
            [prepare(part, positions, generator=generator, training=training) for part in self.parts], positions
        )

    def _embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        for part in self._acting("embed_positions"):
            x = part.embed_positions(x, positions)
        return x

    def _rotation(self, positions: Positions) -> QueryKeyMap:
        return Composed(tuple(part.rotation(positions) for part in self._acting("rotation")))

    def _logit_bias(self, positions: Positions) -> Bias:
        first, *rest = (part.logit_bias(positions) for part in self._acting("logit_bias"))
        for one in rest:
            first = first + one
        return first

    def _attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        return self._acting("attention_logits")[0].attention_logits(q, k, positions, scale)

    def _read(self, hidden: Tensor, positions: Positions, state: Any = None) -> tuple[QueryKeyMap | Bias | Logits, Any]:
        readers = self._acting("read")
        if len(readers) > 1:
            raise InvalidArgument("several parts read hidden states: prepare(...).read(hidden, state) asks them all")
        return readers[0].read(hidden, positions, state)

    def _acting(self, method: str) -> list[Any]:
        return [part for part in self.parts if hasattr(part, method)]


class OnAxis(nn.Module):
    """Lets an encoding of one axis read one of several.

    Args:
        encoding: an encoding whose positions are numbers.
        axis: which coordinate it reads, from 0.
        axes: how many coordinates the positions have.

    Example:
        >>> import torch, lengthwise as lw
        >>> place = torch.tensor([[[0, 5], [1, 7]]])  # (row, column) of two tokens
        >>> columns = lw.OnAxis(lw.ALiBi(heads=1, max_bias=1), axis=1)
        >>> columns.logit_bias(lw.Positions(place, place)).dense()[0, 0, 1, 0]
        tensor(-1.)
    """

    def __init__(self, encoding: nn.Module, axis: int, axes: int = 2) -> None:
        super().__init__()
        if not 0 <= axis < axes:
            raise InvalidArgument(f"axis {axis} is none of the {axes} axes, which count from 0")
        if getattr(encoding, "axes", 1) != 1:
            raise InvalidArgument(f"{type(encoding).__name__} reads several axes: OnAxis is for encodings of one")
        self.encoding, self.axis = encoding, axis
        act_as(self, encoding)
        self.axes = axes

    def prepare(
        self, positions: Positions, *, generator: torch.Generator | None = None, training: bool = False
    ) -> Prepared:
        """The encoding at one coordinate of `positions`."""
        return prepare(self.encoding, self._pick(positions), generator=generator, training=training)

    @property
    def _inner(self) -> Any:
        return self.encoding

    def _pick(self, positions: Positions) -> Positions:
        q, k = positions.several_axes(self.axes)
        return positions.replace(q=q[..., self.axis], k=k[..., self.axis])

    def _embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        return self._inner.embed_positions(x, self._pick(positions))

    def _rotation(self, positions: Positions) -> QueryKeyMap:
        return self._inner.rotation(self._pick(positions))

    def _logit_bias(self, positions: Positions) -> Bias:
        return self._inner.logit_bias(self._pick(positions))

    def _attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        return self._inner.attention_logits(q, k, self._pick(positions), scale)

    def _read(self, hidden: Tensor, positions: Positions, state: Any = None) -> tuple[QueryKeyMap | Bias | Logits, Any]:
        return self._inner.read(hidden, self._pick(positions), state)


class PerLayer(nn.Module):
    """One encoding for each layer; a model asks for that of its layer by index.

    Args:
        encodings: one for each layer; the same module may stand there several times.

    Example:
        >>> import lengthwise as lw
        >>> rotary, none = lw.Rotary(head_dim=64), lw.NoPE()
        >>> lw.PerLayer([rotary, rotary, rotary, none])[3]
        NoPE()
    """

    def __init__(self, encodings: Sequence[nn.Module]) -> None:
        super().__init__()
        if not encodings:
            raise InvalidArgument("PerLayer needs one encoding for each layer, and there is none")
        self.distinct = nn.ModuleList(dict.fromkeys(encodings))
        self.of_layer = [list(self.distinct).index(one) for one in encodings]

    def __getitem__(self, layer: int) -> nn.Module:
        """The encoding of a layer."""
        return self.distinct[self.of_layer[layer]]

    def __len__(self) -> int:
        return len(self.of_layer)

    def __iter__(self) -> Iterator[nn.Module]:
        return (self[layer] for layer in range(len(self)))

    def prepare(
        self, positions: Positions, *, generator: torch.Generator | None = None, training: bool = False
    ) -> Prepared:
        """Refuse: only the encoding of one layer can be asked."""
        raise InvalidArgument("PerLayer holds an encoding for each layer: ask that of one layer, per_layer[layer]")


def _holds(claim: str, parts: Sequence[nn.Module]) -> bool:
    if claim == "translation_invariant":
        # A rotation turns q and k by where they stand; their product forgets it, and no other use of them does.
        turned = any(hasattr(part, "rotation") for part in parts)
        if turned and any(hasattr(part, "attention_logits") or hasattr(part, "read") for part in parts):
            return False
    of_bias = ("logit_bias", "read")
    speaks_of = {"norm_preserving": ("rotation", "read"), "nonincreasing": of_bias, "nonpositive": of_bias}
    methods = speaks_of.get(claim, tuple(SITES.values()))
    acting = [part for part in parts if any(hasattr(part, method) for method in methods)]
    return all(claim in claims(part) for part in acting)
