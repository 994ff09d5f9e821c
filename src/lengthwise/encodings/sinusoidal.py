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

from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.precision import widest_float

Variant = Literal["interleaved", "half", "tensor2tensor"]
VARIANTS = ("interleaved", "half", "tensor2tensor")


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
        if dim < 2 or dim % 2:
            raise InvalidArgument(f"Sinusoidal needs an even dim, for a sine and a cosine each, not {dim}")
        if not base > 0:
            raise InvalidArgument(f"base must be above 0, not {base}")
        if variant not in VARIANTS:
            raise InvalidArgument(f"unknown variant {variant!r}: {nearest(variant, VARIANTS)}")
        self.dim, self.base, self.variant = dim, float(base), variant

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the sinusoids of each position to `x`; the result has the dtype of `x`."""
        positions.check_tokens(x)
        return x + self.table(positions.one_axis()[0]).to(x.dtype)

    def table(self, place: Tensor) -> Float[Tensor, "*place dim"]:
        """Sinusoids of positions of any shape, float32, a last dimension of `dim` added."""
        wide = widest_float(place.device)
        m = torch.arange(self.dim // 2, device=place.device, dtype=wide)
        steps = max(self.dim // 2 - 1, 1) if self.variant == "tensor2tensor" else self.dim / 2
        angle = place.to(wide).unsqueeze(-1) * self.base ** (-m / steps)  # [*place, dim / 2]
        if self.variant == "interleaved":
            return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(-2).float()
        return torch.cat((angle.sin(), angle.cos()), dim=-1).float()

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.dim}, base={self.base:g}, variant={self.variant!r}"
