"""NTK-aware scaling: the lowest frequency is divided by the factor, the highest stays, powers of one number between.

    theta_m -> theta_m s^(-2m / (r - 2)),   which is RoPE of the base   b s^(r / (r - 2))

The author's post (bloc97, 2023) has no paper; YaRN's section 3.1 (Peng et al. 2023, 2309.00071) gives the formula.
Su's variant divides every frequency, theta_m s^(-2(m+1)/r), the last one by s as well; vLLM's `ntk` is this one.

Dynamic: s follows the length of the sequence, so that up to the trained length nothing changes. `transformers` has
s = f l / L - (f - 1), l = max(length, L); f = 1 is YaRN's form, s = l / L. `transformers` 5.24 recomputes when a
sequence grows, and not when the next is shorter but past L, so that a result depends on what was called before. Here it
is a function of the stated length alone. vLLM computes it once, at l = f L.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.extension.settings import check_factor, check_original_length, growth
from lengthwise.spectrum import Spectrum


@extensions.register("ntk")
@dataclass(frozen=True)
class NTK(Method):
    """A larger base: low frequencies are divided by the factor, high ones hardly change.

    Two in a row, of one variant, are one with the product of both factors.

    Args:
        factor: target length over trained length, at least 1; 1 changes nothing.
        variant: `"base"`, where the highest frequency stays, or `"su"`, where each is divided.

    Raises:
        InvalidArgument: a factor below 1 or an unknown variant; when it extends, an encoding of a single pair.

    Example:
        >>> import lengthwise as lw
        >>> longer = lw.extend(lw.Rotary(head_dim=4), lw.NTK(factor=4))
        >>> longer.spectrum.inv_freq.tolist()
        [1.0, 0.0025]
    """

    factor: float
    variant: Literal["base", "su"] = "base"

    formula: ClassVar[str] = "θ_m -> θ_m s^(-2m / (r - 2))"
    paper: ClassVar[str] = "bloc97 2023 (a post); Peng et al. 2023, arXiv 2309.00071, section 3.1"
    example: ClassVar[str] = "ntk(factor=4)"
    plain_factor: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_factor(self.factor)
        if self.variant not in ("base", "su"):
            raise InvalidArgument(f"unknown variant {self.variant!r}: {nearest(self.variant, ('base', 'su'))}")

    @property
    def identity(self) -> bool:
        """Factor 1."""
        return self.factor == 1

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """Frequency m divided by the power of the factor that its place asks for."""
        if self.variant == "su":
            m = torch.arange(1, spectrum.inv_freq.shape[0] + 1, dtype=torch.float64, device=spectrum.inv_freq.device)
            power = float(self.factor) ** (-2 * m / spectrum.rotary_dim)
            return spectrum.replace(inv_freq=spectrum.inv_freq * power, base=spectrum.base * self.factor)
        base = spectrum.base * self.factor ** (spectrum.rotary_dim / max(spectrum.rotary_dim - 2, 1))
        return spectrum.replace(inv_freq=_powers(spectrum, float(self.factor)), base=base)


@extensions.register("dynamic_ntk")
@dataclass(frozen=True)
class DynamicNTK(Method):
    """NTK-aware scaling whose factor follows the length of the sequence; none up to the trained length.

    The length is `target_length` of the positions, or else the largest position plus 1. A cache holds rotated keys only
    where the length is stated, and stays the same, from its first token on.

    Args:
        factor: how fast the factor grows with the length past the trained one, at least 1.
        original_length: length of training; `max_position_embeddings` in configs of this type.

    Raises:
        InvalidArgument: a factor below 1 or no length; when it extends, an encoding of a single pair.

    Example:
        >>> import lengthwise as lw
        >>> longer = lw.extend(lw.Rotary(head_dim=4), lw.DynamicNTK(factor=1, original_length=1024))
        >>> longer.spectrum_at(1024).inv_freq.tolist(), longer.spectrum_at(4096).inv_freq.tolist()
        ([1.0, 0.01], [1.0, 0.0025])
    """

    factor: float
    original_length: int

    formula: ClassVar[str] = "θ_m -> θ_m s^(-2m / (r - 2)),  s = f max(length, L) / L - (f - 1)"
    paper: ClassVar[str] = "emozilla 2023 (a post); Peng et al. 2023, arXiv 2309.00071, section 3.3"
    example: ClassVar[str] = "dynamic_ntk(factor=2)"

    def __post_init__(self) -> None:
        check_factor(self.factor)
        check_original_length(self.original_length)

    @property
    def cached_keys(self) -> str:
        """Keys are turned for one length."""
        return "rotated_at_target_length"

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """Frequencies for a length; of the trained length where none is given."""
        grown = self.factor * growth(target_length, self.original_length) - (self.factor - 1)
        return spectrum.replace(inv_freq=_powers(spectrum, grown))


def _powers(spectrum: Spectrum, factor: float | Tensor) -> Tensor:
    """Frequencies divided by powers of the factor, from none for the first to the whole of it for the last."""
    if spectrum.rotary_dim == 2:
        raise InvalidArgument(
            "NTK keeps the highest frequency and divides the lowest, and a single pair of dims has one: "
            "use Interpolate, or rotate at least 4 dims"
        )
    inv_freq = spectrum.inv_freq.to(factor.device) if isinstance(factor, Tensor) else spectrum.inv_freq
    m = torch.arange(inv_freq.shape[0], dtype=torch.float64, device=inv_freq.device)
    return inv_freq * factor ** (-2 * m / (spectrum.rotary_dim - 2))
