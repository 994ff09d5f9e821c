"""Temperatures: attention over more keys than in training grows flat, and sharper queries undo it.

    q_p <- max(1, ln(p + 1) / ln L) q_p        LogN (Chiang and Cholak 2022, 2202.12172, id UNVERIFIED; Su, kexue 8823)
    q_p <- s_h ln(p + 1) q_p                   ScalableSoftmax (Nakanishi 2025, 2501.19399), s_h learned
    q_p <- c q_p                               ConstantTemperature; c = 1 + a ln(L' / L) in DroPE (2512.12167)

L is the trained length, p + 1 the number of keys that a causal query sees. Queries alone are multiplied: a bias stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.extension.extended import QueriesExtended
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.query_key import QueryScale
from lengthwise.sites import axes

_OF_BIASES = frozenset({"nonincreasing", "nonpositive", "pairwise"})


@extensions.register("log_n")
@dataclass(frozen=True)
class LogN(Method):
    """Queries past the trained length grow with the logarithm of the keys they see.

    Args:
        original_length: the trained length, at least 2; queries before it stay as they are.

    Raises:
        InvalidArgument: a trained length below 2, whose logarithm is not above 0.

    Example:
        >>> import torch, lengthwise as lw
        >>> lw.LogN(original_length=4).scale_queries(torch.tensor([0, 3, 15]))
        tensor([1., 1., 2.])
    """

    original_length: int

    formula: ClassVar[str] = "q_p <- max(1, ln(p + 1) / ln L) q_p"
    paper: ClassVar[str] = "Chiang and Cholak 2022, arXiv 2202.12172; Su, kexue.fm/archives/8823"
    example: ClassVar[str] = "log_n"
    preserves: ClassVar[frozenset[str]] = _OF_BIASES
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.original_length < 2:
            raise InvalidArgument(
                f"LogN divides by ln(original_length), which must be at least 2, not {self.original_length}"
            )

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """It counts tokens in a row."""
        return _one_axis(encoding)

    def scale_queries(self, place: Tensor) -> Float[Tensor, "*place"]:
        """Factors of queries at positions of any shape, float32."""
        return (_log_seen(place) / math.log(self.original_length)).clamp(min=1.0).float()


@extensions.register("ssmax")
@dataclass(frozen=True)
class ScalableSoftmax(Method):
    """Queries grow with the logarithm of the keys they see, from the first on, by a learned number a head.

    For training: with weights that were trained without it, use `LogN`.

    Args:
        heads: number of query heads.
        initial: where the learned numbers begin. UNVERIFIED: 0.43 is that of others' code, and not from the paper.

    Raises:
        InvalidArgument: no head, or an initial value that is not above 0.

    Example:
        >>> import torch, lengthwise as lw
        >>> scaled = lw.extend(lw.NoPE(), lw.ScalableSoftmax(heads=2, initial=1.0))
        >>> scaled.rotation(lw.Positions.step(7)).q(torch.ones(1, 2, 1, 1)).flatten().tolist()
        [2.079441547393799, 2.079441547393799]
    """

    heads: int
    initial: float = 0.43

    formula: ClassVar[str] = "q_p <- s_h ln(p + 1) q_p"
    paper: ClassVar[str] = "Nakanishi 2025, arXiv 2501.19399"
    example: ClassVar[str] = "ssmax"
    preserves: ClassVar[frozenset[str]] = _OF_BIASES
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.heads < 1 or not self.initial > 0:
            raise InvalidArgument(
                f"ScalableSoftmax needs at least 1 head and an initial value above 0, not {self.heads} and "
                f"{self.initial}"
            )

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """It counts tokens in a row."""
        return _one_axis(encoding)

    def transform(self, encoding: nn.Module) -> nn.Module:
        """The encoding with learned numbers of its own."""
        return LearnedScale(encoding, self)


class LearnedScale(QueriesExtended):
    """An encoding whose queries are multiplied by a learned number a head, times the logarithm of what they see."""

    def __init__(self, encoding: nn.Module, method: ScalableSoftmax) -> None:
        super().__init__(encoding, method)
        self.scale = nn.Parameter(torch.full((method.heads,), float(method.initial)))
        self.shared = False

    def _scale(self, positions: Positions) -> QueryScale:
        seen = _log_seen(positions.one_axis()[0]).float()  # [(batch,) q]
        factor = self.scale.to(torch.promote_types(self.scale.dtype, torch.float32))[:, None] * seen.unsqueeze(-2)
        return QueryScale(factor if factor.dim() == 3 else factor.unsqueeze(0))


@extensions.register("constant_temperature")
@dataclass(frozen=True)
class ConstantTemperature(Method):
    """All queries multiplied by one number.

    Args:
        factor: above 1 for sharper attention; 1 changes nothing.

    Raises:
        InvalidArgument: a factor that is not above 0.

    Example:
        >>> import lengthwise as lw
        >>> round(lw.ConstantTemperature.of_lengths(4096, original_length=1024).factor, 4)
        1.5712
    """

    factor: float

    formula: ClassVar[str] = "q_p <- c q_p"
    paper: ClassVar[str] = "Gelberg et al. 2025, arXiv 2512.12167, for c = 1 + a ln(L' / L)"
    example: ClassVar[str] = "constant_temperature(factor=1.2)"
    preserves: ClassVar[frozenset[str]] = _OF_BIASES | {"translation_invariant"}
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.factor < math.inf:
            raise InvalidArgument(f"the factor of ConstantTemperature is above 0, and not {self.factor}")

    @classmethod
    def of_lengths(cls, target_length: int, original_length: int, strength: float = 0.412) -> ConstantTemperature:
        """The temperature of DroPE at test: `1 + strength ln(target_length / original_length)`, 1 below.

        UNVERIFIED against its code: 0.412 is given for models trained without rotation from the start, 0.103 for
        SmolLM.
        """
        return cls(1 + strength * math.log(max(target_length / original_length, 1)))

    @property
    def identity(self) -> bool:
        """Factor 1."""
        return self.factor == 1

    def scale_queries(self, place: Tensor) -> Float[Tensor, "*place"]:
        """The factor for each position."""
        return torch.full_like(place, self.factor, dtype=torch.float32)


def _log_seen(place: Tensor) -> Tensor:
    return (place.to(widest_float(place.device)) + 1).clamp(min=1.0).log()


def _one_axis(encoding: nn.Module) -> str | None:
    return None if axes(encoding) == 1 else f"it counts tokens in a row, and this encoding reads {axes(encoding)} axes"
