"""FlexAttention: PyTorch compiles the bias and the mask into its kernel, once for each structure.

A bias of distance is read from the vector of all distances, [heads, 2k - 1]; causality, a window and segments are a
function of two indices, and blocks of 128 by 128 pairs that hold nothing are left out. Compilation takes some ten
seconds, whatever the length, and needs the compiler that `torch.compile` needs. It is never chosen by itself: on a CPU
`toeplitz` is faster and trains, and on a GPU it was not measured yet. Ask for it, `backend="flex"`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from lengthwise.attention.request import Request, Run, backends
from lengthwise.attention.toeplitz import refuses_distances, sum_of_vectors
from lengthwise.positions import Positions
from lengthwise.precision import autocasts, transforms_active

Seen = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""From the indices of batch, head, query and key to whether the pair is seen."""
Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""From a logit and these indices to the logit with its bias."""
_SIDE = 128
"""Queries and keys of a block, the kernel's own default."""


class Flex:
    """A bias of distance, a window and segments in PyTorch's compiled attention."""

    compiles: ClassVar[bool] = True
    """Its first call compiles, for many seconds."""

    def refuses(self, request: Request) -> str | None:
        """Only aligned positions, without dropout, and on a CPU without gradients."""
        reason = refuses_distances(request)
        if reason is not None:
            return reason
        if request.dropout:
            return "the kernel has no dropout"
        if request.dtype == torch.float64:
            return "the kernel has no float64"
        if request.device.type not in ("cpu", "cuda"):
            return f"it is for CPUs and CUDA, and the queries are on {request.device.type}"
        if request.device.type == "cuda" and request.head_dim < 16:
            return "on a GPU the kernel needs heads of at least 16 dims"
        if request.device.type == "cpu" and torch.is_grad_enabled():
            return "on a CPU it has no backward pass: call it under torch.no_grad()"
        if torch.compiler.is_compiling():
            return "a compiler would have to compile within itself"
        if transforms_active():
            return "a transform of torch.func or forward mode is active"
        return None

    def cost(self, request: Request) -> float:
        """Above all that does not compile."""
        return 100.0

    def plan(self, request: Request) -> Run:
        """Form the vector and the blocks."""
        positions, keys = request.positions, request.k_length
        past = torch.tensor(keys - request.q_length, device=request.device)
        score = None
        if request.bias is not None:
            score = _score(sum_of_vectors(request), past, torch.tensor(keys - 1, device=request.device))
        mask = _mask(positions, past)
        blocks = None if mask is None else _blocks(positions, mask)
        grouped = request.heads != request.kv_heads

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            kind = q.device.type
            if autocasts(kind):
                q, k, v = (x.to(torch.get_autocast_dtype(kind)) for x in (q, k, v))
            return compiled()(q, k, v, score_mod=score, block_mask=blocks, scale=request.scale, enable_gqa=grouped)

        return run


backends.register("flex")(Flex())


@functools.cache
def compiled() -> Callable[..., Any]:
    """PyTorch's function, compiled once for all lengths.

    As a whole: past the limit of graphs, one for each number of heads, width and kind of mask, PyTorch says so (and how
    to raise it) rather than to form all logits.
    """
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=True, fullgraph=True)


# Lambdas: what is compiled is told by their number of arguments, which a decorator would hide.
def _score(values: Tensor, past: Tensor, zero: Tensor) -> Score:
    return lambda logit, batch, head, q, k: logit + values[head, q + past - k + zero]


def _mask(positions: Positions, past: Tensor) -> Seen | None:
    """Which pairs are seen, from their indices; None where all are."""
    q_segment, k_segment, device = positions.q_segment, positions.k_segment, positions.device
    seen: Seen | None = None
    if positions.causal:
        seen = _both(None, lambda batch, head, q, k: q + past >= k)
    if positions.window is not None:
        window = torch.tensor(positions.window, device=device)
        seen = _both(seen, lambda batch, head, q, k: (q + past - k).abs() <= window)
    if q_segment is not None and k_segment is not None:
        one = torch.tensor(int(q_segment.shape[0] > 1), device=device)  # a row for all, or one each
        seen = _both(seen, lambda batch, head, q, k: q_segment[batch * one, q] == k_segment[batch * one, k])
        seen = _both(seen, lambda batch, head, q, k: q_segment[batch * one, q] != -1)
    return seen


def _both(first: Seen | None, second: Seen) -> Seen:
    if first is None:
        return second
    return lambda batch, head, q, k: first(batch, head, q, k) & second(batch, head, q, k)


def _blocks(positions: Positions, mask: Seen) -> Any:
    """Which blocks hold visible pairs, and which hold no others: told by the ends of each, without a table of pairs."""
    from torch.nn.attention.flex_attention import BlockMask

    queries, keys, device = positions.q_length, positions.k_length, positions.device
    starts = [torch.arange(0, length, _SIDE, device=device) for length in (queries, keys)]
    first_q, first_k = starts[0].unsqueeze(1) + (keys - queries), starts[1]
    last_q, last_k = first_q + _SIDE - 1, first_k + _SIDE - 1
    some = torch.ones(len(starts[0]), len(starts[1]), dtype=torch.bool, device=device)
    whole = (starts[0].unsqueeze(1) + _SIDE <= queries) & (starts[1] + _SIDE <= keys)
    if positions.causal:
        some, whole = some & (last_q >= first_k), whole & (first_q >= last_k)
    if positions.window is not None:
        back, ahead = positions.window, positions.window
        some = some & (first_q - last_k <= back) & (first_k - last_q <= ahead)
        whole = whole & (last_q - first_k <= back) & (last_k - first_q <= ahead)
    some, whole = some[None], whole[None]  # [batch, blocks of queries, blocks of keys]
    if positions.q_segment is not None and positions.k_segment is not None:
        (low_q, high_q), (low_k, high_k) = (_ends(part) for part in (positions.q_segment, positions.k_segment))
        low_q, high_q, low_k, high_k = (
            low_q.unsqueeze(2), high_q.unsqueeze(2), low_k.unsqueeze(1), high_k.unsqueeze(1)
        )  # fmt: skip
        some = some & (high_q >= low_k) & (high_k >= low_q)
        whole = whole & (low_q == high_q) & (low_k == high_k) & (low_q == low_k) & (low_q != -1)
    parts = [_listed(kind) for kind in (some & ~whole, whole)]
    return BlockMask.from_kv_blocks(*parts[0], *parts[1], BLOCK_SIZE=_SIDE, mask_mod=mask, seq_lengths=(queries, keys))


def _ends(segment: Tensor) -> tuple[Tensor, Tensor]:
    """Lowest and highest segment of each block, `[batch, blocks]`."""
    full = pad(segment, (0, -segment.shape[1] % _SIDE), value=-1).unflatten(1, (-1, _SIDE))
    return full.amin(2), full.amax(2)


def _listed(kind: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of keys each block of queries has, and which these are, first."""
    order = kind.int().argsort(dim=-1, descending=True, stable=True)
    return kind.sum(-1, dtype=torch.int32).unsqueeze(1), order.to(torch.int32).unsqueeze(1)
