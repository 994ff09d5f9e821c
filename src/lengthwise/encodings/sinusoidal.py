"""Fixed sinusoids, added to the token embeddings (Vaswani et al. 2017, section 3.5; 1706.03762, id UNVERIFIED).

    PE[p, 2m] = sin(p * base^(-2m/dim)),   PE[p, 2m + 1] = cos(the same)

Three variants are published under this name, and they are not the same numbers:
- "interleaved": the paper's, above;
- "half": all sines, then all cosines, at the paper's frequencies (Marian, Transformer-XL); a permutation of the first;
- "tensor2tensor": all sines, then all cosines, at base^(-m / (dim/2 - 1)): the last wavelength is exactly
  2 pi base; no permutation of the others (tensor2tensor, fairseq).
Many codes scale the token embeddings by sqrt(dim) before the sum; that is the model's choice, not made here.
"""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.sinusoids import Variant, check_sinusoids, frequencies, sinusoids_of
from lengthwise.spectrum import Spectrum


@encodings.register("sinusoidal")
class Sinusoidal(nn.Module):
    """Sines and cosines of the position at geometrically spaced frequencies.

    Args:
        dim: width of the token embeddings, even.
        base: ratio of the longest to the shortest wavelength (reached exactly by "tensor2tensor" only).
        variant: which of the three published forms.

    Example:
        >>> import torch, lengthwise as lw
        >>> table = lw.Sinusoidal(dim=4).table(torch.arange(2))
        >>> table[0].tolist()
        [0.0, 1.0, 0.0, 1.0]
    """

    formula: ClassVar[str] = "x_t <- x_t + PE[p_t],  PE[p, 2m] = sin(p base^(-2m/dim)),  PE[p, 2m+1] = cos(same)"
    paper: ClassVar[str] = "Vaswani et al. 2017, arXiv 1706.03762, section 3.5"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})

    def __init__(self, dim: int, base: float = 10000.0, variant: Variant = "interleaved") -> None:
        super().__init__()
        check_sinusoids(dim, base, variant)
        self.dim, self.base = dim, float(base)
        self.variant: Variant = variant
        self._own: Spectrum | None = None  # no buffer: float64 whatever `.to()` does

    @property
    def spectrum(self) -> Spectrum:
        """Frequencies, fastest first; what extensions change. Its base is the one whose powers they are.

        Those of "tensor2tensor", base^(-m / (dim/2 - 1)), are powers of base^(dim / (dim - 2)) with the exponents of
        the other variants.
        """
        if self._own is not None:
            return self._own
        stretched = self.variant == "tensor2tensor" and self.dim > 2
        base = self.base ** (self.dim / (self.dim - 2)) if stretched else self.base
        return Spectrum(frequencies(self.dim, self.base, self.variant), base, self.dim)

    def with_spectrum(self, spectrum: Spectrum) -> Sinusoidal:
        """The same encoding at other frequencies; itself is left as it is.

        Raises:
            InvalidArgument: a spectrum for another width, or one with a factor of cosines and sines.
        """
        self._check(spectrum)
        other = type(self)(self.dim, self.base, self.variant)
        other._own = spectrum
        return other

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the sinusoids of each position to `x`; the result has the dtype of `x`."""
        positions.check_tokens(x)
        return x + self.table(positions.one_axis()[0]).to(x.dtype)

    def embed_by(self, spectrum: Spectrum, x: Tensor, positions: Positions) -> Tensor:
        """`embed_positions` by frequencies that may follow from the length of the sequence."""
        self._check(spectrum)
        positions.check_tokens(x)
        return x + sinusoids_of(positions.one_axis()[0], spectrum.inv_freq, self.variant).to(x.dtype)

    def table(self, place: Tensor) -> Float[Tensor, "*place dim"]:
        """Sinusoids of positions of any shape, float32, a last dimension of `dim` added."""
        return sinusoids_of(place, self.spectrum.inv_freq, self.variant)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.dim}, base={self.base:g}, variant={self.variant!r}"

    def _check(self, spectrum: Spectrum) -> None:
        if spectrum.rotary_dim != self.dim:
            raise InvalidArgument(f"a spectrum of {spectrum.rotary_dim} dims does not fit embeddings of {self.dim}")
        if isinstance(spectrum.attention_factor, Tensor) or spectrum.attention_factor != 1.0:
            raise InvalidArgument(
                "Sinusoidal adds its sines to embeddings, where a factor of cosines and sines would not reach the "
                f"logits alone: use a spectrum with attention_factor 1, not {spectrum.attention_factor}"
            )
