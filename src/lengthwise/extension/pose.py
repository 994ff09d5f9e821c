"""PoSE: positions with skips while training, so that short sequences meet far positions (Zhu et al. 2023).

    p -> p + u_c,   c the chunk that p is in,   0 = u_0 <= u_1 <= ... <= target_length - n

arXiv 2309.10400 (id UNVERIFIED); the facts are those of `dwzhu-pku/PoSE`, `src/train_pose.py`, which has two chunks:
the first takes U{1, ..., floor((n + 1) / 2)} of the n positions, the second is shifted by U{0, ..., target - n}. For
more chunks each takes its share of what is left in the same way, and u_c ~ U{u_(c-1), ..., target - n} (UNVERIFIED).
That code also takes the text of the chunks from different places of a document; here the text is yours, and only
positions move. PoSE teaches a model positions that another method makes bearable: join it with `Interpolate`, `NTK` or
`YaRN`, as the paper does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.positions import Positions


@extensions.register("pose")
@dataclass(frozen=True)
class PoSE(Method):
    """Chunks of a sequence moved apart at random while training, in order; in evaluation positions are as given.

    Each row has draws of its own where its positions are its own (`[batch, length]`); queries and keys share them, and
    so do several encodings at once. Draws are made by `lengthwise.prepare(..., training=True)` alone.

    Args:
        target_length: all positions stay below it; at least the length of what is trained on.
        chunks: number of chunks, at least 2; fewer where a sequence has fewer tokens.

    Raises:
        InvalidArgument: sizes too small or a target past the table of the encoding; while training, sequences longer
            than the target, and positions that are not whole.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.build("rotary + pose(target_length=100)", lw.Dims(dim=64, heads=4))
        >>> generator = torch.Generator().manual_seed(0)
        >>> drawn = lw.prepare(encoding, lw.Positions.sequence(8), generator=generator, training=True).positions.q
        >>> drawn.tolist()
        [0, 1, 2, 3, 16, 17, 18, 19]
    """

    target_length: int
    chunks: int = 2

    formula: ClassVar[str] = "p -> p + u_c,  u_c random and rising from chunk to chunk, while training"
    paper: ClassVar[str] = "Zhu et al. 2023, arXiv 2309.10400"
    example: ClassVar[str] = "pose(target_length=64)"
    preserves: ClassVar[frozenset[str]] = frozenset(
        {"translation_invariant", "norm_preserving", "nonincreasing", "nonpositive", "pairwise"}
    )
    whole: ClassVar[bool] = True
    draws_each_row: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.target_length < 1:
            raise InvalidArgument(f"target_length must be at least 1, not {self.target_length}")
        if self.chunks < 2:
            raise InvalidArgument(f"PoSE moves chunks apart, and needs at least 2 of them, not {self.chunks}")

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """Encodings of one axis."""
        axes = getattr(encoding, "axes", 1)
        return None if axes == 1 else f"it moves positions of one axis, and this encoding reads {axes}"

    def reach(self, rows: int | None) -> int | None:
        """As far as the encoding goes, which must be as far as the target."""
        if rows is not None and self.target_length > rows:
            raise InvalidArgument(
                f"target_length {self.target_length} is past the {rows} positions of the table: resample the table "
                f"first, or take target_length={rows}"
            )
        return rows

    def map_positions(
        self, positions: Positions, *, generator: torch.Generator | None = None, training: bool = False
    ) -> Positions:
        """Positions with skips while training; else as they are.

        Args:
            positions: of one axis, whole numbers from 0.
            generator: source of the draws; PyTorch's own where None.
            training: whether to draw.
        """
        q, k = positions.one_axis()
        if not training or q.numel() + k.numel() == 0:
            return positions
        if q.is_floating_point() or k.is_floating_point():
            raise InvalidArgument("PoSE moves whole positions, and these are fractions: let PoSE act first")
        several = q.dim() == 2 or k.dim() == 2
        both = torch.cat((q.expand(positions.batch, -1), k.expand(positions.batch, -1)), 1) if several else None
        count = (torch.cat((q, k)) if both is None else both).amax(-1, keepdim=True) + 1  # [1] or [batch, 1]
        self._check(positions, count)
        starts, skips = self._draw(count, generator)

        def moved(place: Tensor) -> Tensor:
            chunk = (place.unsqueeze(-1) >= starts.unsqueeze(-2)).sum(-1) - 1  # [..., length]
            rows = skips.expand(*chunk.shape[:-1], -1)
            return place + rows.gather(-1, chunk.clamp(min=0))

        q_moved = moved(q)
        return positions.replace(q=q_moved, k=q_moved if k is q else moved(k))

    def _draw(self, count: Tensor, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
        """First position of each chunk, and by how much it is moved, `[1 or batch, chunks]`."""
        # Drawn where the generator lives: a seed gives the same skips on every device.
        source = count.device if generator is None else generator.device
        shape = (2, self.chunks, *count.shape)
        random = torch.rand(shape, generator=generator, device=source).to(count.device)
        room = (self.target_length - count).clamp(min=0)
        start, skip = torch.zeros_like(count), torch.zeros_like(count)
        starts, skips = [start], [skip]
        for chunk in range(1, self.chunks):
            share = torch.div(count - start + 1, self.chunks - chunk + 1, rounding_mode="floor").clamp(min=1)
            start = start + 1 + _below(share, random[0, chunk])
            skip = skip + _below(room - skip + 1, random[1, chunk])
            starts.append(start)
            skips.append(skip)
        return torch.cat(starts, -1), torch.cat(skips, -1)

    def _check(self, positions: Positions, count: Tensor) -> None:
        if positions.aligned and positions.plain:
            longest = positions.k_length
        elif torch.compiler.is_compiling():
            return
        else:
            longest = int(count.max())
        if longest > self.target_length:
            raise InvalidArgument(
                f"a sequence of {longest} positions is longer than target_length {self.target_length}: PoSE trains on "
                "sequences shorter than its target"
            )


def _below(count: Tensor, random: Tensor) -> Tensor:
    """A whole number of 0 to `count - 1` from one of [0, 1)."""
    return torch.minimum((random * count).long(), count - 1)
