"""A bias of distance in memory that grows with the length, not its square.

Where the promise `aligned` holds, the bias of a pair is one of the 2k - 1 numbers of `DistanceBias.vector()`: a
Toeplitz matrix. With the keys and values in reverse it becomes a Hankel matrix, whose rows are windows of one vector,
each a step further on: a strided view, which PyTorch's fused CPU kernel takes as its mask. What may not be seen is -inf
in the same vector. Queries go by blocks, each with the keys that it can see, so that causal attention does half the
work.

The gradient of the vector is the sum of the gradient of the logits over each diagonal. It is formed a block of queries
at a time: each row padded by the number of rows and read one column shorter turns diagonals into columns.

The work is one operator of PyTorch's library, so that compilers and exporters take it whole, whatever the length.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from lengthwise.attention.request import Request, Run, backends
from lengthwise.bias import Bias, DistanceBias, SumBias
from lengthwise.errors import InvalidArgument
from lengthwise.precision import autocasts, in_transform, with_rows

_ROWS = 256
"""Queries in a block: more waste work above the diagonal, fewer leave the kernel's threads idle."""

_LOGITS = 2**20
"""Gradients of logits that are held at a time."""

_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor values, Tensor? q_segment, Tensor? k_segment, "
    "float scale, bool causal, int window"
)
_GIVEN = "Tensor grad, " + _ARGUMENTS.replace("values, ", "values, Tensor out, Tensor lse, ") + ", bool learned"


class Toeplitz:
    """A bias of distance as a strided view of one vector, on a CPU."""

    def refuses(self, request: Request) -> str | None:
        """Only aligned positions, on a CPU, without dropout."""
        reason = refuses_distances(request)
        if reason is not None:
            return reason
        if request.bias is None and request.positions.plain:
            return "there is neither a bias nor a mask to lay out"
        if request.device.type != "cpu":
            return f"the kernel that reads the view is that of a CPU, and the queries are on {request.device.type}"
        if request.dropout:
            return "the kernel has no dropout"
        if torch.compiler.is_exporting():
            return "an exported program would need this package to run"
        if in_transform():
            return "the operator has a backward pass only, and a transform of torch.func or forward mode is active"
        return None

    def cost(self, request: Request) -> float:
        """Little above attention without a bias, but for small requests, which its blocks do not pay for."""
        if request.q_length == 1:
            return 6.0
        # A compiler would make a graph for either answer to a question about lengths.
        large = torch.compiler.is_compiling() or request.q_length * request.k_length >= 256 * 256
        return 1.3 if large else 6.0

    def plan(self, request: Request) -> Run:
        """Form the vector; differentiable in what the bias has learned."""
        positions, keys = request.positions, request.k_length
        values = sum_of_vectors(request)
        distance = torch.arange(values.shape[1], device=values.device) - (keys - 1)
        hidden = torch.zeros_like(distance, dtype=torch.bool)
        if positions.causal:
            hidden = distance < 0
        if positions.window is not None:
            hidden = hidden | (distance.abs() > positions.window)
        values = values.masked_fill(hidden, float("-inf")).contiguous()
        window = -1 if positions.window is None else positions.window
        segments = positions.q_segment, positions.k_segment

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if autocasts("cpu") and q.dtype != torch.float64:
                q, k, v = (x.to(torch.get_autocast_dtype("cpu")) for x in (q, k, v))
            width = max(q.shape[-1], v.shape[-1])  # the kernel knows one width only
            parts = (q, *request.without_padding(k, v))
            parts = (pad(x, (0, width - x.shape[-1])) if x.shape[-1] != width else x for x in parts)
            mask = values.to(torch.promote_types(q.dtype, torch.float32))
            out = by_distance(*parts, mask, *segments, request.scale, positions.causal, window)[0]
            return out[..., : v.shape[-1]]

        return run


backends.register("toeplitz")(Toeplitz())


def refuses_distances(request: Request) -> str | None:
    """Why a request is not all told by differences in index, in one clause; None where it is."""
    if request.logits is not None:
        return "the encoding computes whole logits"
    terms = _terms(request.bias)
    if not all(isinstance(term, DistanceBias) for term in terms):
        return "the bias is no function of distance alone"
    if not all(cast(DistanceBias, term).positions.aligned for term in terms):
        return "the positions do not promise to be aligned: their distances are no differences in index"
    if not request.positions.aligned:
        return "what may be seen is not told by aligned positions"
    return None


