"""Data-adaptive bias: content bends a bias of position (Zheng et al. 2024, 2405.14722, id UNVERIFIED).

    logit = A + B + g([A; B]),   A = q · k scale,   B the bias of another encoding, both over all heads
    g = W_2 LeakyReLU(W_1 [A; B] + b_1) + b_2,   from 2 heads numbers to `hidden` to heads, for each pair by itself

The facts are those of the authors' code (`chuanyang-Zheng/DAPE`), first version; around an encoding that does nothing
the logit is A + g(A). Matrices begin as that framework's linear layers do. b_2 adds one number to all logits
of a head, which softmax drops. The second version puts convolutions over the keys in place of g: the last key of a row
then depends on how long the pass is, and decoding is not one pass; it is not offered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from lengthwise.bias import Bias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare
from lengthwise.sites import Logits, axes, claims, direction, sites


@encodings.register("dape")
class DAPE(nn.Module):
    """A bias, and what a small network makes of it and the logits of all heads at the same pair.

    Args:
        encoding: what makes the bias, for example `KERPLE` or `ALiBi`; `NoPE` for none.
        heads: number of query heads.
        hidden: width of the network.

    Raises:
        InvalidArgument: an encoding that acts elsewhere than on the bias, sizes below 1, queries of other heads.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.DAPE(lw.ALiBi(heads=4), heads=4)
        >>> q = k = torch.randn(1, 4, 5, 8)
        >>> encoding.attention_logits(q, k, lw.Positions.sequence(5), 8**-0.5).shape
        torch.Size([1, 4, 5, 5])
    """

    formula: ClassVar[str] = "logit = A + B + g([A; B]),  A = q_i · k_j / sqrt(head_dim), B a bias, g a small network"
    paper: ClassVar[str] = "Zheng et al. 2024, arXiv 2405.14722"
    example: ClassVar[str] = "dape(kerple)"

    def __init__(self, encoding: nn.Module, heads: int, hidden: int = 32) -> None:
        super().__init__()
        if heads < 1 or hidden < 1:
            raise InvalidArgument(f"DAPE needs at least 1 head and a hidden width of at least 1, not {heads}, {hidden}")
        if sites(encoding) not in (("bias",), ()):
            raise InvalidArgument(
                f"DAPE needs an encoding that makes a bias, such as KERPLE, or NoPE; {type(encoding).__name__} acts on "
                f"{', '.join(sites(encoding))}"
            )
        self.heads, self.hidden, self.encoding = heads, hidden, encoding
        self.claims = claims(encoding) & {"translation_invariant", "pairwise"}
        self.direction, self.axes = direction(encoding), axes(encoding)
        self.max_position: int | None = getattr(encoding, "max_position", None)
        self.first_weight = nn.Parameter(torch.empty(hidden, 2 * heads if sites(encoding) else heads))  # A, then B
        self.first_bias = nn.Parameter(torch.empty(hidden))
        self.second_weight = nn.Parameter(torch.empty(heads, hidden))
        self.second_bias = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the network anew; the encoding inside stays as it is."""
        for weight, bias in ((self.first_weight, self.first_bias), (self.second_weight, self.second_bias)):
            bound = weight.shape[1] ** -0.5
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def prepare(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Prepared:
        """The bias inside once, at positions that its encoding may map; then logits for any queries and keys."""
        inner = prepare(self.encoding, positions, generator=generator, training=training)
        return Prepared(inner.positions, logits=_Adapted(self._logits, inner.bias))

    def attention_logits(
        self,
        q: Float[Tensor, "batch heads q head_dim"],
        k: Float[Tensor, "batch kv_heads k head_dim"],
        positions: Positions,
        scale: float,
    ) -> Float[Tensor, "batch heads q k"]:
        """Logits of all pairs, float32 or wider, before any mask."""
        return self._logits(q, k, _all(prepare(self.encoding, positions).bias), scale)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"heads={self.heads}, hidden={self.hidden}"

    def _logits(self, q: Tensor, k: Tensor, bias: Tensor | None, scale: float) -> Tensor:
        if q.shape[1] != self.heads:
            raise InvalidArgument(f"DAPE was made for {self.heads} query heads, and q has {q.shape[1]}")
        wide = torch.promote_types(q.dtype, torch.float32)
        with torch.autocast(q.device.type, enabled=False):
            q, k = q.to(wide), k.to(wide).repeat_interleave(q.shape[1] // k.shape[1], dim=1)
            out = q @ k.transpose(-1, -2) * scale  # A
            weight = self.first_weight.to(wide)
            hidden = torch.einsum("oh,bhqk->boqk", weight[:, : self.heads], out)
            if bias is not None:
                dense = bias.to(wide)
                dense = dense if dense.dim() == 4 else dense.unsqueeze(0)  # [1 or batch, heads, q, k]
                # A bias that bars a pair does so still, and is no number for the network.
                told = dense.masked_fill(dense == float("-inf"), 0.0)
                hidden = hidden + torch.einsum("oh,bhqk->boqk", weight[:, self.heads :], told)
                out = out + dense
            hidden = leaky_relu(hidden + self.first_bias.to(wide)[:, None, None], negative_slope=0.01)
            bent = torch.einsum("ho,boqk->bhqk", self.second_weight.to(wide), hidden)
            return out + bent + self.second_bias.to(wide)[:, None, None]


@dataclass(frozen=True, eq=False)
class _Adapted:
    """Logits with the bias of the pairs that are asked for."""

    logits: Callable[[Tensor, Tensor, Tensor | None, float], Tensor]
    bias: Bias | None
    rows: slice | None = None  # None: all
    columns: slice | None = None

    def __call__(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        if self.bias is None:
            return self.logits(q, k, None, scale)
        return self.logits(q, k, self.bias.block(self.rows or slice(None), self.columns or slice(None)), scale)

    def part(self, rows: slice, columns: slice) -> Logits:
        return _Adapted(self.logits, self.bias, rows, columns)


def _all(bias: Bias | None) -> Tensor | None:
    return None if bias is None else bias.dense()
