"""YaRN: frequencies by parts, and a factor on the logits (Peng et al. 2023, 2309.00071).

    c(n) = r ln(L / (2 pi n)) / (2 ln b),   the index of the pair that makes n turns within the trained length
    w_m = clip((m - lo) / (hi - lo), 0, 1),   lo = max(floor c(beta_fast), 0),  hi = min(ceil c(beta_slow), r - 1)
    theta_m -> (1 - w_m) theta_m + w_m theta_m / s,   cosines and sines times a = 0.1 ln s + 1, so logits times a^2

The paper's ramp is a line in the number of turns, section 3.2 (`ramp="rotations"`); the authors' code, `transformers`
and vLLM have a line in the index of the pair, and checkpoints are made with it (`ramp="index"`). Only the dims that are
rotated are multiplied by a.

DeepSeek (V2, 2405.04434, V3, 2412.19437, ids UNVERIFIED) parts the factor in two, M(k) = 0.1 k ln s + 1: cosines and
sines times M(mscale) / M(mscale_all_dim), and the scale of the softmax times M(mscale_all_dim)^2, over all dims of a
head: `softmax_multiplier`, which the model applies. `transformers` 5.24 divides where both numbers are given and not
0, and takes a otherwise; so it is here. vLLM's class for DeepSeek reads one alone as M(mscale), or as
M(1) / M(mscale_all_dim). For parameters that differ by layer type `transformers` 5.24 ignores `truncate=False`; here it
holds.

Dynamic YaRN (section 3.3) takes s = length / L where that is above 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.extension.method import Method
from lengthwise.extension.ramps import check_turns, divided, kept_by_index, kept_by_turns
from lengthwise.extension.registry import extensions
from lengthwise.extension.settings import check_factor, check_original_length, check_positive, growth
from lengthwise.spectrum import Spectrum

Ramp = Literal["index", "rotations"]


@extensions.register("yarn")
@dataclass(frozen=True)
class YaRN(Method):
    """Slow pairs are divided by the factor, fast ones stay, and logits grow a little.

    Args:
        factor: target length over trained length, at least 1; 1 changes nothing.
        original_length: length of training.
        beta_fast: turns within it from which a pair stays as it is.
        beta_slow: turns up to which a pair is divided by the whole factor.
        ramp: what the line between is in, `"index"` as in all code, or `"rotations"` as in the paper.
        truncate: whether the ends of a ramp in the index are rounded outwards to whole pairs.
        attention_factor: what cosines and sines are multiplied by; None: 0.1 ln(factor) + 1, or as the next two say.
        mscale: DeepSeek's for cosines and sines, which it decides together with the next: both are given, or neither.
        mscale_all_dim: DeepSeek's for all dims of a head; decides `softmax_multiplier`.

    Raises:
        InvalidArgument: a factor below 1, no length, betas in the wrong order, an unknown ramp.

    Example:
        >>> import lengthwise as lw
        >>> longer = lw.extend(lw.Rotary(head_dim=64), lw.YaRN(factor=4, original_length=2048))
        >>> longer.spectrum.inv_freq[8].item(), round(longer.spectrum.attention_factor, 6)
        (0.1, 1.138629)
    """

    factor: float
    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: Ramp = "index"
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None

    formula: ClassVar[str] = "θ_m -> (1 - w_m) θ_m + w_m θ_m / s,  logits times (0.1 ln s + 1)²"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071"
    example: ClassVar[str] = "yarn(factor=4)"

    def __post_init__(self) -> None:
        check_factor(self.factor)
        _check(self.original_length, self.beta_slow, self.beta_fast, self.ramp, self.attention_factor)
        for name in ("mscale", "mscale_all_dim"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < math.inf:
                raise InvalidArgument(f"{name} must be a number of at least 0, not {value}")

    @property
    def identity(self) -> bool:
        """Factor 1, and cosines and sines as they are."""
        return self.factor == 1 and not self.scales_rotation

    @property
    def scales_rotation(self) -> bool:
        """Whether cosines and sines are multiplied by a number that is not 1."""
        return self.rotation_multiplier != 1

    @property
    def rotation_multiplier(self) -> float:
        """What cosines and sines are multiplied by."""
        if self.attention_factor is not None:
            return float(self.attention_factor)
        if self.mscale and self.mscale_all_dim:
            return self._temperature(self.mscale) / self._temperature(self.mscale_all_dim)
        return self._temperature(1.0)

    @property
    def softmax_multiplier(self) -> float:
        """What DeepSeek's models multiply the scale of the softmax by, beside all that is done here; 1 for others.

        Example:
            >>> import lengthwise as lw
            >>> method = lw.YaRN(factor=40, original_length=4096, mscale=1.0, mscale_all_dim=1.0)
            >>> method.rotation_multiplier, round(method.softmax_multiplier, 9)
            (1.0, 1.873854207)
        """
        return self._temperature(self.mscale_all_dim) ** 2 if self.mscale_all_dim else 1.0

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """Each frequency by its place on the ramp, and the factor of cosines and sines."""
        kept = _kept(spectrum, self.original_length, self.beta_slow, self.beta_fast, self.ramp, self.truncate)
        return spectrum.replace(
            inv_freq=divided(spectrum, float(self.factor), kept),
            attention_factor=spectrum.attention_factor * self.rotation_multiplier,
        )

    def _temperature(self, weight: float) -> float:
        return 0.1 * weight * math.log(self.factor) + 1.0


@extensions.register("dynamic_yarn")
@dataclass(frozen=True)
class DynamicYaRN(Method):
    """YaRN whose factor follows the length of the sequence; the encoding as it is up to the trained length.

    The length is `target_length` of the positions, or else the largest position plus 1. A cache holds rotated keys only
    where the length is stated, and stays the same, from its first token on.

    Args:
        original_length: length of training.
        beta_fast: turns within it from which a pair stays as it is.
        beta_slow: turns up to which a pair is divided by the whole factor.
        ramp: what the line between is in, `"index"` as in all code, or `"rotations"` as in the paper.
        truncate: whether the ends of a ramp in the index are rounded outwards to whole pairs.
        attention_factor: what cosines and sines are multiplied by at any length; None: 0.1 ln(length / trained) + 1.

    Raises:
        InvalidArgument: no length, betas in the wrong order, an unknown ramp.

    Example:
        >>> import lengthwise as lw
        >>> longer = lw.extend(lw.Rotary(head_dim=4), lw.DynamicYaRN(original_length=512))
        >>> longer.spectrum_at(2048).inv_freq.tolist(), longer.spectrum_at(100).inv_freq.tolist()
        ([1.0, 0.0025], [1.0, 0.01])
    """

    original_length: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ramp: Ramp = "index"
    truncate: bool = True
    attention_factor: float | None = None

    formula: ClassVar[str] = "YaRN with s = max(length / L, 1)"
    paper: ClassVar[str] = "Peng et al. 2023, arXiv 2309.00071, section 3.3"
    example: ClassVar[str] = "dynamic_yarn()"
    preserves: ClassVar[frozenset[str]] = Method.preserves - {"norm_preserving"}

    def __post_init__(self) -> None:
        _check(self.original_length, self.beta_slow, self.beta_fast, self.ramp, self.attention_factor)

    @property
    def cached_keys(self) -> str:
        """Keys are turned for one length."""
        return "rotated_at_target_length"

    @property
    def scales_rotation(self) -> bool:
        """Whether cosines and sines are multiplied by a number that is not 1, at some length."""
        return self.attention_factor != 1

    def map_spectrum(self, spectrum: Spectrum, target_length: int | Tensor | None = None) -> Spectrum:
        """Frequencies for a length; of the trained length where none is given."""
        factor = growth(target_length, self.original_length)
        multiplier = 0.1 * torch.log(factor) + 1.0 if self.attention_factor is None else float(self.attention_factor)
        kept = _kept(spectrum, self.original_length, self.beta_slow, self.beta_fast, self.ramp, self.truncate)
        return spectrum.replace(
            inv_freq=divided(spectrum, factor, kept),
            attention_factor=spectrum.attention_factor * multiplier,
        )


def _check(original_length: int, slow: float, fast: float, ramp: str, attention_factor: float | None) -> None:
    check_original_length(original_length)
    check_turns("beta_slow", slow, "beta_fast", fast)
    if ramp not in ("index", "rotations"):
        raise InvalidArgument(f"unknown ramp {ramp!r}: {nearest(ramp, ('index', 'rotations'))}")
    if attention_factor is not None:
        check_positive("attention_factor", attention_factor)


def _kept(spectrum: Spectrum, original_length: int, slow: float, fast: float, ramp: Ramp, truncate: bool) -> Tensor:
    if ramp == "rotations":
        return kept_by_turns(spectrum, original_length, slow, fast)
    return kept_by_index(spectrum, original_length, slow, fast, truncate)
