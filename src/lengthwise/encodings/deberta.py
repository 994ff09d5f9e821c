"""Disentangled attention: content meets position in two terms (He et al. 2020, 2006.03654, id UNVERIFIED).

    logit(i, j) = [q_i · k_j + q_i · K(D) + k_j · Q(D)] scale / sqrt(3),   D = clip(bucket(i - j), -span, span - 1)
    K(D) = W_k P_D + b_k,   Q(D) = W_q P_D + b_q,   P a learned table of 2 span rows

The facts are those of `transformers`' DeBERTa-v2. Both terms there use D of query less key, the opposite sign of
T5's; the paper's notation has D(j, i) in the last one (UNVERIFIED). 3 is one more than the number of relative terms;
`scale` is 1/sqrt(head_dim). Distances up to half the buckets have one each, longer ones share buckets of geometric
width; `buckets=0` gives each distance its own (the first version). Version 3 has 256 buckets that reach to 512, and
`norm` (UNVERIFIED).

P is one table for all layers there, W and b are one a layer: assigning one layer's `table` to the others repeats
that. `share_att_key` takes the layer's own projections: assign those to `key_weight`, `key_bias` and so on. That
code swaps two settings where queries are not the keys; here a step of decoding has the numbers of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.functional import layer_norm, linear

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions

TERMS = ("c2p", "p2c")


@encodings.register("deberta")
class DeBERTa(nn.Module):
    """Learned vectors of distance that meet the queries (c2p) and the keys (p2c).

    Args:
        dim: width of the table, that of the model in the paper.
        heads: number of query heads.
        head_dim: width of a head.
        buckets: number of buckets on one side, even (`position_buckets`); 0 for one at each distance.
        max_distance: distance at which the last bucket begins, about; the reach where there are no buckets.
        terms: which relative terms there are.
        norm: whether the rows of the table pass a layer norm (`norm_rel_ebd`).
        init_std: standard deviation of the first table and matrices; the first b are zeros.

    Raises:
        InvalidArgument: sizes that make no sense, an unknown term, queries of another number of heads.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.DeBERTa(dim=32, heads=4, head_dim=8, buckets=8, max_distance=20)
        >>> encoding.bucket(torch.tensor([-9, -1, 0, 4, 5, 9, 19, 500]))
        tensor([-6, -1,  0,  4,  5,  6,  7,  8])
    """

    formula: ClassVar[str] = (
        "logit(i, j) = [q_i · k_j + q_i · W_k P_D(i - j) + k_j · W_q P_D(i - j)] / sqrt(3 head_dim)"
    )
    paper: ClassVar[str] = "He et al. 2020, arXiv 2006.03654"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})

    def __init__(
        self,
        dim: int,
        heads: int,
        head_dim: int,
        buckets: int = 256,
        max_distance: int = 512,
        terms: Sequence[str] = TERMS,
        norm: bool = False,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        if min(dim, heads, head_dim, max_distance) < 1:
            raise InvalidArgument(
                "DeBERTa needs dim, heads, head_dim and max_distance of at least 1, not "
                f"{dim}, {heads}, {head_dim} and {max_distance}"
            )
        if buckets < 0 or buckets % 2 or buckets == 2 or (buckets and max_distance - 1 <= buckets // 2):
            raise InvalidArgument(
                f"buckets must be 0, or even, at least 4 and below 2 (max_distance - 1) = {2 * (max_distance - 1)}, "
                f"not {buckets}"
            )
        for term in terms:
            if term not in TERMS:
                raise InvalidArgument(f"unknown term {term!r}: {nearest(term, TERMS)}")
        self.dim, self.heads, self.head_dim = dim, heads, head_dim
        self.buckets, self.max_distance, self.terms = buckets, max_distance, tuple(terms)
        self.norm, self.init_std = norm, init_std
        self.table = nn.Parameter(torch.empty(2 * self.span, dim))  # P, row D + span
        inner = heads * head_dim
        c2p, p2c = "c2p" in terms, "p2c" in terms
        self.key_weight = nn.Parameter(torch.empty(inner, dim)) if c2p else None
        self.key_bias = nn.Parameter(torch.empty(inner)) if c2p else None
        self.query_weight = nn.Parameter(torch.empty(inner, dim)) if p2c else None
        self.query_bias = nn.Parameter(torch.empty(inner)) if p2c else None
        self.norm_weight = nn.Parameter(torch.empty(dim)) if norm else None
        self.norm_bias = nn.Parameter(torch.empty(dim)) if norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table and the matrices anew."""
        for name, parameter in self.named_parameters():
            if name == "norm_weight":
                nn.init.ones_(parameter)
            elif parameter.dim() == 1:
                nn.init.zeros_(parameter)
            else:
                nn.init.normal_(parameter, std=self.init_std)

    @property
    def span(self) -> int:
        """Number of rows of the table on one side."""
        return self.buckets or self.max_distance

    def attention_logits(
        self,
        q: Float[Tensor, "batch heads q head_dim"],
        k: Float[Tensor, "batch kv_heads k head_dim"],
        positions: Positions,
        scale: float,
    ) -> Float[Tensor, "batch heads q k"]:
        """Scaled logits of all pairs, float32 or wider, before any mask."""
        if q.shape[1] != self.heads:
            raise InvalidArgument(f"DeBERTa was made for {self.heads} query heads, and q has {q.shape[1]}")
        wide = torch.promote_types(q.dtype, torch.float32)
        with torch.autocast(q.device.type, enabled=False):
            q, k = q.to(wide), k.to(wide).repeat_interleave(q.shape[1] // k.shape[1], dim=1)
            rows = self.bucket(positions.distance()).clamp(-self.span, self.span - 1) + self.span
            rows = rows if rows.dim() == 2 else rows.unsqueeze(1)  # [q, k] or [batch, 1, q, k]
            out = q @ k.transpose(-1, -2)
            pairs = out.shape
            if self.key_weight is not None:
                met = q @ self._rows(self.key_weight, self.key_bias, wide)  # [batch, heads, q, 2 span]
                out = out + met.gather(-1, rows.expand(pairs))
            if self.query_weight is not None:
                met = k @ self._rows(self.query_weight, self.query_bias, wide)  # [batch, heads, k, 2 span]
                out = out + met.gather(-1, rows.expand(pairs).transpose(-1, -2)).transpose(-1, -2)
            return out * (scale / math.sqrt(1 + len(self.terms)))

    def bucket(self, distance: Tensor) -> Int64[Tensor, "*distance"]:
        """Bucket of distances `q - k`, with their sign; exact in integers on every device."""
        if not self.buckets:
            return distance.long()
        edges = torch.tensor(
            _first_distances(self.buckets // 2, self.max_distance), device=distance.device, dtype=distance.dtype
        )  # of the distances' dtype: mapped positions leave fractions
        return torch.bucketize(distance.abs(), edges, right=True) * distance.sign().long()

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"dim={self.dim}, heads={self.heads}, head_dim={self.head_dim}, buckets={self.buckets}, "
            f"max_distance={self.max_distance}, terms={self.terms}" + ", norm=True" * self.norm
        )

    def _rows(self, weight: Tensor, bias: Tensor | None, wide: torch.dtype) -> Tensor:
        """The projected table, `[heads, head_dim, 2 span]`."""
        table = self.table.to(wide)
        if self.norm_weight is not None and self.norm_bias is not None:
            table = layer_norm(table, (self.dim,), self.norm_weight.to(wide), self.norm_bias.to(wide), eps=1e-7)
        out = linear(table, weight.to(wide), None if bias is None else bias.to(wide))
        return out.view(2 * self.span, self.heads, self.head_dim).permute(1, 2, 0)


def _first_distances(mid: int, max_distance: int) -> list[int]:
    """First distance of buckets 1, 2, ... 2 mid."""
    edges = list(range(1, mid + 1))
    for step in range(mid):
        # The smallest n with ceil(ln(n / mid) / ln((max_distance - 1) / mid) * (mid - 1)) > step. A power of the ratio
        # that falls on a whole number is meant to end its bucket, whatever the last bit of the logarithm says.
        edge = mid * ((max_distance - 1) / mid) ** (step / (mid - 1))
        edges.append(math.floor(edge + 1e-9 * edge) + 1)
    return edges