def sum_of_vectors(request: Request) -> Tensor:
    """The bias at all distances, `[heads, 2k - 1]`; zeros where there is none."""
    several = max(2 * request.k_length - 1, 0)
    vectors = [cast(DistanceBias, term).vector() for term in _terms(request.bias)]
    for vector in vectors:
        if vector.shape != (request.heads, several):
            raise InvalidArgument(
                f"the bias is of {vector.shape[0]} heads, and this attention has {request.heads} query heads"
            )
    none = torch.zeros(1, several, device=request.positions.device)
    return functools.reduce(operator.add, vectors, none).expand(request.heads, -1)


def _terms(bias: Bias | None) -> tuple[Bias, ...]:
    if bias is None:
        return ()
    return bias.terms if isinstance(bias, SumBias) else (bias,)


@torch.library.custom_op("lengthwise::toeplitz", mutates_args=(), schema=f"({_ARGUMENTS}) -> (Tensor, Tensor)")
def by_distance(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    values: Tensor,
    q_segment: Tensor | None,
    k_segment: Tensor | None,
    scale: float,
    causal: bool,
    window: int,
) -> tuple[Tensor, Tensor]:
    """Output `[batch, heads, q, head_dim]` and log-sum-exp `[batch, heads, q]`."""
    q, backwards, values_backwards = (with_rows(x) for x in (q, k.flip(2), v.flip(2)))
    out = q.new_zeros(q.shape)
    lse = torch.full(q.shape[:3], float("-inf"), dtype=torch.promote_types(q.dtype, torch.float32))
    for rows, columns, mask in _blocks(q, k, values, q_segment, k_segment, causal, window):
        out[:, :, rows], lse[:, :, rows] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q[:, :, rows], backwards[:, :, columns], values_backwards[:, :, columns], attn_mask=mask, scale=scale
        )
    return out, lse


@by_distance.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(
        q.shape[:3], dtype=torch.promote_types(q.dtype, torch.float32)
    )


@torch.library.custom_op(
    "lengthwise::toeplitz_backward", mutates_args=(), schema=f"({_GIVEN}) -> (Tensor, Tensor, Tensor, Tensor)"
)
def _back(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    values: Tensor,
    out: Tensor,
    lse: Tensor,
    q_segment: Tensor | None,
    k_segment: Tensor | None,
    scale: float,
    causal: bool,
    window: int,
    learned: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, backwards, values_backwards = (with_rows(x) for x in (q, k.flip(2), v.flip(2)))
    dq, dk, dv = q.new_zeros(q.shape), torch.zeros_like(backwards), torch.zeros_like(values_backwards)
    dvalues = torch.zeros_like(values)
    for rows, columns, mask in _blocks(q, k, values, q_segment, k_segment, causal, window):
        part = q[:, :, rows], backwards[:, :, columns], values_backwards[:, :, columns]
        given = grad[:, :, rows], out[:, :, rows], lse[:, :, rows]
        dq[:, :, rows], more_k, more_v = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            given[0], *part, *given[1:], 0.0, False, attn_mask=mask, scale=scale
        )
        dk[:, :, columns] += more_k
        dv[:, :, columns] += more_v
        if learned:
            _add_diagonals(dvalues, rows, columns, (grad, q, out, lse), part[1:], mask, scale, k.shape[2])
    del backwards, values_backwards
    return dq, dk.flip(2), dv.flip(2), dvalues


@_back.register_fake
def _(grad: Tensor, q: Tensor, k: Tensor, v: Tensor, values: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v, values))


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, values, q_segment, k_segment, *ctx.settings = inputs
    ctx.learned = ctx.needs_input_grad[3]
    ctx.save_for_backward(q, k, v, values, *output, q_segment, k_segment)


