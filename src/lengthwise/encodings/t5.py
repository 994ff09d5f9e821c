"""T5's relative bias: one learned number for each head and bucket of distances.

Raffel et al. 2020 (1910.10683, id UNVERIFIED), section 2.1:

    logit(i, j) += E[bucket(j - i), h]

Short distances have a bucket each; longer ones share buckets whose edges grow geometrically up to `max_distance`, and
all beyond are in the last. With the defaults the last causal bucket begins at distance 113, not 128. T5 itself
does not scale its logits by 1/sqrt(head_dim): pass `scale=1.0` to attention to repeat it. T5 has one table, in its
first layer, that all layers share. Its standard deviation at first is dim^(-1/2) in `transformers`; here it is 0.02,
since an encoding that knows its heads only does not know the model's dim.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from lengthwise.bias import DistanceBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions


@encodings.register("t5")
class T5Bias(nn.Module):
    """A learned bias for each head and bucket of distances.

    Args:
        heads: number of query heads.
        buckets: number of buckets.
        max_distance: distance from which on all are in the last bucket, nearly (see above).
        bidirectional: half the buckets for keys ahead; else all keys ahead are in bucket 0, for causal attention.
        init_std: standard deviation of the first values.
    """

    formula: ClassVar[str] = "logit(i, j) += E[bucket(j - i), h]"
    paper: ClassVar[str] = "Raffel et al. 2020, arXiv 1910.10683, section 2.1"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})

    def __init__(
        self,
        heads: int,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = False,
        init_std: float = 0.02,
    ) -> None:
        super().__init__()
        exact = buckets // 4 if bidirectional else buckets // 2
        if heads < 1:
            raise InvalidArgument(f"T5Bias needs at least 1 head, not {heads}")
        if exact < 1 or (bidirectional and buckets % 2):
            need = "an even number of at least 4" if bidirectional else "at least 2"
            raise InvalidArgument(f"T5Bias needs {need} buckets, not {buckets}")
        if max_distance <= exact:
            raise InvalidArgument(
                f"max_distance {max_distance} must be above {exact}, the distances that have a bucket of their own"
            )
        if not init_std >= 0:
            raise InvalidArgument(f"init_std must be at least 0, not {init_std}")
        self.heads, self.buckets, self.max_distance = heads, buckets, max_distance
        self.bidirectional, self.init_std = bidirectional, init_std
        self.table = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the table anew."""
        nn.init.normal_(self.table, std=self.init_std)

    @property
    def direction(self) -> Literal["any", "causal"]:
        """Bidirectional buckets serve causal attention too, the other way round not."""
        return "any" if self.bidirectional else "causal"

    def logit_bias(self, positions: Positions) -> DistanceBias:
        """The bias at `positions`, differentiable in the table."""
        return DistanceBias(self.of_distance, positions)

    def of_distance(self, distance: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at distances `q - k` of any shape."""
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))  # a bias is never narrower
        return nn.functional.embedding(self.bucket(distance), table).movedim(-1, 0)

    def bucket(self, distance: Tensor) -> Int64[Tensor, "*distance"]:
        """Bucket of distances `q - k` (T5's relative position is `k - q`), exact in integers on every device."""
        side = self.buckets // 2 if self.bidirectional else self.buckets
        edges = torch.tensor(
            _first_distances(side, self.max_distance), device=distance.device, dtype=distance.dtype
        )  # of the distances' dtype: mapped positions leave fractions
        behind = torch.bucketize(distance.abs() if self.bidirectional else distance.clamp(min=0), edges, right=True)
        return behind + side * (distance < 0) if self.bidirectional else behind

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"heads={self.heads}, buckets={self.buckets}, max_distance={self.max_distance}, "
            f"bidirectional={self.bidirectional}"
        )


def _first_distances(side: int, max_distance: int) -> list[int]:
    """First distance of buckets 1, 2, ... on one side; a bucket no distance falls in repeats the next edge."""
    exact = side // 2
    edges = list(range(1, exact + 1))
    for step in range(1, side - exact):
        # The smallest n with trunc(ln(n / exact) / ln(max_distance / exact) * (side - exact)) >= step. A power of the
        # ratio that falls on a whole number is meant to begin its bucket, whatever the last bit of the logarithm says.
        edge = exact * (max_distance / exact) ** (step / (side - exact))
        edges.append(math.ceil(edge - 1e-9 * edge))
    return edges
