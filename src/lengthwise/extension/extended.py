"""Encodings after an extension: one class for each part of an encoding that a method can change."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias, DistanceBias
from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Method, written
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, join, prepare
from lengthwise.query_key import Composed, QueryKeyMap, QueryScale
from lengthwise.sites import CACHE_RULES, cached_keys, claims, follows_length
from lengthwise.spectrum import Spectrum
from lengthwise.wrapping import act_as


class Extended(nn.Module):
    """An encoding and a method that extends it; `lengthwise.extend` makes these.

    Args:
        encoding: what is extended; a copy of what was given.
        method: the extension.
    """

    def __init__(self, encoding: nn.Module, method: Method) -> None:
        super().__init__()
        self.encoding, self.method = encoding, method
        act_as(self, encoding)
        kept = claims(encoding)
        self.claims = kept if method.identity else kept & method.preserves
        own = "rotated" if method.identity else method.cached_keys
        self.cached_keys = max(cached_keys(encoding), own, key=CACHE_RULES.index)
        self.follows_length = follows_length(encoding) or own == "rotated_at_target_length"

    @property
    def methods(self) -> tuple[Method, ...]:
        """All methods so far, the first applied first."""
        return (*getattr(self.encoding, "methods", ()), self.method)

    @property
    def unextended(self) -> nn.Module:
        """The encoding before any method."""
        return getattr(self.encoding, "unextended", self.encoding)

    @property
    def _inner(self) -> Any:
        return self.encoding

    @property
    def _own(self) -> Any:
        return self.method

    def __repr__(self) -> str:
        return f"{self.encoding!r} + {written(self.method)}"


class SpectrumExtended(Extended):
    """A rotary encoding at other frequencies, or added sinusoids at others."""

    def __init__(self, encoding: nn.Module, method: Method) -> None:
        super().__init__(encoding, method)
        self.follows_length = method.cached_keys == "rotated_at_target_length" and not method.identity
        if self.follows_length:
            self.spectrum_at(None)  # settings that do not fit the encoding are refused here and not in a forward
        if not self.follows_length and self.spectrum.attention_factor != 1.0:
            self.claims = self.claims - {"norm_preserving"}

    @property
    def spectrum(self) -> Spectrum:
        """The frequencies after the method.

        Raises:
            InvalidArgument: they follow the length of the sequence; `spectrum_at(length)` has them.
        """
        if self.follows_length:
            raise InvalidArgument(
                f"the frequencies of {type(self.method).__name__} follow the length: use spectrum_at(length)"
            )
        return self.spectrum_at(None)

    def spectrum_at(self, length: int | Tensor | None) -> Spectrum:
        """The frequencies for a sequence of `length` tokens."""
        before: Spectrum = self._inner.spectrum
        return before if self.method.identity else self._own.map_spectrum(before, length)

    def with_spectrum(self, spectrum: Spectrum) -> nn.Module:
        """The encoding itself, at other frequencies."""
        return self._inner.with_spectrum(spectrum)

    def rotation_by(self, spectrum: Spectrum, positions: Positions) -> QueryKeyMap:
        """The rotation at `positions` by given frequencies."""
        by = getattr(self.encoding, "rotation_by", None)
        if by is not None:
            return by(spectrum, positions)
        changed: Any = self.with_spectrum(spectrum)
        return changed.rotation(positions)

    def _rotation(self, positions: Positions) -> QueryKeyMap:
        return self.rotation_by(self._spectrum_for(positions), positions)

    def embed_by(self, spectrum: Spectrum, x: Tensor, positions: Positions) -> Tensor:
        """Embeddings `x` that know their positions by given frequencies."""
        return self._inner.embed_by(spectrum, x, positions)

    def _embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        return self.embed_by(self._spectrum_for(positions), x, positions)

    def _spectrum_for(self, positions: Positions) -> Spectrum:
        return self.spectrum_at(reached(positions) if self.follows_length else None)


class TableExtended(Extended):
    """An encoding with another table; the table it had is not kept.

    Where the method predicts rows, `fit_error` says how well it predicted rows that it was not shown.
    """

    def __init__(self, encoding: nn.Module, method: Method) -> None:
        inner: Any = encoding
        changed = encoding
        if not method.identity:
            changed = inner.with_table(method.map_table(inner.table.detach()))  # pyright: ignore[reportAttributeAccessIssue]
        super().__init__(changed, method)
        measure = getattr(method, "error_on", None)
        self.fit_error: float | None = None if measure is None else measure(inner.table.detach())

    def __repr__(self) -> str:
        plain = super().__repr__()
        return plain if self.fit_error is None else f"{plain} (fit_error {self.fit_error:.3g})"

    @property
    def table(self) -> nn.Parameter:
        """The table after the method, `[positions, dim]`."""
        return self._inner.table

    def with_table(self, table: Tensor) -> nn.Module:
        """The encoding with yet another table, and the same methods behind it."""
        changed = copy.deepcopy(self)
        changed.encoding = changed._inner.with_table(table)
        act_as(changed, changed.encoding)
        changed.claims, changed.cached_keys = self.claims, self.cached_keys
        return changed


class DistanceExtended(Extended):
    """A bias of distance, at other distances; fast roads stay open to it."""

    def _logit_bias(self, positions: Positions) -> DistanceBias:
        target = reached(positions) if self.follows_length else None
        return DistanceBias(lambda distance: self.of_distance(distance, target), positions)

    def of_distance(self, distance: Tensor, target_length: int | Tensor | None = None) -> Tensor:
        """Bias at distances of any shape, `[heads, *that shape]`."""
        if not self.method.identity:
            distance = self._own.map_distance(distance, target_length)
        if isinstance(self.encoding, DistanceExtended):
            return self.encoding.of_distance(distance, target_length)
        return self._inner.of_distance(distance)


class PositionsExtended(Extended):
    """An encoding at other positions."""

    def __init__(self, encoding: nn.Module, method: Method) -> None:
        super().__init__(encoding, method)
        if method.preserves_at_positions is not None and not method.identity:
            self.claims = claims(encoding) & method.preserves_at_positions
        self.max_position = method.reach(getattr(encoding, "max_position", None))
        self.draws_each_row = method.draws_each_row or getattr(encoding, "draws_each_row", False)

    def prepare(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Prepared:
        """What the encoding has to say at the positions after the map."""
        return prepare(
            self.encoding, self._mapped(positions, generator, training), generator=generator, training=training
        )

    def _mapped(
        self, positions: Positions, generator: torch.Generator | None = None, training: bool = False
    ) -> Positions:
        if self.method.identity:
            return positions
        return self._own.map_positions(positions, generator=generator, training=training)

    def _embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        return self._inner.embed_positions(x, self._mapped(positions))

    def _rotation(self, positions: Positions) -> QueryKeyMap:
        return self._inner.rotation(self._mapped(positions))

    def _logit_bias(self, positions: Positions) -> Bias:
        return self._inner.logit_bias(self._mapped(positions))

    def _attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        return self._inner.attention_logits(q, k, self._mapped(positions), scale)

    def _read(self, hidden: Tensor, positions: Positions, state: Any = None) -> tuple[Any, Any]:
        return self._inner.read(hidden, self._mapped(positions), state)


class QueriesExtended(Extended):
    """An encoding whose queries are multiplied by a number each, after any rotation; a bias is not scaled."""

    def __init__(self, encoding: nn.Module, method: Method) -> None:
        super().__init__(encoding, method)
        self.rotation = self._rotation

    def prepare(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Prepared:
        """What the encoding has to say, and the factors of the queries."""
        ready = prepare(self.encoding, positions, generator=generator, training=training)
        if self.method.identity:
            return ready
        scale = self._scale(positions)
        at = ready.positions
        return join([ready, Prepared(at, rotation=scale, rotation_of_new=lambda: scale)], at)

    def _scale(self, positions: Positions) -> QueryScale:
        place = positions.one_axis()[0] if positions.axes == 1 else positions.q[..., 0]
        return QueryScale(self._own.scale_queries(place))

    def _rotation(self, positions: Positions) -> QueryKeyMap:
        turn = getattr(self.encoding, "rotation", None)
        maps = () if turn is None else (turn(positions),)
        return Composed(maps if self.method.identity else (*maps, self._scale(positions)))


def reached(positions: Positions) -> Tensor:
    """The length to which a length-dependent method goes: the stated one, or the largest position plus 1, float64."""
    wide = torch.float64
    if positions.target_length is not None:
        return torch.tensor(positions.target_length, dtype=wide)
    if positions.aligned and positions.plain:
        return torch.tensor(positions.k_length, dtype=wide)
    both = torch.cat((positions.q.flatten(), positions.k.flatten()))
    if both.numel() == 0:
        return torch.tensor(0, dtype=wide)
    return (both.max() + 1).to(wide)
