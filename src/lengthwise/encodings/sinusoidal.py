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
from lengthwise.positions import Positions
from lengthwise.sinusoids import Variant, check_sinusoids, sinusoids


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

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the sinusoids of each position to `x`; the result has the dtype of `x`."""
        positions.check_tokens(x)
        return x + self.table(positions.one_axis()[0]).to(x.dtype)

    def table(self, place: Tensor) -> Float[Tensor, "*place dim"]:
        """Sinusoids of positions of any shape, float32, a last dimension of `dim` added."""
        return sinusoids(place, self.dim, self.base, self.variant)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.dim}, base={self.base:g}, variant={self.variant!r}"
