"""The rotation of queries and keys that positions ask for, as a value.

Pair m of a head at position p is turned by the angle p * theta_m (Su et al. 2021, 2104.09864, eq. 15):

    (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin)

The two published layouts pair either dims m and m + rotary_dim/2 ("half", GPT-NeoX and Llama in `transformers`) or
dims 2m and 2m + 1 ("interleaved", the paper and GPT-J). Dims past `rotary_dim` pass through untouched.

Three roads lead to the same numbers. Large tensors are rotated with the least traffic to memory, which is their cost;
small ones in the fewest calls, which are theirs; under `torch.compile` and `torch.export` the formula stays as written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from lengthwise.errors import InvalidArgument, nearest

Layout = Literal["half", "interleaved"]

# Elements from which memory costs more than calls, the some 60 microseconds of a custom autograd function among them.
_LARGE = 2**20
# Elements of q and k together up to which one rotation of both costs less than two: decoding.
_BOTH = 2**15
# Elements of a table whose factors are made with it: small ones, which many layers use for a few tokens.
_TABLE = 2**12
# Elements that each thread widens to float32 at a time: few enough for the cache, enough to keep threads from waiting.
_BLOCK = 2**19


@dataclass(frozen=True, eq=False)
class Rotation:
    """Cosines and sines for queries and keys, ready to be applied.

    Args:
        q_cos, q_sin: float32 `[q, rotary_dim / 2]`, `[batch, q, rotary_dim / 2]` from batched positions, or `[batch or
            1, kv_heads, q, rotary_dim / 2]` where heads differ; query heads that share a key head share its angles.
        k_cos, k_sin: the same for keys.
        layout: which dims make a pair.
    """

    q_cos: Float[Tensor, "*rows q pairs"]
    q_sin: Float[Tensor, "*rows q pairs"]
    k_cos: Float[Tensor, "*rows k pairs"]
    k_sin: Float[Tensor, "*rows k pairs"]
    layout: Layout = "half"
    _q: tuple[Tensor, ...] | None = field(init=False, repr=False)
    _k: tuple[Tensor, ...] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # What small tensors are multiplied by, made here once for all layers.
        q = _small_factors(self.q_cos, self.q_sin, self.layout)
        same = self.k_cos is self.q_cos and self.k_sin is self.q_sin
        object.__setattr__(self, "_q", q)
        object.__setattr__(self, "_k", q if same else _small_factors(self.k_cos, self.k_sin, self.layout))

    @classmethod
    def of_angles(
        cls,
        q_angles: Tensor,
        k_angles: Tensor | Callable[[], Tensor],
        layout: Layout = "half",
        scale: float | Tensor = 1.0,
    ) -> Rotation:
        """Rotation by angles in radians, of the shapes of `q_cos`; `scale` multiplies the result's length.

        Where the keys stand at the very positions of the queries, pass the same tensor twice: the work is done once.
        Where the angles of the keys learn nothing, pass what makes them: one that decodes with rotated keys in its
        cache never asks for them, and of 8192 keys they cost as much as the attention of two layers.
        """
        learned = q_angles.requires_grad or isinstance(scale, Tensor)
        if callable(k_angles) and not learned and not torch.compiler.is_compiling():
            return _Late(_cos_sin(q_angles, scale), k_angles, layout, scale)
        keys = k_angles() if callable(k_angles) else k_angles
        q_cos, q_sin = _cos_sin(q_angles, scale)
        k_cos, k_sin = (q_cos, q_sin) if keys is q_angles else _cos_sin(keys, scale)
        return cls(q_cos, q_sin, k_cos, k_sin, layout)

    @property
    def rotary_dim(self) -> int:
        """How many dims of a head are rotated; the rest pass through bit for bit."""
        return 2 * self.q_cos.shape[-1]

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Rotate queries `[batch, heads, q, head_dim]` and keys `[batch, kv_heads, k, head_dim]`, dtypes kept."""
        decoding = not torch.compiler.is_compiling() and not torch.is_grad_enabled() and self._q is not None
        if decoding and self._q is self._k and _alike(q, k) and q.numel() + k.numel() <= _BOTH:
            turned = self.q(torch.cat((q, k), dim=1))
            return turned[:, : q.shape[1]].contiguous(), turned[:, q.shape[1] :].contiguous()
        return self.q(q), self.k(k)

    def q(self, x: Float[Tensor, "batch heads q head_dim"]) -> Float[Tensor, "batch heads q head_dim"]:
        """Rotate queries alone."""
        return _rotate(x, self.q_cos, self.q_sin, self.layout, self._q)

    def k(self, x: Float[Tensor, "batch heads k head_dim"]) -> Float[Tensor, "batch heads k head_dim"]:
        """Rotate keys alone."""
        return _rotate(x, self.k_cos, self.k_sin, self.layout, self._k)


