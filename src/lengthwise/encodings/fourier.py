"""Learnable Fourier features of positions with any number of axes (Li et al. 2021; 2106.02795).

    f = [cos(W_r p) ; sin(W_r p)] / sqrt(features),   W_r ~ N(0, gamma^-2) at first, learned
    x_t <- x_t + W_2 GELU(W_1 f + b_1) + b_2

Before the perceptron f(p) . f(p') depends on p - p' alone, and is exp(-|p - p'|^2 / (2 gamma^2)) / 2 on average at
first: gamma is the distance at which positions cease to look alike. Original code was not read: the default sizes
are those of third-party ports (features 768, hidden 32, gamma 1); gamma 10 for images is from memory (UNVERIFIED).
The paper may split a position into groups of axes, each with its own part of the width; here all axes are one group.
W_1, b_1, W_2 and b_2 start as those of `torch.nn.Linear`.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import widest_float


@encodings.register("fourier")
class LearnableFourier(nn.Module):
    """A small perceptron on cosines and sines of learned projections of the position.

    Args:
        dim: width of the token embeddings.
        axes: number of coordinates of a position: 1 for text, 2 for images (row, column), 3 for video.
        features: number of cosines and sines together, even.
        hidden: width of the perceptron.
        gamma: distance, in the units of the positions, over which they look alike at first.

    Raises:
        InvalidArgument: a size below 1, an odd number of features, a gamma of 0 or below; when called, positions of
            another number of axes.

    Example:
        >>> import torch, lengthwise as lw
        >>> grid = torch.cartesian_prod(torch.arange(2), torch.arange(3))[None]  # [1, 6, 2]
        >>> encoding = lw.LearnableFourier(dim=8, axes=2, gamma=10.0)
        >>> encoding.embed_positions(torch.zeros(1, 6, 8), lw.Positions(grid, grid, causal=False)).shape
        torch.Size([1, 6, 8])
    """

    formula: ClassVar[str] = "x_t <- x_t + MLP([cos(W_r p_t) ; sin(W_r p_t)] / sqrt(features))"
    paper: ClassVar[str] = "Li et al. 2021, arXiv 2106.02795"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})

    def __init__(self, dim: int, axes: int = 1, features: int = 768, hidden: int = 32, gamma: float = 1.0) -> None:
        super().__init__()
        for name, size in (("dim", dim), ("axes", axes), ("features", features), ("hidden", hidden)):
            if size < 1:
                raise InvalidArgument(f"LearnableFourier needs {name} of at least 1, not {size}")
        if features % 2:
            raise InvalidArgument(f"features must be even, for a cosine and a sine each, not {features}")
        if not 0 < gamma < math.inf:
            raise InvalidArgument(f"gamma is a distance between positions, above 0 and finite, not {gamma}")
        self.dim, self.axes, self.features, self.hidden, self.gamma = dim, axes, features, hidden, float(gamma)
        self.frequencies = nn.Parameter(torch.empty(features // 2, axes))
        self.hidden_weight = nn.Parameter(torch.empty(hidden, features))
        self.hidden_bias = nn.Parameter(torch.empty(hidden))
        self.out_weight = nn.Parameter(torch.empty(dim, hidden))
        self.out_bias = nn.Parameter(torch.empty(dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the frequencies and the perceptron anew."""
        nn.init.normal_(self.frequencies, std=1 / self.gamma)
        for weight, bias in ((self.hidden_weight, self.hidden_bias), (self.out_weight, self.out_bias)):
            bound = weight.shape[1] ** -0.5
            nn.init.uniform_(weight, -bound, bound)
            nn.init.uniform_(bias, -bound, bound)

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the features of each position to `x`; the result has the dtype of `x`."""
        positions.check_tokens(x)
        one = self.axes == 1
        place = positions.one_axis()[0].unsqueeze(-1) if one else positions.several_axes(self.axes)[0]
        return x + self.vectors(place).to(x.dtype)  # of [(batch or 1,) length, axes]

    def vectors(self, place: Tensor) -> Float[Tensor, "... dim"]:
        """Vectors of positions `[..., axes]`, float32 or wider."""
        wide = torch.promote_types(self.hidden_weight.dtype, torch.float32)
        weights = (self.hidden_weight, self.hidden_bias, self.out_weight, self.out_bias)
        hidden_weight, hidden_bias, out_weight, out_bias = (part.to(wide) for part in weights)
        with torch.autocast(place.device.type, enabled=False):  # far positions need the digits of the features
            hidden = nn.functional.gelu(nn.functional.linear(self.fourier(place).to(wide), hidden_weight, hidden_bias))
            return nn.functional.linear(hidden, out_weight, out_bias)

    def fourier(self, place: Tensor) -> Float[Tensor, "... features"]:
        """Cosines and sines of positions `[..., axes]` before the perceptron, in the widest float of the device."""
        wide = widest_float(place.device)
        angle = (place.to(wide).unsqueeze(-2) * self.frequencies.to(wide)).sum(-1)  # [..., features / 2]
        return torch.cat((angle.cos(), angle.sin()), dim=-1) / self.features**0.5

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.dim}, axes={self.axes}, features={self.features}, hidden={self.hidden}, gamma={self.gamma:g}"
