"""Sinusoids of distance that queries read through a learned matrix (Dai et al. 2019, 1901.02860, section 3.3).

    logit(i, j) = [(q_i + u) · k_j + (q_i + v) · W R(i - j)] scale
    R(d) = [sin(d w_0), ..., sin(d w_last), cos(d w_0), ..., cos(d w_last)],   w_m = base^(-2m/dim)

All terms are scaled, as in the authors' code (`kimiyoung/transformer-xl`, `mem_transformer.py`), where u and v are
shared by all layers and W is one a layer. Here each layer has its own u and v; assigning those of one layer to the
others (`other.content_bias = first.content_bias`) repeats the code. That code shifts rows to turn positions into
distances, which leaves garbage above the diagonal; here keys ahead have their true, negative distance.
A port (T5 size, in a study of length generalization) draws u and v with deviation 0.2, clamps at 1000 and does not
scale: `init_std`, `clamp` and attention's `scale=1.0`.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import widest_float


@encodings.register("transformer_xl")
class TransformerXL(nn.Module):
    """Content and position meet in four terms: each of query and of a learned vector with key and with distance.

    `sin` and `cos` of `i - j` part into those of i and of j, so that any positions are served by one product of
    features `[batch, heads, q, dim]` with `[k, dim]`: no table of distances is gathered, at `dim` in place of
    `head_dim` multiplications for each pair and head.

    Args:
        dim: number of sinusoids, the width of the model in the paper; even.
        heads: number of query heads.
        head_dim: width of a head.
        base: of the frequencies.
        clamp: distances beyond it are read as it, on both sides (`clamp_len`, there for keys behind); None: none are.
        init_std: standard deviation of all first values.

    Raises:
        InvalidArgument: sizes below 1, an odd dim, a base or clamp that is not above 0, queries of other heads.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.TransformerXL(dim=32, heads=4, head_dim=8)
        >>> q = k = torch.randn(1, 4, 5, 8)
        >>> encoding.attention_logits(q, k, lw.Positions.sequence(5), 8**-0.5).shape
        torch.Size([1, 4, 5, 5])
    """

    formula: ClassVar[str] = "logit(i, j) = [(q_i + u) · k_j + (q_i + v) · W R(i - j)] / sqrt(head_dim)"
    paper: ClassVar[str] = "Dai et al. 2019, arXiv 1901.02860, section 3.3"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})

    def __init__(
        self,
        dim: int,
        heads: int,
        head_dim: int,
        base: float = 10000.0,
        clamp: float | None = None,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        if dim < 2 or dim % 2:
            raise InvalidArgument(f"TransformerXL needs an even dim, for a sine and a cosine each, not {dim}")
        if heads < 1 or head_dim < 1:
            raise InvalidArgument(
                f"TransformerXL needs at least 1 head and a head_dim of at least 1, not {heads} and {head_dim}"
            )
        for name, value in (("base", base), ("clamp", 1.0 if clamp is None else clamp)):
            if not value > 0:
                raise InvalidArgument(f"{name} must be above 0, not {value}")
        self.dim, self.heads, self.head_dim = dim, heads, head_dim
        self.base, self.clamp, self.init_std = base, clamp, init_std
        self.content_bias = nn.Parameter(torch.empty(heads, head_dim))  # u, `r_w_bias`
        self.position_bias = nn.Parameter(torch.empty(heads, head_dim))  # v, `r_r_bias`
        self.weight = nn.Parameter(torch.empty(heads * head_dim, dim))  # W, `r_net`
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew."""
        for parameter in (self.content_bias, self.position_bias, self.weight):
            nn.init.normal_(parameter, std=self.init_std)

    def attention_logits(
        self,
        q: Float[Tensor, "batch heads q head_dim"],
        k: Float[Tensor, "batch kv_heads k head_dim"],
        positions: Positions,
        scale: float,
    ) -> Float[Tensor, "batch heads q k"]:
        """Scaled logits of all pairs, float32 or wider, before any mask."""
        if q.shape[1] != self.heads:
            raise InvalidArgument(f"TransformerXL was made for {self.heads} query heads, and q has {q.shape[1]}")
        wide = torch.promote_types(q.dtype, torch.float32)
        with torch.autocast(q.device.type, enabled=False):
            q, k = q.to(wide), k.to(wide).repeat_interleave(q.shape[1] // k.shape[1], dim=1)
            content = (q + self.content_bias.to(wide).unsqueeze(1)) @ k.transpose(-1, -2)
            matrix = self.weight.to(wide).view(self.heads, self.head_dim, self.dim)
            features = (q + self.position_bias.to(wide).unsqueeze(1)) @ matrix  # [batch, heads, q, dim]
            return (content + self._of_distance(features, positions)) * scale

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        clamp = "" if self.clamp is None else f", clamp={self.clamp:g}"
        return f"dim={self.dim}, heads={self.heads}, head_dim={self.head_dim}, base={self.base:g}{clamp}"

    def _of_distance(self, features: Tensor, positions: Positions) -> Tensor:
        """`features_i · R(i - j)` for all pairs, `[batch, heads, q, k]`."""
        of_sin, of_cos = features.chunk(2, dim=-1)  # [batch, heads, q, dim / 2]
        (q_sin, q_cos), (k_sin, k_cos) = (self._waves(place, features.dtype) for place in positions.one_axis())
        left = torch.cat((of_sin * q_sin + of_cos * q_cos, of_cos * q_sin - of_sin * q_cos), dim=-1)
        out = left @ torch.cat((k_cos, k_sin), dim=-1).transpose(-1, -2)
        if self.clamp is None:
            return out
        edge = torch.full((1,), self.clamp, device=features.device, dtype=torch.float32)
        sin, cos = self._waves(edge, features.dtype)  # [1, dim / 2]
        odd, even = (of_sin * sin).sum(-1, keepdim=True), (of_cos * cos).sum(-1, keepdim=True)  # [batch, heads, q, 1]
        distance = positions.distance()
        distance = distance if distance.dim() == 2 else distance.unsqueeze(1)
        out = torch.where(distance >= self.clamp, even + odd, out)
        return torch.where(distance <= -self.clamp, even - odd, out)

    def _waves(self, place: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Sines and cosines of positions, `[length, dim / 2]` or `[batch, 1, length, dim / 2]`."""
        wide = widest_float(place.device)  # a shift by a large number must not show
        m = torch.arange(self.dim // 2, device=place.device, dtype=wide)
        angle = place.to(wide).unsqueeze(-1) * self.base ** (-2 * m / self.dim)
        angle = angle if place.dim() == 1 else angle.unsqueeze(1)
        return angle.sin().to(dtype), angle.cos().to(dtype)
