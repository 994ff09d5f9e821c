"""NTK-by-parts: each pair by the turns that it makes in the trained length (Peng et al. 2023, 2309.00071, section 3.2).

    rho_m = L theta_m / (2 pi),   gamma = clip((rho - alpha) / (beta - alpha), 0, 1)
    theta_m -> (1 - gamma) theta_m / s + gamma theta_m

What makes fewer than alpha turns has never been seen all round, and is interpolated; what makes more than beta is left
for what is near. This is the paper's form, a line in the number of turns; code under the name of YaRN has a line in
the index of the pair (`lengthwise.YaRN`). An early code of this name blends three bases: another method.
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


@extensions.register("ntk_by_parts")
@dataclass(frozen=True)
class NTKByParts(Method):
    """Slow pairs are divided by the factor, fast ones stay, a ramp in the number of turns between.

    Args:
        factor: target length over trained length, at least 1; 1 changes nothing.
        original_length: length of training.
        slow: turns within it below which a pair is divided by the whole factor, the paper's alpha.
        fast: turns above which a pair stays as it is, the paper's beta.

    Raises:
        InvalidArgument: a factor below 1, no length, or bounds that are not 0 < slow < fast.

    Example:
        >>> import lengthwise as lw
        >>> longer = lw.extend(lw.Rotary(head_dim=4), lw.NTKByParts(factor=4, original_length=512))
        >>> longer.spectrum.inv_freq.tolist()
        [1.0, 0.0025]
    """

    factor: float
    original_length: int
    slow: float = 1.0
    fast: float = 32.0

    formula: ClassVar[str] = "θ_m -> (1 - γ) θ_m / s + γ θ_m,  γ = clip((L / λ_m - α) / (β - α), 0, 1)"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071, section 3.2"
    example: ClassVar[str] = "ntk_by_parts(factor=4)"

    def __post_init__(self) -> None:
        check_factor(self.factor)
        check_original_length(self.original_length)
        check_turns("slow", self.slow, "fast", self.fast)

    @property
    def identity(self) -> bool:
        """Factor 1."""
        return self.factor == 1

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """Each frequency by the number of turns that it makes."""
        kept = kept_by_turns(spectrum, self.original_length, self.slow, self.fast)
        return spectrum.replace(inv_freq=divided(spectrum, float(self.factor), kept))