class _Late(Rotation):
    """A rotation whose cosines and sines of the keys are made when they are first asked for."""

    def __init__(
        self, queries: tuple[Tensor, Tensor], k_angles: Callable[[], Tensor], layout: Layout, scale: float | Tensor
    ) -> None:
        cos, sin = queries
        own = {"q_cos": cos, "q_sin": sin, "layout": layout, "_q": _small_factors(cos, sin, layout), "_k": None}
        self.__dict__.update(own, _k_angles=k_angles, _scale=scale, _made=None)

    def _keys(self) -> tuple[Tensor, Tensor]:
        made, own = self.__dict__["_made"], self.__dict__
        if made is None and torch.compiler.is_compiling():
            made = _cos_sin(own["_k_angles"](), own["_scale"])
        elif made is None:
            with torch.inference_mode(False):  # another pass may train with them
                made = own["_made"] = _cos_sin(own["_k_angles"](), own["_scale"])
        return made

    @property
    def k_cos(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Cosines of the keys."""
        return self._keys()[0]

    @property
    def k_sin(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Sines of the keys."""
        return self._keys()[1]


def rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """Turn each pair of dims of `x [batch, heads, length, head_dim]` by the angle whose cosine and sine are given.

    `cos` and `sin` are float32 or wider, `[length, pairs]`, `[batch, length, pairs]` or `[batch or 1, heads, length,
    pairs]`, where `x` may have several times as many heads; `x` has any floating dtype and any strides, and is left as
    it is. The result is contiguous and of the dtype of `x`, to which it is rounded once.
    Gradients of any order flow to all three.

    Raises:
        InvalidArgument: shapes that do not fit, or an unknown layout.

    Example:
        >>> rotate(torch.tensor([[[[1.0, 2.0]]]]), torch.zeros(1, 1), torch.ones(1, 1), "half").tolist()
        [[[[-2.0, 1.0]]]]
    """
    return _rotate(x, cos, sin, layout, None)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, factors: Sequence[Tensor] | None) -> Tensor:
    _check(x, cos, layout)
    if cos.dim() == 3:
        cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)  # [batch, 1, length, pairs]
    elif cos.dim() == 4 and cos.shape[1] not in (1, x.shape[1]):
        group = x.shape[1] // cos.shape[1]
        cos, sin = cos.repeat_interleave(group, dim=1), sin.repeat_interleave(group, dim=1)
    if torch.compiler.is_compiling():
        return _by_formula(x, cos, sin, layout)
    if x.numel() < _LARGE:
        return _by_calls(x, cos, sin, layout, factors)
    return cast(Tensor, _ByMemory.apply(x, cos, sin, layout))


def _by_formula(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
    """The formula as it is written: real numbers only, which compilers fuse and exporters can write down."""
    x1, x2 = _pairs(x, cos, layout)
    turned = x1 * cos - x2 * sin, x2 * cos + x1 * sin
    out = torch.cat(turned, dim=-1) if layout == "half" else torch.stack(turned, dim=-1).flatten(-2)
    return torch.cat((out.to(x.dtype), x[..., 2 * cos.shape[-1] :]), dim=-1)


def _by_calls(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout, factors: Sequence[Tensor] | None = None) -> Tensor:
    """The fewest calls, all of a kind that autograd and `torch.func` can follow."""
    rotary_dim = 2 * cos.shape[-1]
    turned = x if rotary_dim == x.shape[-1] else x[..., :rotary_dim]
    wide = torch.promote_types(x.dtype, cos.dtype)
    if factors is None or wide != cos.dtype:
        factors = _factors(cos.to(wide), sin.to(wide), layout)
    out = _turn(turned.to(wide), factors).to(x.dtype)
    return (out if turned is x else torch.cat((out, x[..., rotary_dim:]), dim=-1)).contiguous()


class _ByMemory(torch.autograd.Function):
    """The least traffic to memory: the result is the only new large tensor; what is widened is so in blocks.

    The gradient is the rotation back, by the same blocks; `x` is kept only where angles are learned.
    """

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, layout: Layout) -> Tensor:
        batch, heads, length, head_dim = x.shape
        rotary_dim, wide = 2 * cos.shape[-1], torch.promote_types(x.dtype, cos.dtype)
        each = 1 if cos.dim() < 4 else cos.shape[1]  # heads with angles of their own
        factors = [f.expand(batch, each, length, -1) for f in _factors(cos.to(wide), sin.to(wide), layout)]
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        out[..., rotary_dim:] = x[..., rotary_dim:]
        straight = x.dtype == wide and (layout == "half" or head_dim % 2 == 0)  # an odd head_dim parts complex numbers
        block = x.numel() if straight or x.device.type != "cpu" else _BLOCK * torch.get_num_threads()
        row_size = max(1, heads * rotary_dim)
        rows = min(length, block // row_size + 1)
        some = block // (row_size * rows) + 1
        for first, row in itertools.product(range(0, batch, some), range(0, length, rows)):
            here = slice(first, first + some), slice(None), slice(row, row + rows)
            source, target = x[*here, :rotary_dim], out[*here, :rotary_dim]
            turned = target if straight else torch.empty(source.shape, dtype=wide, device=x.device)
            _turn(source.to(wide), [factor[here] for factor in factors], turned)
            if not straight:
                target.copy_(turned)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        x, cos, sin, ctx.layout = inputs
        ctx.learned = any(ctx.needs_input_grad[1:3])
        ctx.save_for_backward(x if ctx.learned else None, cos, sin)
        ctx.save_for_forward(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (x, cos, sin), grad = ctx.saved_tensors, grad_outputs[0]
        dx = _ByMemory.apply(grad, cos, -sin, ctx.layout)
        if not ctx.learned:
            return dx, None, None, None
        (x1, x2), (g1, g2) = _pairs(x, cos, ctx.layout), _pairs(grad, cos, ctx.layout)
        dcos, dsin = x1 * g1 + x2 * g2, x1 * g2 - x2 * g1  # [batch, heads, length, pairs]
        return dx, dcos.sum_to_size(cos.shape), dsin.sum_to_size(sin.shape), None

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Tensor:
        # Linear in x; and in cosine and sine together, which do not act past rotary_dim.
        (x, cos, sin), (dx, dcos, dsin, _) = ctx.saved_tensors, grad_inputs
        moved = _ByMemory.apply(x[..., : 2 * cos.shape[-1]], dcos, dsin, ctx.layout)
        return _ByMemory.apply(dx, cos, sin, ctx.layout) + pad(moved, (0, x.shape[-1] - moved.shape[-1]))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int | None, ...], *inputs: Any) -> tuple[Tensor, int]:
        return torch.vmap(_by_calls, in_dims)(*inputs), 0


