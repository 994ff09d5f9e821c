"""What attention is asked to do, known before any number is computed, and who can do it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from lengthwise.bias import Bias
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.registry import Registry
from lengthwise.sites import Logits

Run = Callable[[Tensor, Tensor, Tensor], Any]
"""From q `[batch, heads, q, head_dim]` and k, v `[batch, kv_heads, k, head_dim]` to `[batch, heads, q, head_dim]`.

A backend with `gives_lse = True` returns a pair where the request asks for the log-sum-exp `[batch, heads, q]` too: of
the scaled logits with their bias, over visible keys, in float32 or wider; -inf for a row that sees none.
"""


@dataclass(frozen=True, eq=False)
class Request:
    """Shapes, positions, bias and settings of one attention; every layer of a forward asks the same.

    Args:
        batch, heads, kv_heads, q_length, k_length, head_dim: sizes.
        dtype: of the queries.
        device: of the queries.
        positions: where the tokens are and what they may see.
        bias: added to the scaled logits.
        logits: computes whole logits in place of q·k.
        scale: factor of q·k.
        dropout: part of the attention weights that is set to zero.
        normalizes: the logits are logarithms of the weights themselves: no softmax is taken.
        lse: the log-sum-exp of each row's logits is asked for too.
    """

    batch: int
    heads: int
    kv_heads: int
    q_length: int
    k_length: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device
    positions: Positions
    bias: Bias | None
    logits: Logits | None
    scale: float
    dropout: float
    normalizes: bool = False
    lse: bool = False

    def __post_init__(self) -> None:
        if self.kv_heads < 1 or self.heads % self.kv_heads:
            raise InvalidArgument(
                f"{self.heads} query heads can't share {self.kv_heads} key and value heads: the second must divide "
                "the first"
            )
        if not self.dtype.is_floating_point:
            raise InvalidArgument(f"queries must be floating point, not {self.dtype}")
        if not 0.0 <= self.dropout < 1.0:
            raise InvalidArgument(f"dropout must be in [0, 1), not {self.dropout}")
        if self.head_dim < 1:
            raise InvalidArgument("queries and keys need a head_dim of at least 1, not 0")
        if self.positions.device != self.device:
            raise InvalidArgument(
                f"positions are on {self.positions.device} and the queries on {self.device}: "
                "positions.to(device) moves them"
            )
        if self.positions.batch not in (1, self.batch):
            raise InvalidArgument(
                f"positions are of {self.positions.batch} rows, and the tensors hold {self.batch}: "
                "one row serves all, else each needs its own"
            )
        if (self.positions.q_length, self.positions.k_length) != (self.q_length, self.k_length):
            raise InvalidArgument(
                f"positions are of {self.positions.q_length} queries and {self.positions.k_length} keys, "
                f"and the tensors hold {self.q_length} and {self.k_length}"
            )

    @classmethod
    def of(
        cls,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        positions: Positions | None,
        bias: Bias | None = None,
        logits: Logits | None = None,
        scale: float | None = None,
        dropout: float = 0.0,
        normalizes: bool = False,
        lse: bool = False,
    ) -> Request:
        """The request that these tensors make; positions None means a causal sequence that ends with the queries."""
        for name, x in (("q", q), ("k", k), ("v", v)):
            if x.dim() != 4:
                raise InvalidArgument(f"{name} must be [batch, heads, length, head_dim], not of shape {list(x.shape)}")
        if not q.dtype == k.dtype == v.dtype and not torch.is_autocast_enabled(q.device.type):
            raise InvalidArgument(f"q, k and v must be of one dtype, not {q.dtype}, {k.dtype} and {v.dtype}")
        if k.shape[:3] != v.shape[:3]:
            raise InvalidArgument(f"k {list(k.shape)} and v {list(v.shape)} must agree in batch, heads and length")
        if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
            raise InvalidArgument(f"q {list(q.shape)} and k {list(k.shape)} must agree in batch and head_dim")
        if positions is None:
            if q.shape[2] > k.shape[2]:
                raise InvalidArgument(
                    f"{q.shape[2]} queries can't be the last of {k.shape[2]} keys: pass positions, "
                    "for example Positions.cross(...)"
                )
            positions = Positions.step(k.shape[2] - q.shape[2], q.shape[2], device=q.device)
        return cls(
            batch=q.shape[0],
            heads=q.shape[1],
            kv_heads=k.shape[1],
            q_length=q.shape[2],
            k_length=k.shape[2],
            head_dim=q.shape[3],
            dtype=q.dtype,
            device=q.device,
            positions=positions,
            bias=bias,
            logits=logits,
            scale=max(q.shape[3], 1) ** -0.5 if scale is None else scale,
            dropout=dropout,
            normalizes=normalizes,
            lse=lse,
        )

    def without_padding(self, *of_keys: Tensor) -> tuple[Tensor, ...]:
        """Keys or values `[batch, heads, k, dim]` with zeros at padding, for roads that add a mask to what is there.

        A cache may hold anything where nothing was written yet, and NaN less infinity is NaN.
        """
        segment = self.positions.k_segment
        if segment is None:
            return of_keys
        return tuple(x.masked_fill((segment == -1)[:, None, :, None], 0.0) for x in of_keys)

    def dense_bias(self) -> Float[Tensor, "#batch heads q k"] | None:
        """All values of the bias; its heads are query heads, and of its sizes only the batch may be 1.

        Raises:
            InvalidArgument: a bias of another shape, which would broadcast in silence.
        """
        if self.bias is None:
            return None
        return self.checked(self.bias.dense(), self.q_length, self.k_length)

    def checked(self, values: Tensor, queries: int, keys: int) -> Float[Tensor, "#batch heads q k"]:
        """Values of a bias for so many queries and keys, with a batch in front.

        Raises:
            InvalidArgument: values of another shape, which would broadcast in silence.
        """
        return checked(values, self.batch, self.heads, queries, keys)


def checked(values: Tensor, batch: int, heads: int, queries: int, keys: int) -> Float[Tensor, "#batch heads q k"]:
    """As `Request.checked`, for an operator, which has no request."""
    values = values.unsqueeze(0) if values.dim() == 3 else values
    if values.shape[1:] != (heads, queries, keys) or values.shape[0] not in (1, batch):
        raise InvalidArgument(
            f"the bias is of shape {list(values.shape)}, and this attention needs [1 or {batch}, {heads} "
            f"query heads, {queries} queries, {keys} keys]"
        )
    return values


class Backend(Protocol):
    """One road to the numbers that the reference defines."""

    def refuses(self, request: Request) -> str | None:
        """Why this backend can't take the request, in one clause; None where it can."""
        ...

    def cost(self, request: Request) -> float:
        """Time relative to attention without a bias, about; the cheapest that does not refuse is chosen."""
        ...

    def plan(self, request: Request) -> Run:
        """Do all that depends on the request alone, and return what runs on the tensors."""
        ...


backends: Registry[Backend] = Registry("attention backend", "lengthwise.backends")
