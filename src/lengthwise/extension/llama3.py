"""Llama 3.1's scaling of frequencies (the Llama team 2024, 2407.21783, id UNVERIFIED; the formula is that of its code).

    rho_m = L theta_m / (2 pi),   the turns that pair m makes within the trained length
    sigma = clip((rho - low) / (high - low), 0, 1)
    theta_m -> (1 - sigma) theta_m / s + sigma theta_m

As YaRN's paper has it, with bounds of 1 and 4 turns, and without a factor on the logits. Llama 3.1 has s = 8, L = 8192
and base 500000; Llama 3.2 has s = 32 (UNVERIFIED).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lengthwise.extension.method import Method
from lengthwise.extension.ramps import check_turns, divided, kept_by_turns
from lengthwise.extension.registry import extensions
from lengthwise.extension.settings import check_factor, check_original_length
from lengthwise.spectrum import Spectrum


@extensions.register("llama3")
@dataclass(frozen=True)
class Llama3(Method):
    """Slow pairs are divided by the factor, fast ones stay, a ramp in the number of turns between.

    Args:
        factor: target length over trained length, at least 1; 1 changes nothing.
        original_length: length of training.
        low_freq_factor: turns within the trained length below which a pair is divided by the whole factor.
        high_freq_factor: turns above which a pair stays as it is.

    Raises:
        InvalidArgument: a factor below 1, no length, or bounds that are not 0 < low < high.

    Example:
        >>> import lengthwise as lw
        >>> method = lw.Llama3(factor=8, original_length=8192)
        >>> round(lw.extend(lw.Rotary(head_dim=128, base=500000), method).spectrum.inv_freq[32].item(), 9)
        0.000524846
    """

    factor: float
    original_length: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0

    formula: ClassVar[str] = "θ_m -> (1 - σ) θ_m / s + σ θ_m,  σ = clip((L / λ_m - low) / (high - low), 0, 1)"
    paper: ClassVar[str] = "The Llama team 2024, arXiv 2407.21783"
    example: ClassVar[str] = "llama3(factor=4)"

    def __post_init__(self) -> None:
        check_factor(self.factor)
        check_original_length(self.original_length)
        check_turns("low_freq_factor", self.low_freq_factor, "high_freq_factor", self.high_freq_factor)

    @property
    def identity(self) -> bool:
        """Factor 1."""
        return self.factor == 1

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """Each frequency by the number of turns that it makes."""
        kept = kept_by_turns(spectrum, self.original_length, self.low_freq_factor, self.high_freq_factor)
        return spectrum.replace(inv_freq=divided(spectrum, float(self.factor), kept))
