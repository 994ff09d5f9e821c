"""A bias of pairs by tiles of some queries and some keys, as one operator of PyTorch's library.

Each tile forms its part of the bias. Forward, PyTorch's fused kernel takes it as a mask, and the outputs of a row of
tiles are merged by their log-sum-exps. Backward, these tell the weights of each tile by itself (Dao et al. 2022,
2205.14135, algorithm 4), and the gradient of its logits goes back through the bias at once. Memory is that of a tile,
and no tensor of all keys is touched for a few queries.

An operator is given tensors and numbers and nothing else, so this serves biases that can be said with them: a
`PairFunction`, of positions of one axis. Its tensors go in as one row, since a list of them has no rule for batches of
gradients. Compilers take it whole, whatever the length.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import _C, Tensor  # pyright: ignore[reportPrivateUsage]
from torch.nn.functional import pad

from lengthwise.attention.merge import merge
from lengthwise.attention.request import Request, checked
from lengthwise.bias import PairBias, PairFunction
from lengthwise.errors import BackendRefused
from lengthwise.positions import Positions
from lengthwise.precision import in_transform, with_rows

_PAIRS = 2**20
"""Pairs of one head's queries and keys, times heads and batch, that a tile holds at most."""

_ARGUMENTS = (
    "Tensor q, Tensor k, Tensor v, Tensor learned, Tensor q_place, Tensor k_place, Tensor? q_segment, "
    "Tensor? k_segment, Tensor? q_order, Tensor? k_order, str function, SymInt[] shapes, float[] numbers, "
    "float scale, bool causal, int window"
)


def refuses_tiles(request: Request) -> str | None:
    """Why a request can't go by tiles, in one clause; None where it can."""
    if request.logits is not None:
        return "the encoding computes whole logits"
    bias = request.bias
    if type(bias) is not PairBias or type(bias.of_pair) is not PairFunction:  # a subclass may do other things
        return "the bias is no PairFunction"
    function = cast(PairFunction, bias.of_pair)
    if bias.axes != 1 or bias.positions.axes != 1:
        return "the bias reads positions of several axes"
    tensors = function.tensors
    if any(x.dtype != tensors[0].dtype or not x.is_floating_point() for x in tensors):
        return "the function's tensors are of several dtypes, or not floating point"
    if request.lse or request.normalizes or request.dropout:
        return "tiles give neither a log-sum-exp nor dropout"
    if request.device.type != "cpu":
        return f"the kernel that takes them is that of a CPU, and the queries are on {request.device.type}"
    if torch.compiler.is_exporting():
        return "an exported program would need this package to run"
    if in_transform():
        return "the operator has a backward pass only, and a transform of torch.func or forward mode is active"
    return None


