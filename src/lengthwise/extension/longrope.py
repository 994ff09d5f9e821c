"""LongRoPE: a divisor for each pair, found by search (Ding et al. 2024, 2402.13753, id UNVERIFIED).

    theta_m -> theta_m / lambda_m,   lambda = short factors up to the trained length L, long ones past it
    cosines and sines times a = sqrt(1 + ln s / ln L), at short lengths too

As `longrope` in `transformers`. vLLM picks the long factors once for all where its longest length is past L, and takes
s from the lengths of the config. The paper leaves the first n positions as they are; neither does, nor is it done here:
positions that jump at n are not translation invariant. LongRoPE2 is another method.

`lengthwise.extension.longrope_search` searches the divisors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.extension.settings import check_factor, check_original_length, check_positive
from lengthwise.spectrum import Spectrum


@extensions.register("longrope")
@dataclass(frozen=True)
class LongRoPE(Method):
    """Each frequency divided by a number of its own, of one list up to the trained length and another past it.

    The length is `target_length` of the positions, or else the largest position plus 1. A cache holds rotated keys only
    where the length is stated, and stays the same, from its first token on. Where both lists are the same, no length
    matters.

    Args:
        short_factor: divisors up to the trained length, one a rotated pair, the fastest first; a single number for all.
        long_factor: divisors past it.
        original_length: length of training.
        factor: target length over trained length, at least 1, which decides a.
        attention_factor: what cosines and sines are multiplied by, in place of a.

    Raises:
        InvalidArgument: divisors that are not above 0, no length, neither or an impossible factor; when it extends, as
            many divisors as the encoding does not have pairs.

    Example:
        >>> import lengthwise as lw
        >>> method = lw.LongRoPE([1.0, 1.0], [1.0, 4.0], original_length=1024, factor=4)
        >>> longer = lw.extend(lw.Rotary(head_dim=4), method)
        >>> longer.spectrum_at(1024).inv_freq.tolist(), longer.spectrum_at(1025).inv_freq.tolist()
        ([1.0, 0.01], [1.0, 0.0025])
    """

    short_factor: float | Sequence[float]
    long_factor: float | Sequence[float]
    original_length: int
    factor: float | None = None
    attention_factor: float | None = None

    formula: ClassVar[str] = "θ_m -> θ_m / λ_m,  logits times 1 + ln s / ln L"
    paper: ClassVar[str] = "Ding et al. 2024, arXiv 2402.13753"
    example: ClassVar[str] = "longrope(short_factor=1.0, long_factor=4.0, factor=4)"
    preserves: ClassVar[frozenset[str]] = Method.preserves - {"norm_preserving"}

    def __post_init__(self) -> None:
        for name in ("short_factor", "long_factor"):
            given = getattr(self, name)
            factors = (given,) if isinstance(given, int | float) else tuple(map(float, given))
            for one in factors:
                check_positive(f"each of {name}", one)
            if not isinstance(given, int | float):
                object.__setattr__(self, name, factors)  # a tuple, which is hashable, of any sequence
        check_original_length(self.original_length)
        if self.factor is not None:
            check_factor(self.factor)
        if self.attention_factor is not None:
            check_positive("attention_factor", self.attention_factor)
        elif self.factor is None:
            raise InvalidArgument(
                "LongRoPE needs factor, the target length divided by the trained length, which its factor of cosines "
                "and sines follows from; or that itself, attention_factor (1 leaves them as they are)"
            )
        elif self.factor > 1 and self.original_length < 2:
            raise InvalidArgument("an original_length of 1 gives no attention_factor: its logarithm is 0")

    @property
    def follows_length(self) -> bool:
        """Whether short and long sequences have divisors of their own."""
        return self.short_factor != self.long_factor

    @property
    def cached_keys(self) -> str:
        """Keys are turned for one side of the trained length."""
        return "rotated_at_target_length" if self.follows_length else "rotated"

    @property
    def identity(self) -> bool:
        """All divisors 1, and cosines and sines as they are."""
        return {*_listed(self.short_factor), *_listed(self.long_factor)} <= {1.0} and not self.scales_rotation

    @property
    def rotation_multiplier(self) -> float:
        """What cosines and sines are multiplied by."""
        if self.attention_factor is not None:
            return float(self.attention_factor)
        if self.factor is None or self.factor == 1:
            return 1.0
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_length))

    @property
    def scales_rotation(self) -> bool:
        """Whether cosines and sines are multiplied by a number that is not 1."""
        return self.rotation_multiplier != 1

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """Frequencies for a length; of the trained length where none is given."""
        pairs = spectrum.inv_freq.shape[0]
        short, long = (_divisors(name, getattr(self, name), pairs) for name in ("short_factor", "long_factor"))
        divisors, inv_freq = short, spectrum.inv_freq
        if self.follows_length and target_length is not None:
            past = torch.as_tensor(target_length) > self.original_length
            inv_freq = inv_freq.to(past.device)
            divisors = torch.where(past, long.to(past.device), short.to(past.device))
        return spectrum.replace(
            inv_freq=inv_freq / divisors, attention_factor=spectrum.attention_factor * self.rotation_multiplier
        )


def _listed(factors: float | Sequence[float]) -> Sequence[float]:
    return (factors,) if isinstance(factors, int | float) else factors


def _divisors(name: str, factors: float | Sequence[float], pairs: int) -> Tensor:
    listed = _listed(factors)
    if len(listed) == 1 and isinstance(factors, int | float):
        listed = [factors] * pairs
    if len(listed) != pairs:
        raise InvalidArgument(
            f"{name} needs a divisor for each of the {pairs} pairs that are rotated, and has {len(listed)}"
        )
    return torch.tensor(listed, dtype=torch.float64, device="cpu")  # where frequencies are, whatever the default
