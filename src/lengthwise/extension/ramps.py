"""Which frequencies a method by parts keeps, and which it divides: a share for each pair, 1 where it stays as it is."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.spectrum import Spectrum


def kept_by_turns(spectrum: Spectrum, length: int, slow: float, fast: float) -> Float64[Tensor, " pairs"]:
    """Share by the number of turns that a pair makes in `length`: 0 up to `slow`, 1 from `fast` on, a line between."""
    turns = spectrum.inv_freq * (length / (2 * math.pi))
    return ((turns - slow) / (fast - slow)).clamp(0, 1)


def kept_by_index(
    spectrum: Spectrum, length: int, slow: float, fast: float, truncate: bool
) -> Float64[Tensor, " pairs"]:
    """Share by the index of a pair, a line between the indices whose pairs make `fast` and `slow` turns in `length`.

    The bounds are rounded outwards with `truncate`, and the last is at most `rotary_dim - 1`, not the last pair, as in
    the code of YaRN's authors.
    """
    first, last = (_index(spectrum, length, turns) for turns in (fast, slow))
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, spectrum.rotary_dim - 1)
    m = torch.arange(spectrum.inv_freq.shape[0], dtype=torch.float64, device=spectrum.inv_freq.device)
    # A step where they meet, and where a short or a long length puts them the wrong way round: a line would fall.
    return 1 - ((m - first) / (last - first if last > first else 0.001)).clamp(0, 1)


def divided(spectrum: Spectrum, factor: float | Tensor, kept: Tensor) -> Float64[Tensor, " pairs"]:
    """Frequencies divided by a factor, but for the share that is kept of each; kept or divided wholly, bit for bit."""
    inv_freq = spectrum.inv_freq
    if isinstance(factor, Tensor):
        inv_freq, kept = inv_freq.to(factor.device), kept.to(factor.device)
    return torch.lerp(inv_freq / factor, inv_freq, kept)


def check_turns(slow_name: str, slow: float, fast_name: str, fast: float) -> None:
    """Raise `InvalidArgument` for bounds in the wrong order."""
    if not 0 < slow < fast < math.inf:
        raise InvalidArgument(
            f"{slow_name} and {fast_name} are turns within the trained length, 0 < {slow_name} < {fast_name}: slower "
            f"pairs are divided by the factor, faster ones stay; they are {slow} and {fast}"
        )


def _index(spectrum: Spectrum, length: int, turns: float) -> float:
    """The index, with fractions, of a pair that would make so many turns."""
    if spectrum.base == 1:
        raise InvalidArgument("a base of 1 gives all pairs one frequency, and a ramp over them has no place")
    return spectrum.rotary_dim * math.log(length / (turns * 2 * math.pi)) / (2 * math.log(spectrum.base))