def attend_by_tiles(request: Request, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention of a request that is not refused; arguments as for a backend."""
    bias, positions = cast(PairBias, request.bias), request.positions
    function, window = cast(PairFunction, bias.of_pair), -1 if positions.window is None else positions.window
    seen = positions.q_segment, positions.k_segment, positions.q_order, positions.k_order
    shapes = [size for x in function.tensors for size in (x.dim(), *x.shape)]
    settings = function.name, shapes, list(function.numbers), request.scale, positions.causal, window
    dtype, value_dim, wide = q.dtype, v.shape[-1], torch.promote_types(q.dtype, torch.float32)
    width = max(q.shape[-1], v.shape[-1])  # the kernel knows one width only
    parts = (q, *request.without_padding(k, v))
    parts = (pad(x.to(wide), (0, width - x.shape[-1])) if x.shape[-1] != width else x.to(wide) for x in parts)
    row = torch.cat([x.flatten() for x in function.tensors]) if function.tensors else q.new_empty(0)
    out, _ = _by_tiles(*parts, row, *bias.positions.one_axis(), *seen, *settings)
    return out[..., :value_dim].to(dtype)


@dataclass(frozen=True)
class _Tile:
    rows: slice
    columns: slice
    bias: PairBias
    visible: Tensor | None
    scale: float

    def values(self, batch: int, heads: int) -> Tensor:
        """The bias `[1 or batch, heads, rows, columns]`."""
        size = self.rows.stop - self.rows.start, self.columns.stop - self.columns.start
        return checked(self.bias.block(self.rows, self.columns), batch, heads, *size)

    def masked(self, values: Tensor) -> Tensor:
        """Values `[batch, heads, rows, columns]` with -inf where a pair is not seen."""
        if self.visible is None:
            return values
        return values.masked_fill(~(self.visible if self.visible.dim() == 2 else self.visible.unsqueeze(1)), -torch.inf)


@torch.library.custom_op("lengthwise::tiles", mutates_args=(), schema=f"({_ARGUMENTS}) -> (Tensor, Tensor)")
def _by_tiles(q: Tensor, k: Tensor, v: Tensor, learned: Tensor, *settings: Any) -> tuple[Tensor, Tensor]:
    """Output `[batch, heads, q, head_dim]` and log-sum-exp `[batch, heads, q]`."""
    q, k, v = (with_rows(x) for x in (q, k, v))
    out, lse = q.new_zeros(q.shape), q.new_full(q.shape[:3], -torch.inf)
    for tile in _tiles(q, k, learned, *settings):
        rows, columns = tile.rows, tile.columns
        with _recording(False):
            mask = tile.masked(tile.values(q.shape[0], q.shape[1]).to(q.dtype))
        found, more = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q[:, :, rows], k[:, :, columns], v[:, :, columns], attn_mask=mask, scale=tile.scale
        )
        # Of a row that sees nothing the kernel says another number than -inf.
        more = more.masked_fill(mask.amax(dim=-1) == -torch.inf, -torch.inf)
        if columns.start:  # others of these queries came before
            found, more = merge([(out[:, :, rows], lse[:, :, rows]), (found, more)])
        out[:, :, rows], lse[:, :, rows] = found, more
    return out, lse


@_by_tiles.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(q.shape[:3])


@torch.library.custom_op(
    "lengthwise::tiles_backward",
    mutates_args=(),
    schema=f"(Tensor grad, Tensor out, Tensor lse, bool learns, {_ARGUMENTS}) -> (Tensor, Tensor, Tensor, Tensor)",
)
def _back(
    grad: Tensor,
    out: Tensor,
    lse: Tensor,
    learns: bool,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    learned: Tensor,
    *settings: Any,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dq, dk, dv = (torch.zeros_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    dlearned = torch.zeros_like(learned)
    (batch, heads), shared = q.shape[:2], k.shape[1]
    less = (grad * out).sum(-1, keepdim=True)
    lse = lse.masked_fill(lse == -torch.inf, 0.0).unsqueeze(-1)  # of a row that sees nothing all weights are 0
    leaf = learned.detach().requires_grad_(learns)
    for tile in _tiles(q, k, leaf, *settings):
        rows, columns = tile.rows, tile.columns
        with _recording(learns):
            values = tile.values(batch, heads)
        with _recording(False):
            # Query heads that share keys are rows of one product.
            q_, grad_ = (x[:, :, rows].reshape(batch, shared, -1, x.shape[-1]) for x in (q, grad))
            k_, v_ = k[:, :, columns], v[:, :, columns]
            size = batch, heads, rows.stop - rows.start, columns.stop - columns.start
            # As the kernel rounds them, so that they are the logits of that log-sum-exp.
            logits = torch.matmul(q_, k_.transpose(-1, -2)).view(size).mul_(tile.scale)
            weights = tile.masked(logits.add_(values)).sub_(lse[:, :, rows]).clamp_(max=0.0).exp_()
            ours = torch.matmul(grad_, v_.transpose(-1, -2)).view(size).sub_(less[:, :, rows]).mul_(weights)
            weights, flat = (x.view(batch, shared, -1, size[3]) for x in (weights, ours))
            dq[:, :, rows].add_(torch.matmul(flat, k_).view(*size[:3], -1), alpha=tile.scale)
            dk[:, :, columns].add_(torch.matmul(flat.transpose(-1, -2), q_), alpha=tile.scale)
            dv[:, :, columns].add_(torch.matmul(weights.transpose(-1, -2), grad_))
            ours = ours if values.shape[0] == batch else ours.sum(0, keepdim=True)
        if values.requires_grad:
            with _recording(True):
                dlearned += torch.autograd.grad(values, leaf, ours.to(values.dtype))[0]
    return dq, dk, dv, dlearned


@_back.register_fake
def _(grad: Tensor, out: Tensor, lse: Tensor, learns: bool, *given: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in given[:4])


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.learns, ctx.settings = ctx.needs_input_grad[3], inputs[10:]
    ctx.save_for_backward(*output, *inputs[:10])


def _gradients(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise BackendRefused("attention by tiles has no gradients of gradients: pass backend='reference', which has")
    out, lse, *given = ctx.saved_tensors
    dq, dk, dv, learned = _back(grad, out, lse, ctx.learns, *given, *ctx.settings)
    return dq, dk, dv, learned if ctx.learns else None, *[None] * (6 + len(ctx.settings))


_by_tiles.register_autograd(_gradients, setup_context=_keep)


def _tiles(
    q: Tensor,
    k: Tensor,
    learned: Tensor,
    q_place: Tensor,
    k_place: Tensor,
    q_segment: Tensor | None,
    k_segment: Tensor | None,
    q_order: Tensor | None,
    k_order: Tensor | None,
    function: str,
    shapes: list[int],
    numbers: list[float],
    scale: float,
    causal: bool,
    window: int,
) -> Iterator[_Tile]:
    """All tiles of which something may be seen, those of some queries one after another."""
    queries, keys = q.shape[2], k.shape[2]
    positions = Positions(
        q_place, k_place, q_segment=q_segment, k_segment=k_segment, q_order=q_order, k_order=k_order, causal=causal,
        window=None if window < 0 else window,
    )  # fmt: skip
    with _recording(learned.requires_grad):
        tensors = tuple(_parts(learned, shapes))
    bias = PairBias(PairFunction(function, tensors, tuple(numbers)), positions)
    falls, past = causal and q_order is None and k_order is None, keys - queries
    pairs = max(1, _PAIRS // max(1, q.shape[0] * q.shape[1]))
    high = max(1, min(2 ** (pairs.bit_length() // 2 - 1), queries))  # half as many as columns, where there are enough
    broad = max(1, pairs // high)
    for start in range(0, queries, high):
        rows = slice(start, min(start + high, queries))
        stop = past + rows.stop if falls else keys
        for first in range(0, stop, broad):
            columns = slice(first, min(first + broad, stop))
            whole = falls and positions.plain and columns.stop <= past + rows.start + 1
            visible = None if whole else positions.part(rows, columns).visible()
            if visible is None or bool(visible.any()):
                yield _Tile(rows, columns, bias, visible, scale)


@contextlib.contextmanager
def _recording(learns: bool) -> Generator[None]:
    """No autocast, and a graph if one is asked for: within an operator PyTorch keeps none, whatever is enabled."""
    inside = _C._SetExcludeDispatchKeyGuard(_C.DispatchKey.AutogradFunctionality, not learns)  # pyright: ignore
    with torch.autocast("cpu", enabled=False), torch.set_grad_enabled(learns), inside:
        yield


def _parts(row: Tensor, shapes: list[int]) -> Iterator[Tensor]:
    """Tensors that lie in a row, from the number of dimensions and the shape of each."""
    first = 0
    while shapes:
        shape, shapes = shapes[1 : 1 + shapes[0]], shapes[1 + shapes[0] :]
        last = first + math.prod(shape)
        yield row[first:last].view(shape)
        first = last
