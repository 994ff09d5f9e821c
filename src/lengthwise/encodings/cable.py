"""CABLE, a learned bias that context decides (Veisi et al. 2025, 2503.08067).

    b_t = -softplus(w_h · x_t + b_h)
    logit(i, j) += b_{j+1} + ... + b_i

Since -softplus(z) = ln sigmoid(-z), this is forgetting attention with the sign of the gate turned round. The published
code leaves out the 1/sqrt(head_dim) of attention (it divides by the root of 1): to repeat it pass `scale=1.0` to
`lw.attention`. Its mask is of one fixed length, which is not repeated here. The code was read, not run.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import LowRankBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.hidden import check_read, forgetting, project
from lengthwise.positions import Positions


@encodings.register("cable")
class CABLE(nn.Module):
    """A penalty that each token adds to all keys before it.

    Positions are not read, only order: tokens of one document stand one after another. Padding adds nothing.

    Args:
        dim: width of the hidden states.
        heads: number of query heads.

    Example:
        >>> import torch, lengthwise as lw
        >>> q = k = v = torch.randn(1, 4, 16, 8)
        >>> hidden = torch.randn(1, 16, 32)
        >>> lw.attention(q, k, v, lw.CABLE(dim=32, heads=4), hidden=hidden).shape
        torch.Size([1, 4, 16, 8])
    """

    formula: ClassVar[str] = "logit(i, j) += -Σ_{t=j+1..i} softplus(w_h · x_t + b_h)"
    paper: ClassVar[str] = "Veisi et al. 2025, arXiv 2503.08067"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "nonincreasing", "nonpositive"})
    direction: ClassVar[str] = "causal"
    shared: ClassVar[bool] = False

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        if dim < 1 or heads < 1:
            raise InvalidArgument(f"CABLE needs a dim and heads of at least 1, not {dim} and {heads}")
        self.dim, self.heads = dim, heads
        self.step_weight = nn.Parameter(torch.empty(heads, dim))
        self.step_bias = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the numbers as a linear layer of PyTorch does (the published first values are UNVERIFIED)."""
        for part in (self.step_weight, self.step_bias):
            nn.init.uniform_(part, -(self.dim**-0.5), self.dim**-0.5)

    def read(
        self, hidden: Float[Tensor, "batch new dim"], positions: Positions, state: Tensor | None = None
    ) -> tuple[LowRankBias, Float[Tensor, "batch heads keys"]]:
        """The bias of the new queries on all keys; the state is the running sum at all tokens, float64.

        Raises:
            InvalidArgument: keys before the queries that the state does not know.
        """
        check_read(hidden, positions, 0 if state is None else state.shape[-1])
        steps = -nn.functional.softplus(project(hidden, self.step_weight, self.step_bias))
        return forgetting(steps, positions, state)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.dim}, heads={self.heads}"
