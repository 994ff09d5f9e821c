"""Attention with any encoding, in one call."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.attention.plan import Explanation, explain, plan
from lengthwise.attention.reference import attention_probabilities
from lengthwise.attention.request import Request
from lengthwise.bias import Bias
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: nn.Module | Prepared | None = ...,
    positions: Positions | None = ...,
    *,
    scale: float | None = ...,
    backend: str = ...,
    dropout: float = ...,
    hidden: Tensor | None = ...,
    state: Any = ...,
    return_lse: Literal[False] = ...,
    training: bool = ...,
    generator: torch.Generator | None = ...,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: nn.Module | Prepared | None = ...,
    positions: Positions | None = ...,
    *,
    scale: float | None = ...,
    backend: str = ...,
    dropout: float = ...,
    hidden: Tensor | None = ...,
    state: Any = ...,
    return_lse: Literal[True],
    training: bool = ...,
    generator: torch.Generator | None = ...,
) -> tuple[Tensor, Tensor]: ...


def attention(
    q: Float[Tensor, "batch heads q head_dim"],
    k: Float[Tensor, "batch kv_heads k head_dim"],
    v: Float[Tensor, "batch kv_heads k value_dim"],
    encoding: nn.Module | Prepared | None = None,
    positions: Positions | None = None,
    *,
    scale: float | None = None,
    backend: str = "auto",
    dropout: float = 0.0,
    hidden: Float[Tensor, "batch q dim"] | None = None,
    state: Any = None,
    return_lse: bool = False,
    training: bool = False,
    generator: torch.Generator | None = None,
) -> Any:
    """Softmax attention with a positional encoding (Vaswani et al. 2017, eq. 1, and the encoding's own paper).

    Rotates q and k, adds the bias or computes the logits as the encoding says, masks by order and segments. An encoding
    that acts on token embeddings alone has done its work before, so here it changes nothing.

    Args:
        q: queries, not rotated.
        k: keys, not rotated; for a cache of rotated keys use `attend`.
        v: values.
        encoding: an encoding, or what `prepare` made of one, to share it between layers.
        positions: where the tokens are; None: a causal sequence whose last tokens are the queries.
        scale: factor of q·k, 1/sqrt(head_dim) where None.
        backend: a name from `lengthwise.backends`, or `"auto"`.
        dropout: part of the attention weights set to zero; pass 0 outside training.
        hidden: hidden states of the queries' tokens, for an encoding that reads them.
        state: what it said of earlier tokens; a loop that needs the next state calls `Prepared.read` itself.
        return_lse: return the log-sum-exp of each row's logits too, for `merge`.
        training: make the draws that belong to training, of encodings that draw positions; as for `prepare`.
        generator: source of these draws.

    Returns:
        `[batch, heads, q, value_dim]`; with `return_lse` a pair with the log-sum-exp `[batch, heads, q]`, in float32 or
        wider, -inf for a row that sees nothing.

    Raises:
        InvalidArgument: shapes that do not fit together, or an encoding that reads hidden states without any.
        BackendRefused: the named backend can't do this, with its reason.

    Example:
        >>> import torch, lengthwise as lw
        >>> q = k = v = torch.randn(1, 8, 16, 64)
        >>> lw.attention(q, k, v, lw.ALiBi(heads=8)).shape
        torch.Size([1, 8, 16, 64])
    """
    draws = training, generator
    q, k, request = _request(q, k, v, encoding, positions, scale, dropout, hidden, state, return_lse, draws)
    return plan(request, backend)(q, k, v)


@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Bias | None = ...,
    positions: Positions | None = ...,
    *,
    scale: float | None = ...,
    backend: str = ...,
    dropout: float = ...,
    return_lse: Literal[False] = ...,
) -> Tensor: ...
@overload
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Bias | None = ...,
    positions: Positions | None = ...,
    *,
    scale: float | None = ...,
    backend: str = ...,
    dropout: float = ...,
    return_lse: Literal[True],
) -> tuple[Tensor, Tensor]: ...


def attend(
    q: Float[Tensor, "batch heads q head_dim"],
    k: Float[Tensor, "batch kv_heads k head_dim"],
    v: Float[Tensor, "batch kv_heads k value_dim"],
    bias: Bias | None = None,
    positions: Positions | None = None,
    *,
    scale: float | None = None,
    backend: str = "auto",
    dropout: float = 0.0,
    return_lse: bool = False,
) -> Any:
    """The half of `attention` after rotation: for a cache that holds rotated keys. Arguments as there."""
    request = Request.of(q, k, v, positions, bias, None, scale, dropout, lse=return_lse)
    return plan(request, backend)(q, k, v)


def attention_weights(
    q: Float[Tensor, "batch heads q head_dim"],
    k: Float[Tensor, "batch kv_heads k head_dim"],
    encoding: nn.Module | Prepared | None = None,
    positions: Positions | None = None,
    *,
    scale: float | None = None,
    hidden: Float[Tensor, "batch q dim"] | None = None,
    state: Any = None,
) -> Float[Tensor, "batch heads q k"]:
    """The softmax itself, float32, for looking at; arguments as for `attention`."""
    q, k, request = _request(q, k, k, encoding, positions, scale, 0.0, hidden, state)
    return attention_probabilities(q, k, request)


def explain_attention(
    q: Float[Tensor, "batch heads q head_dim"],
    k: Float[Tensor, "batch kv_heads k head_dim"],
    v: Float[Tensor, "batch kv_heads k value_dim"],
    encoding: nn.Module | Prepared | None = None,
    positions: Positions | None = None,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    hidden: Float[Tensor, "batch q dim"] | None = None,
    state: Any = None,
) -> Explanation:
    """Every backend with what it says to this call, without running any; arguments as for `attention`."""
    return explain(_request(q, k, v, encoding, positions, scale, dropout, hidden, state)[2])


def _request(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    encoding: nn.Module | Prepared | None,
    positions: Positions | None,
    scale: float | None,
    dropout: float,
    hidden: Tensor | None,
    state: Any,
    lse: bool = False,
    draws: tuple[bool, torch.Generator | None] = (False, None),
) -> tuple[Tensor, Tensor, Request]:
    if isinstance(encoding, Prepared):
        if positions is not None and positions is not encoding.positions:
            raise InvalidArgument("a Prepared has its positions already: do not pass positions with it")
        prepared = encoding
    else:
        known = Request.of(q, k, v, positions, scale=scale, dropout=dropout).positions
        prepared = prepare(encoding, known, training=draws[0], generator=draws[1])
    if prepared.readers:
        if hidden is None:
            raise InvalidArgument(
                "this encoding reads hidden states: pass hidden=, [batch, q, dim] of the queries' tokens, "
                "or what Prepared.read returned"
            )
        prepared = prepared.read(hidden, state)[0]
    request = Request.of(
        q, k, v, prepared.positions, prepared.bias, prepared.logits, scale, dropout, prepared.normalizes, lse
    )
    if prepared.rotation is not None:
        q, k = prepared.rotation(q, k)
    return q, k, request
