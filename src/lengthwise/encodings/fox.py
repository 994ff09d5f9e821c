"""Forgetting attention, FoX (Lin et al. 2025, 2503.02130).

    f_t = sigmoid(w_h · x_t + b_h)
    logit(i, j) += ln f_{j+1} + ... + ln f_i = c_i - c_j,   c_t = ln f_1 + ... + ln f_t

Each token decides how much of all that came before it a head forgets. The bias joins after the 1/sqrt(head_dim)
scale; RoPE is off by default. A gate that is the same for all tokens is ALiBi with the slope -ln f. Checked against
the published code by numbers: gate logits 0, 1, -1, 2.

A head whose gate rests at f = sigmoid(b) forgets over -1 / ln f tokens; b = -ln(expm1(1 / T)) makes that T, and the
published fixed gates spread T evenly in its logarithm from `t_min` to `t_max` over the heads.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import LowRankBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.hidden import check_read, forgetting, project
from lengthwise.positions import Positions


@encodings.register("fox")
class FoX(nn.Module):
    """A penalty that each token's forget gate adds to all keys before it.

    Positions are not read, only order: tokens of one document stand one after another. Padding forgets nothing.

    Args:
        dim: width of the hidden states.
        heads: number of query heads.
        t_min: tokens over which the first head forgets at first; None: gates begin with a bias of 0.
        t_max: the same of the last head; give both or neither.

    Example:
        >>> import torch, lengthwise as lw
        >>> q = k = v = torch.randn(1, 4, 16, 8)
        >>> hidden = torch.randn(1, 16, 32)
        >>> lw.attention(q, k, v, lw.FoX(dim=32, heads=4), hidden=hidden).shape
        torch.Size([1, 4, 16, 8])
    """

    formula: ClassVar[str] = "logit(i, j) += Σ_{t=j+1..i} ln σ(w_h · x_t + b_h)"
    paper: ClassVar[str] = "Lin et al. 2025, arXiv 2503.02130"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "nonincreasing", "nonpositive"})
    direction: ClassVar[str] = "causal"
    shared: ClassVar[bool] = False

    def __init__(self, dim: int, heads: int, t_min: float | None = None, t_max: float | None = None) -> None:
        super().__init__()
        if dim < 1 or heads < 1:
            raise InvalidArgument(f"FoX needs a dim and heads of at least 1, not {dim} and {heads}")
        if (t_min is None) != (t_max is None):
            raise InvalidArgument(f"give t_min and t_max together, or neither, not {t_min} and {t_max}")
        if t_min is not None and t_max is not None and not 0 < t_min <= t_max:
            raise InvalidArgument(f"t_min must be above 0 and at most t_max, not {t_min} and {t_max}")
        self.dim, self.heads, self.t_min, self.t_max = dim, heads, t_min, t_max
        self.gate_weight = nn.Parameter(torch.empty(heads, dim))
        self.gate_bias = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as a linear layer of PyTorch does, and set the biases."""
        nn.init.uniform_(self.gate_weight, -(self.dim**-0.5), self.dim**-0.5)
        with torch.no_grad():
            self.gate_bias.copy_(torch.tensor(self._first_biases()))

    def read(
        self, hidden: Float[Tensor, "batch new dim"], positions: Positions, state: Tensor | None = None
    ) -> tuple[LowRankBias, Float[Tensor, "batch heads keys"]]:
        """The bias of the new queries on all keys; the state is c of all tokens, float64.

        Raises:
            InvalidArgument: keys before the queries that the state does not know.
        """
        check_read(hidden, positions, 0 if state is None else state.shape[-1])
        gates = nn.functional.logsigmoid(project(hidden, self.gate_weight, self.gate_bias))
        return forgetting(gates, positions, state)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        spread = "" if self.t_min is None else f", t_min={self.t_min:g}, t_max={self.t_max:g}"
        return f"dim={self.dim}, heads={self.heads}{spread}"

    def _first_biases(self) -> list[float]:
        if self.t_min is None or self.t_max is None:
            return [0.0] * self.heads
        steps = [head / max(self.heads - 1, 1) for head in range(self.heads)]
        return [-math.log(math.expm1(1 / (self.t_min * (self.t_max / self.t_min) ** step))) for step in steps]
