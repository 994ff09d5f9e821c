"""Sinusoids of positions that are shifted, jittered and stretched at random while training (CAPE).

    p'_t = (p_t [- mean p] + D + e_t) * exp(s)
    D ~ U(-max_global_shift, max_global_shift), s ~ U(-ln max_scale, ln max_scale)    one a row
    e_t ~ U(-max_local_shift, max_local_shift)                                        one a token
    x_t <- x_t + PE[p'_t]

Likhomanenko et al. 2021 (2106.03143, id and text of the paper UNVERIFIED); the facts are those of `gcambara/cape`,
`cape/cape.py`, a port near the authors, not their own code. It scales the embeddings by sqrt(dim) and has a factor on
all frequencies: both are the model's choice and not made here. Its form for images is left out.
Draws are made by `lengthwise.prepare(..., training=True)`, which models of ours call while they train; `.train()` alone
makes none.
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
from lengthwise.sinusoids import check_sinusoids, sinusoids


@encodings.register("cape")
class CAPE(nn.Module):
    """Sinusoids of augmented positions; without draws it is `Sinusoidal`.

    A row is a row of the positions: one draw for all where the batch shares its positions (`[length]`), one for each
    where they are `[batch, length]`.

    Args:
        dim: width of the token embeddings, even.
        max_global_shift: largest shift of a row, either way, in tokens.
        max_local_shift: largest shift of a token, either way, in tokens; below 0.5 the order is kept.
        max_scale: largest factor of a row; its inverse is the smallest.
        normalize: count positions from the mean of the keys of the same row and segment, in training or not. A token
            then needs to know how long its sequence is: not for decoding with a cache.
        base: ratio of the longest to the shortest wavelength.

    Raises:
        InvalidArgument: an odd dim, a base of 0 or below, a shift below 0, a max_scale below 1.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.CAPE(dim=8, max_global_shift=5.0, max_local_shift=0.5, max_scale=1.1, normalize=True)
        >>> lw.prepare(encoding, lw.Positions.sequence(3)).positions.q.tolist()
        [-1.0, 0.0, 1.0]
    """

    formula: ClassVar[str] = "x_t <- x_t + PE[(p_t + D + e_t) exp(s)],  D, e_t, s drawn while training, else 0"
    paper: ClassVar[str] = "Likhomanenko et al. 2021, arXiv 2106.03143"
    draws_each_row: ClassVar[bool] = True

    def __init__(
        self,
        dim: int,
        max_global_shift: float = 0.0,
        max_local_shift: float = 0.0,
        max_scale: float = 1.0,
        normalize: bool = False,
        base: float = 10000.0,
    ) -> None:
        super().__init__()
        check_sinusoids(dim, base, "interleaved")
        # From the mean of its sequence a token's position follows those of all others.
        self.claims: frozenset[str] = frozenset() if normalize else frozenset({"pairwise"})
        self.cached_keys = "none" if normalize else "rotated"
        for name, shift in (("max_global_shift", max_global_shift), ("max_local_shift", max_local_shift)):
            if not 0 <= shift < math.inf:
                raise InvalidArgument(f"{name} must be at least 0 (no shift at all) and finite, not {shift}")
        if not 1 <= max_scale < math.inf:
            raise InvalidArgument(f"max_scale must be at least 1 (no stretch at all) and finite, not {max_scale}")
        self.dim, self.base, self.normalize = dim, float(base), normalize
        self.max_global_shift, self.max_local_shift = float(max_global_shift), float(max_local_shift)
        self.max_scale = float(max_scale)

    def map_positions(
        self, positions: Positions, *, generator: torch.Generator | None = None, training: bool = False
    ) -> Positions:
        """Augment the positions while training, and count from the mean where that was asked for.

        Args:
            positions: of one axis.
            generator: source of the draws; PyTorch's own where None.
            training: whether to draw.
        """
        draws = training and (self.max_global_shift > 0 or self.max_local_shift > 0 or self.max_scale > 1)
        if not draws and not self.normalize:
            return positions
        q, k = positions.one_axis()
        together = k is q
        wide = widest_float(positions.device)
        q, k = q.to(wide), k.to(wide)
        if self.normalize:
            q_mean, k_mean = _means(k, positions)
            q, k = q - q_mean, k - k_mean
        if draws:
            rows = (positions.batch, 1) if positions.batch > 1 else (1,)  # one draw broadcasts against [length] too
            shift = _uniform(rows, self.max_global_shift, generator, q)
            scale = _uniform(rows, math.log(self.max_scale), generator, q).exp()
            q, k = q + shift, k + shift  # [batch, length] from here on where rows differ
            longer = max(positions.q_length, positions.k_length)
            local = _uniform((*k.shape[:-1], longer), self.max_local_shift, generator, q)
            # The queries are the last of the keys: a token has one shift, in whichever part it is.
            q = (q + local[..., longer - positions.q_length :]) * scale
            k = (k + local[..., longer - positions.k_length :]) * scale
        return positions.replace(q=q, k=q if together else k)

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the sinusoids of each position to `x`; the result has the dtype of `x`."""
        positions.check_tokens(x)
        return x + sinusoids(positions.one_axis()[0], self.dim, self.base).to(x.dtype)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"dim={self.dim}, max_global_shift={self.max_global_shift:g}, max_local_shift={self.max_local_shift:g}, "
            f"max_scale={self.max_scale:g}, normalize={self.normalize}, base={self.base:g}"
        )


def _uniform(shape: tuple[int, ...], largest: float, generator: torch.Generator | None, like: Tensor) -> Tensor:
    """Draws from U(-largest, largest), made where the generator lives: a seed gives the same on every device."""
    source = like.device if generator is None else generator.device
    drawn = torch.rand(shape, generator=generator, device=source, dtype=widest_float(source))
    return (2 * drawn.to(like.device, like.dtype) - 1) * largest


def _means(k: Tensor, positions: Positions) -> tuple[Tensor, Tensor]:
    """Mean position of the keys that share the row and segment of each query and of each key, in the shape of these."""
    if positions.q_segment is None or positions.k_segment is None:
        mean = k.mean(-1, keepdim=True)  # [(batch,) 1]
        return mean, mean
    rows, keys = positions.batch, positions.k_length
    segment = torch.cat((positions.k_segment, positions.q_segment), -1).expand(rows, -1)  # [batch, keys + queries]
    kinds, kind = segment.unique(return_inverse=True)
    group = kind + len(kinds) * torch.arange(rows, device=k.device).unsqueeze(-1)  # each row has segments of its own
    own = group[:, :keys]
    total = k.new_zeros(rows * len(kinds)).index_add(0, own.flatten(), k.expand(rows, -1).flatten())
    count = k.new_zeros(rows * len(kinds)).index_add(0, own.flatten(), torch.ones_like(k.expand(rows, -1)).flatten())
    mean = (total / count.clamp(min=1))[group]
    return mean[:, keys:], mean[:, :keys]
