"""What is added to the logits after the 1/sqrt(head_dim) scale, kept in the form that fast attention can use.

Every bias can go dense, and biases add with `+`. A bias of distance stays a function of distance, features stay
features: an attention backend picks its road from the class. At a pair that is not visible a value means nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions


class Bias(ABC):
    """A bias on logits; see `DistanceBias`, `LowRankBias`, `PairBias`, `DenseBias` and `SumBias`."""

    @abstractmethod
    def dense(self) -> Float[Tensor, "*batch heads q k"]:
        """All values, float32 (or float64) `[heads, q, k]`, or `[batch, heads, q, k]` from batched positions."""

    @abstractmethod
    def block(self, rows: slice, columns: slice) -> Float[Tensor, "*batch heads rows columns"]:
        """Values of some queries and some keys only, as slices of both with a start and a stop."""

    def __add__(self, other: Bias) -> Bias:
        return SumBias(_terms(self) + _terms(other))


@dataclass(frozen=True, eq=False)
class DistanceBias(Bias):
    """A function of the distance between query and key.

    Args:
        of_distance: from distances q - k, any shape, to values `[heads, *that shape]`; differentiable.
        positions: where the queries and keys are.
    """

    of_distance: Callable[[Tensor], Tensor]
    positions: Positions

    def dense(self) -> Float[Tensor, "*batch heads q k"]:
        """All values; see `Bias.dense`."""
        distance = self.positions.distance()
        keys = self.positions.k_length
        if self.positions.aligned and self.positions.q_length != 1:  # 2k - 1 distances in place of q * k
            return self.vector()[:, distance + keys - 1].movedim(0, -3)
        return self._values(distance).movedim(0, -3)  # from [heads, (batch,) q, k]

    def block(self, rows: slice, columns: slice) -> Float[Tensor, "*batch heads rows columns"]:
        """Values of some queries and keys; see `Bias.block`."""
        q, k = self.positions.one_axis()
        return self._values(q[..., rows].unsqueeze(-1) - k[..., columns].unsqueeze(-2)).movedim(0, -3)

    def vector(self) -> Float[Tensor, "heads distances"]:
        """Values at all distances `-(k - 1) ... k - 1` of `k` keys; entry `k - 1` is distance 0.

        Raises:
            InvalidArgument: positions that do not promise `aligned`.
        """
        if not self.positions.aligned:
            raise InvalidArgument("a vector of all distances exists for aligned positions only: use dense()")
        keys = self.positions.k_length
        several = torch.sym_max(2 * keys - 1, 0)  # none of no keys
        return self._values(torch.arange(several, device=self.positions.device) - (keys - 1))

    def _values(self, distance: Tensor) -> Tensor:
        values = self.of_distance(distance)
        if values.shape[1:] != distance.shape or values.dim() != distance.dim() + 1:
            raise InvalidArgument(
                f"of_distance gave {list(values.shape)} for distances of {list(distance.shape)}: it gives "
                f"[heads, *{list(distance.shape)}]"
            )
        return values


@dataclass(frozen=True, eq=False)
class LowRankBias(Bias):
    """Features of the query times features of the key, plus a constant for each row.

    Softmax drops the row constant; it is kept so that the log-sum-exp stays right.

    Args:
        q_features: `[(batch,) heads, q, rank]`.
        k_features: `[(batch,) heads, k, rank]`.
        row_constant: `[(batch,) heads, q]`.
        dtype: of the values, that of the features where None; these may be wider, where large ones all but cancel.
    """

    q_features: Float[Tensor, "*batch heads q rank"]
    k_features: Float[Tensor, "*batch heads k rank"]
    row_constant: Float[Tensor, "*batch heads q"]
    dtype: torch.dtype | None = None

    def dense(self) -> Float[Tensor, "*batch heads q k"]:
        """All values; see `Bias.dense`."""
        return self.block(slice(None), slice(None))

    def block(self, rows: slice, columns: slice) -> Float[Tensor, "*batch heads rows columns"]:
        """Values of some queries and keys; see `Bias.block`."""
        products = self.q_features[..., rows, :] @ self.k_features[..., columns, :].transpose(-1, -2)
        values = products + self.row_constant[..., rows].unsqueeze(-1)
        return values if self.dtype is None else values.to(self.dtype)


pair_functions: dict[str, Callable[..., Tensor]] = {}
"""What a `PairFunction` calls, by name."""


@dataclass(frozen=True, eq=False)
class PairFunction:
    """A function of two positions that is known by a name, with its tensors beside it.

    As the `of_pair` of a `PairBias`, this is one that a compiler need not trace: attention then stays one operator, in
    memory of length times block, and the tensors get their gradients.

    Args:
        name: of a function in `pair_functions`, which is called as `function(q, k, *tensors, *numbers)`.
        tensors: what it has learned, floating point.
        numbers: settings.

    Raises:
        InvalidArgument: no function of this name.
    """

    name: str
    tensors: tuple[Tensor, ...]
    numbers: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.name not in pair_functions:
            raise InvalidArgument(
                f"no function of pairs is called {self.name!r}: pair_functions has {[*pair_functions]}"
            )

    def __call__(self, q: Tensor, k: Tensor) -> Tensor:
        """Values `[heads, ...]` at query and key positions whose shapes broadcast."""
        return pair_functions[self.name](q, k, *self.tensors, *self.numbers)


@dataclass(frozen=True, eq=False)
class PairBias(Bias):
    """A function of the two positions that is none of their distance alone.

    Args:
        of_pair: from query positions `[..., q, 1]` and key positions `[..., 1, k]` to values `[heads, ..., q, k]`;
            positions of several axes keep these as their last dimension.
        positions: where the queries and keys are.
        axes: how many the function reads.
    """

    of_pair: Callable[[Tensor, Tensor], Tensor]
    positions: Positions
    axes: int = 1

    def dense(self) -> Float[Tensor, "*batch heads q k"]:
        """All values; see `Bias.dense`."""
        return self.block(slice(None), slice(None))

    def block(self, rows: slice, columns: slice) -> Float[Tensor, "*batch heads rows columns"]:
        """Values of some queries and keys; see `Bias.block`."""
        if self.axes == 1:
            q, k = self.positions.one_axis()
            q, k = q[..., rows].unsqueeze(-1), k[..., columns].unsqueeze(-2)
        else:
            q, k = self.positions.several_axes(self.axes)
            q, k = q[:, rows].unsqueeze(2), k[:, columns].unsqueeze(1)  # [batch, rows, 1, axes], [.., 1, columns, axes]
        return self.of_pair(q, k).movedim(0, -3)


@dataclass(frozen=True, eq=False)
class DenseBias(Bias):
    """Values as they are.

    Args:
        values: `[heads, q, k]` or `[batch, heads, q, k]`.
    """

    values: Float[Tensor, "*batch heads q k"]

    def __post_init__(self) -> None:
        if self.values.dim() not in (3, 4):
            raise InvalidArgument(
                f"a dense bias is [heads, q, k] or [batch, heads, q, k], not of shape {list(self.values.shape)}"
            )

    def dense(self) -> Float[Tensor, "*batch heads q k"]:
        """All values; see `Bias.dense`."""
        return self.values

    def block(self, rows: slice, columns: slice) -> Float[Tensor, "*batch heads rows columns"]:
        """Values of some queries and keys; see `Bias.block`."""
        return self.values[..., rows, columns]


@dataclass(frozen=True, eq=False)
class SumBias(Bias):
    """The sum of several biases; each keeps its structure.

    Args:
        terms: at least one bias, none of them a sum itself.
    """

    terms: tuple[Bias, ...]

    def dense(self) -> Float[Tensor, "*batch heads q k"]:
        """All values; see `Bias.dense`."""
        total = self.terms[0].dense()
        for term in self.terms[1:]:
            total = total + term.dense()
        return total

    def block(self, rows: slice, columns: slice) -> Float[Tensor, "*batch heads rows columns"]:
        """Values of some queries and keys; see `Bias.block`."""
        total = self.terms[0].block(rows, columns)
        for term in self.terms[1:]:
            total = total + term.block(rows, columns)
        return total


def _terms(bias: Bias) -> tuple[Bias, ...]:
    return bias.terms if isinstance(bias, SumBias) else (bias,)
