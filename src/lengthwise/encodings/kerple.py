"""KERPLE: conditionally positive definite kernels of distance (Chi et al. 2022, 2205.09921, id UNVERIFIED).

    log:    logit(i, j) += -r1 ln(1 + r2 |i - j|),   r1, r2 > 0
    power:  logit(i, j) += -r1 |i - j|^r2,           r1 > 0,  0 < r2 < 2

The published code keeps its numbers in range by overwriting them at every forward (at least 0.01, exponents at most
2). Here r1 and r2 are smooth functions of what is trained, so that no gradient is lost at an edge. The first values
are drawn as published: uniform in (0, 2) for r1 of the log kernel and the exponent, in (0, 1) for the other two, with
its lower limit. One instance serves all layers in that code. A port with fixed zeros gives no bias at all.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.bias import DistanceBias
from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions

KERNELS = ("log", "power")


@encodings.register("kerple")
class KERPLE(nn.Module):
    """A learned penalty that grows with the logarithm or a power of distance, two numbers a head.

    Args:
        heads: number of query heads.
        kernel: `"log"` or `"power"`; the power kernel with exponent 1 is ALiBi with learned slopes.

    Example:
        >>> import lengthwise as lw
        >>> encoding = lw.KERPLE(heads=1).set(r1=[1.0], r2=[1.0])
        >>> encoding.logit_bias(lw.Positions.step(3)).dense().detach()
        tensor([[[-1.3863, -1.0986, -0.6931, -0.0000]]])
    """

    formula: ClassVar[str] = "logit(i, j) += -r1 ln(1 + r2 |i - j|)  or  -r1 |i - j|^r2"
    paper: ClassVar[str] = "Chi et al. 2022, arXiv 2205.09921"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "nonincreasing", "nonpositive", "pairwise"})
    shared: ClassVar[bool] = True

    def __init__(self, heads: int, kernel: Literal["log", "power"] = "log") -> None:
        super().__init__()
        if heads < 1:
            raise InvalidArgument(f"KERPLE needs at least 1 head, not {heads}")
        if kernel not in KERNELS:
            raise InvalidArgument(f"unknown kernel {kernel!r}: {nearest(kernel, KERNELS)}")
        self.heads, self.kernel = heads, kernel
        self.free_r1 = nn.Parameter(torch.empty(heads))
        self.free_r2 = nn.Parameter(torch.empty(heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw r1 and r2 anew."""
        r1 = torch.empty_like(_wide(self.free_r1)).uniform_(0, 2 if self.kernel == "log" else 1)
        r2 = torch.empty_like(_wide(self.free_r2)).uniform_(0, 1 if self.kernel == "log" else 2)
        self._store(r1.clamp(min=0.01), r2.clamp(min=0.01))

    @property
    def r1(self) -> Float[Tensor, " heads"]:
        """The factor of each head, above 0, float32 or wider."""
        return nn.functional.softplus(_wide(self.free_r1))

    @property
    def r2(self) -> Float[Tensor, " heads"]:
        """The inner factor (log) or the exponent (power, below 2) of each head, above 0."""
        free = _wide(self.free_r2)
        return nn.functional.softplus(free) if self.kernel == "log" else 2 * free.sigmoid()

    def set(self, r1: list[float], r2: list[float]) -> KERPLE:
        """Give each head its r1 and r2, for example from a checkpoint of the published code; returns itself.

        Raises:
            InvalidArgument: another number of heads, or values out of range.
        """
        limit = float("inf") if self.kernel == "log" else 2.0
        for name, values, below in (("r1", r1, float("inf")), ("r2", r2, limit)):
            if len(values) != self.heads or not all(0 < value < below for value in values):
                raise InvalidArgument(f"{name} must be {self.heads} numbers between 0 and {below:g}, not {values}")
        wide = _wide(self.free_r1).dtype
        self._store(torch.tensor(r1, dtype=wide), torch.tensor(r2, dtype=wide))
        return self

    def logit_bias(self, positions: Positions) -> DistanceBias:
        """The bias at `positions`, differentiable in r1 and r2."""
        return DistanceBias(self.of_distance, positions)

    def of_distance(self, distance: Tensor) -> Float[Tensor, "heads ..."]:
        """Bias at distances of any shape."""
        shape = (-1, *[1] * distance.dim())
        r1, r2 = self.r1.view(shape), self.r2.view(shape)
        far = distance.abs().to(r1.dtype)
        if self.kernel == "log":
            return -r1 * torch.log1p(r2 * far)
        # The slope of a power at 0 is infinite for exponents below 1, and ln 0 would make NaN of r2's gradient.
        apart = far > 0
        return -r1 * torch.where(apart, torch.where(apart, far, 1.0) ** r2, 0.0)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"heads={self.heads}, kernel={self.kernel!r}"

    def _store(self, r1: Tensor, r2: Tensor) -> None:
        with torch.no_grad():
            self.free_r1.copy_(_inverse_softplus(r1))
            self.free_r2.copy_(_inverse_softplus(r2) if self.kernel == "log" else (r2 / 2).logit())


def _wide(free: Tensor) -> Tensor:
    return free.to(torch.promote_types(free.dtype, torch.float32))  # a bias is never narrower


def _inverse_softplus(value: Tensor) -> Tensor:
    return value + torch.log(-torch.expm1(-value))
