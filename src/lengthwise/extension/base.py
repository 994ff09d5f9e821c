"""Another base, as continued training at a longer length takes it (Xiong et al. 2023, 2309.16039, id UNVERIFIED).

    theta_m = b'^(-2m / r)

From 10000 to 500000 in the paper, 1000000 in Code Llama (UNVERIFIED). The model has to be trained on; its new
frequencies are then its own, and other methods may change them: `rotary + change_base(500000) + yarn(factor=4)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.extension.settings import check_positive
from lengthwise.spectrum import Spectrum


@extensions.register("change_base")
@dataclass(frozen=True)
class ChangeBase(Method):
    """All frequencies anew, from another base.

    Args:
        base: the new base, above 0; `rope_theta` in many configs.

    Raises:
        InvalidArgument: a base that is not above 0.

    Example:
        >>> import lengthwise as lw
        >>> lw.extend(lw.Rotary(head_dim=4), lw.ChangeBase(base=40000)).spectrum.inv_freq.tolist()
        [1.0, 0.005]
    """

    base: float

    formula: ClassVar[str] = "θ_m = b'^(-2m / r)"
    paper: ClassVar[str] = "Xiong et al. 2023, arXiv 2309.16039"
    example: ClassVar[str] = "change_base(base=500000)"
    rebases: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("base", self.base)

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """The geometric frequencies of the new base."""
        made = Spectrum.of_base(float(self.base), spectrum.rotary_dim)
        return spectrum.replace(inv_freq=made.inv_freq, base=made.base)