def _check(x: Tensor, cos: Tensor, layout: str) -> None:
    shape, table = x.shape, cos.shape
    fits = len(shape) == 4 and shape[2] == table[-2] and shape[3] >= 2 * table[-1]
    heads = table[1] if len(table) == 4 else 1
    if not fits or (len(table) > 2 and table[0] not in (1, shape[0])) or shape[1] % heads:
        batch = "batch" if len(table) == 2 or table[0] == 1 else table[0]
        several = "heads" if heads == 1 else f"a multiple of {heads} heads"
        raise InvalidArgument(
            f"expected [{batch}, {several}, {table[-2]}, head_dim of at least {2 * table[-1]}] to rotate, "
            f"not {list(shape)}: are heads and length in this order, and are the positions those of this tensor?"
        )
    if layout not in ("half", "interleaved"):
        raise InvalidArgument(f"unknown layout {layout!r}: {nearest(layout, ('half', 'interleaved'))}")


def _pairs(x: Tensor, cos: Tensor, layout: Layout) -> Sequence[Tensor]:
    """First and second dim of each pair, in the dtype of the arithmetic."""
    turned = x[..., : 2 * cos.shape[-1]].to(torch.promote_types(x.dtype, cos.dtype))
    return turned.chunk(2, dim=-1) if layout == "half" else (turned[..., 0::2], turned[..., 1::2])


def _factors(cos: Tensor, sin: Tensor, layout: Layout) -> tuple[Tensor, ...]:
    """What `_turn` multiplies by, made once for all heads and blocks."""
    if layout == "half":
        return torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
    return (torch.complex(cos, sin),)


def _small_factors(cos: Tensor, sin: Tensor, layout: Layout) -> tuple[Tensor, ...] | None:
    if torch.compiler.is_compiling() or layout not in ("half", "interleaved"):  # rotating says which there are
        return None
    small = cos.dim() == 2 and cos.numel() <= _TABLE and cos.dtype in (torch.float32, torch.float64)
    return _factors(cos, sin, layout) if small else None


def _alike(q: Tensor, k: Tensor) -> bool:
    """Whether they are one tensor but for the number of heads."""
    shapes = q.dim() == k.dim() == 4 and q.shape[::2] == k.shape[::2] and q.shape[3] == k.shape[3]
    return shapes and q.dtype == k.dtype and q.device == k.device


def _turn(x: Tensor, factors: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
    """Turn all dims of `x`, into `out` where given."""
    if len(factors) == 1:
        product = torch.mul(_as_complex(x), factors[0], out=None if out is None else _as_complex(out))
        return torch.view_as_real(product).flatten(-2)
    (cos, sin), (x1, x2) = factors, x.chunk(2, dim=-1)
    if out is None:
        return torch.addcmul(torch.cat((x2, x1), dim=-1) * sin, x, cos)
    for half, other, factor in zip(out.chunk(2, dim=-1), (x2, x1), sin.chunk(2, dim=-1), strict=True):
        torch.mul(other, factor, out=half)
    return out.addcmul_(x, cos)


def _as_complex(x: Tensor) -> Tensor:
    """Dims 2m and 2m + 1 as one complex number; a copy only where they do not lie in memory as one."""
    if x.stride(-1) != 1 or x.storage_offset() % 2 or any(stride % 2 for stride in x.stride()[:-1]):
        x = x.clone(memory_format=torch.contiguous_format)
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


def _cos_sin(angles: Tensor, scale: float | Tensor) -> tuple[Tensor, Tensor]:
    cos, sin = angles.cos(), angles.sin()
    if isinstance(scale, Tensor) or scale != 1.0:
        cos, sin = cos * scale, sin * scale
    return cos.float(), sin.float()
