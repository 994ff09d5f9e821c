"""FIRE: a learned function of distance relative to the query's position (Li et al. 2023, 2310.04418).

    logit(i, j) += f_h(psi(i - j) / psi(max(|L|, i))),   psi(x) = ln(|c x| + 1),   L = multiplier * threshold

f is a network of one hidden layer with ReLU, from one number to one a head; c and the multiplier are learned too. For
keys not ahead the input lies in [0, 1] whatever the length, so the bias is bounded; the price is that distances of one
long row come ever closer, and float32 can't tell the farthest apart (at position 2^20 steps of distance 1 change the
input by 8e-8, near its last digit). Up to position |L| the bias depends on distance alone, beyond it does not: no
translation invariance is claimed. No official code was found: the defaults are those of two re-implementations (eps is
added to the denominator after the logarithm; others use another threshold or LeakyReLU), and are UNVERIFIED.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from lengthwise.bias import PairBias, PairFunction, pair_functions
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import can_be_read


@encodings.register("fire")
class FIRE(nn.Module):
    """A small network of distance, in units of the query's own position.

    Made for causal attention: for keys ahead the input has no upper limit.

    Args:
        heads: number of query heads.
        hidden: width of the network's hidden layer.
        threshold: first value of L, the position up to which all rows have one unit.
        init_c: first value of c.
        eps: added to the denominator, so that c = 0 gives 0 and not 0/0.

    Example:
        >>> import torch, lengthwise as lw
        >>> lw.FIRE(heads=8).unit(torch.tensor([10, 512, 1000]), torch.tensor([3, 0, 900])).detach()
        tensor([0.1342, 1.0000, 0.5196])
    """

    formula: ClassVar[str] = "logit(i, j) += f_h(ψ(i - j) / ψ(max(|L|, i))),  ψ(x) = ln(|c x| + 1)"
    paper: ClassVar[str] = "Li et al. 2023, arXiv 2310.04418"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})
    direction: ClassVar[str] = "causal"

    def __init__(
        self, heads: int, hidden: int = 32, threshold: float = 512.0, init_c: float = 0.1, eps: float = 1e-6
    ) -> None:
        super().__init__()
        if heads < 1 or hidden < 1:
            raise InvalidArgument(f"FIRE needs at least 1 head and 1 hidden unit, not {heads} and {hidden}")
        if not threshold > 0 or not init_c > 0 or not eps > 0:
            raise InvalidArgument(f"threshold, init_c and eps must be above 0, not {threshold}, {init_c} and {eps}")
        self.heads, self.hidden = heads, hidden
        self.threshold, self.init_c, self.eps = float(threshold), init_c, eps
        self.c = nn.Parameter(torch.empty(()))
        self.multiplier = nn.Parameter(torch.empty(()))  # of the threshold
        self.hidden_weight = nn.Parameter(torch.empty(hidden))
        self.hidden_bias = nn.Parameter(torch.empty(hidden))
        self.head_weight = nn.Parameter(torch.empty(heads, hidden))
        self.head_bias = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the network anew, as `nn.Linear` does, and set c and the multiplier to their first values."""
        nn.init.constant_(self.c, self.init_c)
        nn.init.ones_(self.multiplier)
        for part, inputs in (
            (self.hidden_weight, 1),
            (self.hidden_bias, 1),
            (self.head_weight, self.hidden),
            (self.head_bias, self.hidden),
        ):
            nn.init.uniform_(part, -1 / math.sqrt(inputs), 1 / math.sqrt(inputs))

    def logit_bias(self, positions: Positions) -> PairBias:
        """The bias at `positions`, differentiable in all parameters."""
        learned = (
            self.c, self.multiplier, self.hidden_weight, self.hidden_bias, self.head_weight, self.head_bias
        )  # fmt: skip
        return PairBias(PairFunction("fire", learned, (self.threshold, self.eps)), positions)

    def of_pair(self, q: Tensor, k: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at query and key positions whose shapes broadcast."""
        x = self.unit(q, k)
        return _values(x, self.hidden_weight, self.hidden_bias, self.head_weight, self.head_bias)

    def unit(self, q: Tensor, k: Tensor) -> Float[Tensor, "*pairs"]:
        """The network's input: distance on a logarithmic scale, in units of max(|L|, position of the query)."""
        return _unit(q, k, self.c, self.multiplier, self.threshold, self.eps)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"heads={self.heads}, hidden={self.hidden}, threshold={self.threshold:g}"


def _of_pair(q: Tensor, k: Tensor, c: Tensor, multiplier: Tensor, *rest: Any) -> Tensor:
    *network, threshold, eps = rest
    return _values(_unit(q, k, c, multiplier, threshold, eps), *network)


pair_functions["fire"] = _of_pair


def _unit(q: Tensor, k: Tensor, c: Tensor, multiplier: Tensor, threshold: float, eps: float) -> Tensor:
    wide = torch.promote_types(c.dtype, torch.float32)
    c = c.to(wide)
    end = (multiplier.to(wide) * threshold).abs()
    far = torch.log1p((c * (q - k).to(wide)).abs())
    whole = torch.log1p((c * torch.maximum(end, q.to(wide))).abs())
    return far / (whole + eps)


def _values(x: Tensor, *network: Tensor) -> Tensor:
    wide = x.dtype  # a bias is never narrower than float32, whatever autocast would do
    w, b, head, base = (part.to(wide) for part in network)
    with torch.autocast(x.device.type, enabled=False):
        # Pairs lie side by side in memory, and heads come first: on one thread a quarter of the time.
        flat = x.reshape(1, -1)
        on, bent = _kinds(x, w, b)
        if on is not None:
            # A unit that is on at all x is a line, and so is a sum of lines: one unit for all of them, x itself.
            base = base + head[:, on] @ b[on]
            head = torch.cat(((head[:, on] @ w[on])[:, None], head[:, bent]), dim=1)
            w, b = pad(w[bent], (1, 0), value=1.0), pad(b[bent], (1, 0))
        inner = torch.addcmul(b[:, None], w[:, None], flat).relu_()
        values = torch.addmm(base[:, None], head, inner)
    return values.view(len(base), *x.shape)


def _kinds(x: Tensor, w: Tensor, b: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Which hidden units are on at all inputs, and which bend between them; the rest are off and add nothing.

    As drawn, a quarter bends. None where the weights can't be looked at: under a compiler, on a device that would have
    to wait, for a batch of networks; and where it would not pay.
    """
    if not can_be_read(x) or x.numel() < 2**14:
        return None, None
    with torch.no_grad():
        ends = torch.stack((b, w * x.amax() + b))  # the input is at least 0, and a unit is monotone
        on, off = ends.amin(dim=0) > 0, ends.amax(dim=0) < 0
        return on.nonzero()[:, 0], (~on & ~off).nonzero()[:, 0]
