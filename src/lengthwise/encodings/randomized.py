"""Random ordered positions while training, for any encoding (Ruoss et al. 2023).

    p -> r_p,   r_0 < r_1 < ... < r_(n-1) drawn without replacement from {0, ..., longest - 1}, n the largest p plus 1

arXiv 2305.16843 (id UNVERIFIED); the facts are those of `google-deepmind/randomized_positional_encodings`,
`models/positional_encodings.py`. A model trained on short sequences meets positions as far as `longest`, in
order, with gaps. One draw is shared by the whole batch, and by queries and keys; `longest` is 2048 there (UNVERIFIED).

Where the reference differs: it draws at evaluation too, and anew in each layer for rotary and relative encodings. Here
a draw belongs to training; at evaluation positions are as they are, so that results repeat and decoding with a cache
holds, but neighbours are then always 1 apart, which is rare in training where `longest` is far above the length.
There is one draw for each call of `lengthwise.prepare`: one a layer where each layer has an encoding of its own. Its
path for relative encodings indexes a table of half the size that it needs, and is not followed.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare
from lengthwise.wrapping import act_as


@encodings.register("randomized")
class RandomizedPositions(nn.Module):
    """An encoding that sees a random ordered sample of a larger range of positions while training.

    It acts where the encoding inside acts, and makes its claims. These hold for any positions, and so for the drawn
    ones; but what the user calls a shift by one is no shift of drawn positions: `translation_invariant` speaks of
    evaluation. Padded and packed rows share the draw too: each position p becomes r_p, whichever row it is in, and
    a row shorter than the longest gets the lower part of the sample.

    Args:
        encoding: any encoding of one axis.
        longest: size of the range from which positions are drawn, at least the longest sequence ever used.

    Raises:
        InvalidArgument: an encoding of several axes, a `longest` below 1 or past the table of the encoding; while
            training, positions that are not whole, are below 0, or are `longest` or more.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.RandomizedPositions(lw.Rotary(head_dim=8), longest=100)
        >>> generator = torch.Generator().manual_seed(0)
        >>> drawn = lw.prepare(encoding, lw.Positions.sequence(5), generator=generator, training=True).positions.q
        >>> bool((drawn.diff() > 0).all()), bool((drawn < 100).all())
        (True, True)
        >>> lw.prepare(encoding, lw.Positions.sequence(5)).positions.q.tolist()
        [0, 1, 2, 3, 4]
    """

    formula: ClassVar[str] = "p -> r_p, r a sorted sample of {0, ..., longest - 1} while training; p else"
    paper: ClassVar[str] = "Ruoss et al. 2023, arXiv 2305.16843"
    example: ClassVar[str] = "randomized(rotary)"

    def __init__(self, encoding: nn.Module, longest: int = 2048) -> None:
        super().__init__()
        if longest < 1:
            raise InvalidArgument(f"longest must be at least 1, not {longest}")
        axes = getattr(encoding, "axes", 1)
        if axes != 1:
            raise InvalidArgument(
                f"RandomizedPositions draws positions of one axis, and {type(encoding).__name__} reads {axes}"
            )
        rows = getattr(encoding, "max_position", None)
        if rows is not None and longest > rows:
            raise InvalidArgument(
                f"longest {longest} is past the {rows} positions of {type(encoding).__name__}: give it a larger table, "
                f"or longest={rows}"
            )
        self.encoding = encoding
        self.longest = longest
        act_as(self, encoding)

    def prepare(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Prepared:
        """What the encoding inside has to say, at drawn positions while training."""
        mapped = self._draw(positions, generator) if training else positions
        return prepare(self.encoding, mapped, generator=generator, training=training)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"longest={self.longest}"

    def _draw(self, positions: Positions, generator: torch.Generator | None) -> Positions:
        q, k = positions.one_axis()
        if q.is_floating_point() or k.is_floating_point():
            raise InvalidArgument("positions are drawn for whole positions only, and these are fractions")
        if q.numel() + k.numel() == 0:
            return positions
        self._check_range(positions, q, k)
        if positions.aligned and positions.plain:
            count = torch.tensor(positions.k_length, device=q.device)
        else:
            count = torch.cat((q.flatten(), k.flatten())).max() + 1
        # Drawn where the generator lives: a seed gives the same sample on every device.
        source = q.device if generator is None else generator.device
        order = torch.randperm(self.longest, generator=generator, device=source).to(q.device)
        reached = (order < count).cumsum(0)  # count numbers of the range are chosen; no tensor is read
        drawn = torch.searchsorted(reached, q + 1)
        return positions.replace(q=drawn, k=drawn if k is q else torch.searchsorted(reached, k + 1))

    def _check_range(self, positions: Positions, q: Tensor, k: Tensor) -> None:
        # Aligned positions lie below the number of keys, so the usual case is settled without reading a tensor.
        if positions.aligned and positions.k_length <= self.longest:
            return
        if positions.aligned and positions.plain:
            low, high = 0, positions.k_length - 1
        elif torch.compiler.is_compiling():
            return
        else:
            both = torch.cat((q.flatten(), k.flatten()))
            low, high = int(both.min()), int(both.max())
        if low < 0 or high >= self.longest:
            raise InvalidArgument(
                f"position {low if low < 0 else high} can't be drawn from a range of {self.longest} (0 to "
                f"{self.longest - 1}): make longest larger than every position, at training and at evaluation"
            )