def _gradients(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    dq, dk, dv, dvalues = _back(grad.contiguous(), *ctx.saved_tensors, *ctx.settings, ctx.learned)
    return dq, dk, dv, dvalues if ctx.learned else None, None, None, None, None, None


by_distance.register_autograd(_gradients, setup_context=_keep)


def _blocks(
    q: Tensor, k: Tensor, values: Tensor, q_segment: Tensor | None, k_segment: Tensor | None, causal: bool, window: int
) -> Iterator[tuple[slice, slice, Tensor]]:
    """Rows of queries, columns of reversed keys that these can see, and the mask of both by head."""
    queries, keys = q.shape[2], k.shape[2]
    past = keys - queries
    for start in reversed(range(0, queries, _ROWS)):  # the widest first: what it frees has room for all others
        stop = min(start + _ROWS, queries)
        last = past + stop if causal else keys if window < 0 else min(keys, past + stop + window)
        first = max(0, past + start - window) if window >= 0 else 0
        rows, columns = slice(start, stop), slice(keys - last, keys - first)
        same = None
        if q_segment is not None and k_segment is not None:
            own = q_segment[:, rows, None]
            same = (own == k_segment.flip(1)[:, None, columns]) & (own != -1)  # [batch, rows, columns]
            seen = same.any(dim=0).any(dim=0).nonzero()
            if seen.numel() == 0:
                continue
            low, high = int(seen[0]), int(seen[-1]) + 1
            same, columns = same[..., low:high], slice(columns.start + low, columns.start + high)
        size = (1, values.shape[0], stop - start, columns.stop - columns.start)
        stride = (0, values.stride(0), 1, 1)
        mask = values.as_strided(size, stride, values.storage_offset() + _first(rows, columns, queries, keys))
        yield rows, columns, mask if same is None else mask.masked_fill(~same.unsqueeze(1), float("-inf"))


def _first(rows: slice, columns: slice, queries: int, keys: int) -> int:
    """Where in the vector the pair of the first row and the first column stands."""
    return 2 * keys - 1 - queries + rows.start - (keys - 1 - columns.start)


def _add_diagonals(
    dvalues: Tensor,
    rows: slice,
    columns: slice,
    of_queries: tuple[Tensor, Tensor, Tensor, Tensor],
    of_keys: tuple[Tensor, Tensor],
    mask: Tensor,
    scale: float,
    keys: int,
) -> None:
    """Add what a block gives to the gradient of the vector, a few rows of one head at a time."""
    queries, heads, group = of_queries[0].shape[2], of_queries[0].shape[1], mask.shape[1] // of_keys[0].shape[1]
    several = max(1, _LOGITS // (of_queries[0].shape[0] * mask.shape[3]))
    for head in range(heads):
        k, v = (x[:, head // group].to(of_queries[3].dtype) for x in of_keys)
        for start in range(rows.start, rows.stop, several):
            here = slice(start, min(start + several, rows.stop))
            grad, q, out, lse = (x[:, head, here] for x in of_queries)
            own = mask[:, head, start - rows.start : here.stop - rows.start]
            sums = _diagonal_sums(_logit_gradient(grad, out, lse, q, k, v, own, scale))
            first = _first(here, columns, queries, keys)
            dvalues[head, first : first + len(sums)] += sums


def _logit_gradient(
    grad: Tensor, out: Tensor, lse: Tensor, q: Tensor, k: Tensor, v: Tensor, mask: Tensor, scale: float
) -> Tensor:
    """Gradient of one head's logits `[batch, rows, columns]`, in float32 or wider."""
    grad, out, q = (x.to(lse.dtype) for x in (grad, out, q))
    with torch.autocast("cpu", enabled=False):
        weights = torch.matmul(q * scale, k.transpose(-1, -2)).add_(mask).sub_(lse.unsqueeze(-1)).exp_()
        less = (grad * out).sum(-1, keepdim=True)
        return torch.matmul(grad, v.transpose(-1, -2)).sub_(less).mul_(weights)


def _diagonal_sums(x: Tensor) -> Tensor:
    """Sums of `x [batch, rows, columns]` over the batch and over row + column: `[rows + columns - 1]`."""
    rows, columns = x.shape[1:]
    wide = pad(x.sum(0), (0, rows)).flatten()  # [rows * (columns + rows)]
    return wide[:-rows].unflatten(0, (rows, rows + columns - 1)).sum(0)
