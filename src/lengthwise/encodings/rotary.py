"""Rotary position embedding (Su et al. 2021, 2104.09864, eq. 15).

    q_i, k_j <- R(i theta) q_i, R(j theta) k_j,   theta_m = base^(-2m / rotary_dim)

A logit then depends on i - j only; values are untouched. The paper and GPT-J pair neighbouring dims ("interleaved"),
GPT-NeoX, Llama and most of `transformers` pair the two halves of a head ("half"): a checkpoint works with its own
layout only. With `fraction` below 1 the first int(head_dim * fraction) dims are rotated, at frequencies whose
exponent counts the rotated dims, and the rest pass through (GPT-NeoX 0.25, Phi 0.5).
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.rotation import Layout, Rotation
from lengthwise.spectrum import Spectrum


@encodings.register("rotary")
class Rotary(nn.Module):
    """Rotates queries and keys by angles that grow with the position.

    It holds no buffers, so that neither `.to()`, nor autocast, nor a meta device can spoil its frequencies.

    Args:
        head_dim: width of one head, even.
        base: ratio that sets the lowest frequency, `rope_theta` in many configs.
        fraction: part of the head that is rotated, above 0 and at most 1.
        layout: which dims make a pair, `"half"` or `"interleaved"`.

    Example:
        >>> import torch, lengthwise as lw
        >>> q = k = torch.randn(2, 8, 10, 64)
        >>> q, k = lw.Rotary(head_dim=64).rotation(lw.Positions.sequence(10))(q, k)
    """

    formula: ClassVar[str] = "q_i, k_j <- R(i θ) q_i, R(j θ) k_j,  θ_m = base^(-2m / rotary_dim)"
    paper: ClassVar[str] = "Su et al. 2021, arXiv 2104.09864, eq. 15"
    claims: frozenset[str] = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def __init__(self, head_dim: int, base: float = 10000.0, fraction: float = 1.0, layout: Layout = "half") -> None:
        super().__init__()
        if not 0 < fraction <= 1:
            raise InvalidArgument(f"fraction is the part of the head that is rotated, above 0 to 1, not {fraction}")
        rotary_dim = int(head_dim * fraction)
        if rotary_dim < 2 or rotary_dim % 2:
            raise InvalidArgument(
                f"Rotary turns pairs of dims, and head_dim {head_dim} with fraction {fraction} leaves {rotary_dim}: "
                "choose an even head_dim (the dim of the model divided by its heads) and a fraction that gives an even "
                "number"
            )
        if not base > 0:
            raise InvalidArgument(f"base must be above 0, not {base}")
        if layout not in ("half", "interleaved"):
            raise InvalidArgument(f"unknown layout {layout!r}: {nearest(layout, ('half', 'interleaved'))}")
        self.head_dim, self.base, self.fraction = head_dim, float(base), float(fraction)
        self.layout: Layout = layout
        self.rotary_dim = rotary_dim
        self._own = Spectrum.of_base(self.base, rotary_dim)  # no buffer: float64 whatever `.to()` does

    @property
    def spectrum(self) -> Spectrum:
        """Frequencies of the pairs, fastest first; what extensions change."""
        return self._own

    def with_spectrum(self, spectrum: Spectrum) -> Rotary:
        """The same encoding at other frequencies; itself is left as it is.

        Raises:
            InvalidArgument: a spectrum for another number of dims.
        """
        if spectrum.rotary_dim != self.rotary_dim:
            raise InvalidArgument(
                f"a spectrum of {spectrum.rotary_dim} dims does not fit the {self.rotary_dim} that are rotated"
            )
        other = type(self)(self.head_dim, spectrum.base, self.fraction, self.layout)
        other._own = spectrum
        if isinstance(spectrum.attention_factor, Tensor) or spectrum.attention_factor != 1.0:
            other.claims = self.claims - {"norm_preserving"}  # cosines and sines that are multiplied change lengths
        return other

    def rotation(self, positions: Positions) -> Rotation:
        """The rotation at `positions`; angles are formed in float64, cosines and sines are float32."""
        return self.rotation_by(self.spectrum, positions)

    def rotation_by(self, spectrum: Spectrum, positions: Positions) -> Rotation:
        """The rotation at `positions` by frequencies that may follow from the length of the sequence."""
        q, k = positions.one_axis()
        q_angles = _angles(q, spectrum)
        k_angles = q_angles if k is q else partial(_angles, k, spectrum)
        if callable(k_angles) and (k.requires_grad or spectrum.inv_freq.requires_grad):
            k_angles = k_angles()
        return Rotation.of_angles(q_angles, k_angles, self.layout, spectrum.attention_factor)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"head_dim={self.head_dim}, base={self.base:g}, fraction={self.fraction:g}, layout={self.layout!r}"


def _angles(place: Tensor, spectrum: Spectrum) -> Float[Tensor, "*place pairs"]:
    wide = widest_float(place.device)
    return place.to(wide).unsqueeze(-1) * spectrum.inv_freq.to(place.device, wide)
