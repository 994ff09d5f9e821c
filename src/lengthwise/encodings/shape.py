"""Sinusoids of positions that are shifted at random while training (SHAPE, Kiyono et al. 2021).

    x_t <- x_t + PE[p_t + k],   k ~ U{0, ..., max_shift} while training, k = 0 otherwise

arXiv 2109.05644 (id and text of the paper UNVERIFIED); the facts of the code are those of `butsugiri/shape`,
`onmt/modules/embeddings.py`. All tokens of a sequence share one shift, so that distances stay as they are and a model
can't rest on absolute positions. PE are the sinusoids of Vaswani et al., interleaved as there.

Where the code differs, this does not follow it: its draw leaves out `max_shift` itself; it evaluates at the shift
`max_shift`, not at 0; and both come from slices of a table, which fail once length and shift pass its end. Here the
largest shift can be drawn, evaluation is at 0, where this is `Sinusoidal`, and there is no table.
Draws are made by `lengthwise.prepare(..., training=True)`, which models of ours call while they train; `.train()` alone
makes none.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.sinusoids import Variant, check_sinusoids, sinusoids


@encodings.register("shape")
class SHAPE(nn.Module):
    """Sinusoids of positions shifted by one random number a row while training.

    A row is a row of the positions: one shift for all where the batch shares its positions (`[length]`), one for each
    where they are `[batch, length]`. Documents packed in one row share its shift.

    Args:
        dim: width of the token embeddings, even.
        max_shift: largest shift, which can be drawn; the paper's main setting is 500.
        base: ratio of the longest to the shortest wavelength.
        variant: form of the sinusoids, as in `Sinusoidal`.

    Raises:
        InvalidArgument: an odd dim, a base of 0 or below, an unknown variant, a max_shift below 0.

    Example:
        >>> import torch, lengthwise as lw
        >>> positions = lw.Positions.padded(torch.ones(2, 3).bool())
        >>> generator = torch.Generator().manual_seed(0)
        >>> drawn = lw.prepare(lw.SHAPE(dim=8), positions, generator=generator, training=True).positions
        >>> (drawn.q - drawn.q[:, :1]).tolist()
        [[0, 1, 2], [0, 1, 2]]
    """

    formula: ClassVar[str] = "x_t <- x_t + PE[p_t + k],  k ~ U{0, ..., max_shift} while training, else 0"
    paper: ClassVar[str] = "Kiyono et al. 2021, arXiv 2109.05644"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})
    draws_each_row: ClassVar[bool] = True

    def __init__(self, dim: int, max_shift: int = 500, base: float = 10000.0, variant: Variant = "interleaved") -> None:
        super().__init__()
        check_sinusoids(dim, base, variant)
        if max_shift < 0:
            raise InvalidArgument(f"max_shift must be at least 0 (no shift at all), not {max_shift}")
        self.dim, self.max_shift, self.base = dim, max_shift, float(base)
        self.variant: Variant = variant

    def map_positions(
        self, positions: Positions, *, generator: torch.Generator | None = None, training: bool = False
    ) -> Positions:
        """Shift each row while training; else the positions as they are.

        Args:
            positions: of one axis.
            generator: source of the draw; PyTorch's own where None.
            training: whether to draw.
        """
        if not training or self.max_shift == 0:
            return positions
        q, k = positions.one_axis()
        # Drawn where the generator lives: a seed gives the same shifts on every device.
        source = positions.device if generator is None else generator.device
        rows = (positions.batch, 1) if positions.batch > 1 else (1,)  # one shift broadcasts against [length] too
        drawn = torch.randint(self.max_shift + 1, rows, generator=generator, device=source)
        shift = drawn.to(positions.device)
        shifted = q + shift
        return positions.replace(q=shifted, k=shifted if k is q else k + shift)

    def embed_positions(
        self, x: Float[Tensor, "batch length dim"], positions: Positions
    ) -> Float[Tensor, "batch length dim"]:
        """Add the sinusoids of each position to `x`; the result has the dtype of `x`."""
        positions.check_tokens(x)
        return x + sinusoids(positions.one_axis()[0], self.dim, self.base, self.variant).to(x.dtype)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"dim={self.dim}, max_shift={self.max_shift}, base={self.base:g}, variant={self.variant!r}"
