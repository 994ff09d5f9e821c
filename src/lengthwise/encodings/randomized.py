"""Random ordered positions while training, for any encoding (Ruoss et al. 2023).

    p -> r_p,   r_0 < r_1 < ... < r_(n-1) drawn without replacement from {0, ..., longest - 1}, n the largest p plus 1

arXiv 2305.16843 (id UNVERIFIED); the facts are those of `google-deepmind/randomized_positional_encodings`,
`models/positional_encodings.py`. A model trained on short sequences meets positions as far as `longest`, in
order, with gaps. One draw is shared by the whole batch, and by queries and keys; `longest` is 2048 there (UNVERIFIED).

Where the reference differs: it draws at evaluation too, and anew in each layer for rotary and relative encodings. Here
draws belong to training, and evaluation is deterministic, in one of two ways:
- "given": positions as they are. Each token keeps its position as the sequence grows, so that decoding with a cache is
  exact, but neighbours are always 1 apart. Where `longest` is far above the trained lengths a model hardly ever met
  that, and fails even at these lengths: choose `longest` near the lengths in use.
- "spread", the default: p -> floor((p + 1)(longest + 1) / (n + 1)) - 1, the mean of the drawn r_p, as in training on
  average; as given where n is above `longest`. It depends on n: `positions.with_target(length)` fixes it, to decode
  with a cache of rotated keys.
Draws and maps are made by `lengthwise.prepare(..., training=...)`, which `attention(..., training=...)` and models of
ours call; `.train()` alone makes none, and a method of the encoding called by itself sees positions as they are.
There is one draw for each call of `lengthwise.prepare`: one a layer where each layer has an encoding of its own. The
reference's path for relative encodings indexes a table of half the size that it needs, and is not followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare
from lengthwise.sites import claims
from lengthwise.wrapping import act_as

EVALUATIONS = ("given", "spread")


@encodings.register("randomized")
class RandomizedPositions(nn.Module):
    """An encoding that sees a random ordered sample of a larger range of positions while training.

    It acts where the encoding inside acts, and makes its claims; they speak of evaluation. Spread positions keep
    neither `translation_invariant` nor `pairwise`, since where a token stands depends on how many there are. Padded and
    packed rows share the draw too: each position p becomes r_p, whichever row it is in, and a row shorter than the
    longest gets the lower part of the sample.

    Args:
        encoding: any encoding of one axis.
        longest: size of the range from which positions are drawn, at least the longest sequence ever used.
        evaluation: where tokens stand outside of training, `"spread"` or `"given"` (see above).

    Raises:
        InvalidArgument: an encoding of several axes, a `longest` below 1 or past the table of the encoding, an unknown
            `evaluation`; positions to draw or to spread that are not whole; positions to draw that are below 0, or
            are `longest` or more.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.RandomizedPositions(lw.Rotary(head_dim=8), longest=100)
        >>> generator = torch.Generator().manual_seed(0)
        >>> drawn = lw.prepare(encoding, lw.Positions.sequence(5), generator=generator, training=True).positions.q
        >>> bool((drawn.diff() > 0).all()), bool((drawn < 100).all())
        (True, True)
        >>> lw.prepare(encoding, lw.Positions.sequence(4)).positions.q.tolist()
        [19, 39, 59, 79]
    """

    formula: ClassVar[str] = "p -> r_p, r a sorted sample of {0, ..., longest - 1} while training"
    paper: ClassVar[str] = "Ruoss et al. 2023, arXiv 2305.16843"
    example: ClassVar[str] = "randomized(rotary)"

    def __init__(
        self, encoding: nn.Module, longest: int = 2048, evaluation: Literal["given", "spread"] = "spread"
    ) -> None:
        super().__init__()
        if longest < 1:
            raise InvalidArgument(f"longest must be at least 1, not {longest}")
        if evaluation not in EVALUATIONS:
            raise InvalidArgument(f"unknown evaluation {evaluation!r}: {nearest(evaluation, EVALUATIONS)}")
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
        self.evaluation: Literal["given", "spread"] = evaluation
        act_as(self, encoding)
        if evaluation == "spread":
            self.claims = claims(encoding) - {"translation_invariant", "pairwise"}
            self.follows_length = True
            if getattr(encoding, "cached_keys", "rotated") == "rotated":
                self.cached_keys = "rotated_at_target_length"

    def prepare(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Prepared:
        """What the encoding inside has to say, at drawn positions while training."""
        if training:
            self._check_range(positions)
            positions = _mapped(positions, None, lambda count: self._drawn(count, generator))
        elif self.evaluation == "spread":
            positions = _mapped(positions, positions.target_length, self._spread)
        return prepare(self.encoding, positions, generator=generator, training=training)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return f"longest={self.longest}, evaluation={self.evaluation!r}"

    def _drawn(self, count: Tensor, generator: torch.Generator | None) -> Callable[[Tensor], Tensor]:
        # Drawn where the generator lives: a seed gives the same sample on every device.
        source = count.device if generator is None else generator.device
        order = torch.randperm(self.longest, generator=generator, device=source).to(count.device)
        reached = (order < count).cumsum(0)  # count numbers of the range are chosen, and no tensor is read
        return lambda place: torch.searchsorted(reached, place + 1)

    def _spread(self, count: Tensor) -> Callable[[Tensor], Tensor]:
        several = count.clamp(max=self.longest) + 1
        return lambda place: (place + 1) * (self.longest + 1) // several - 1

    def _check_range(self, positions: Positions) -> None:
        # Aligned positions lie below the number of keys, so the usual case is settled without reading a tensor.
        if positions.k_length == 0 or (positions.aligned and positions.k_length <= self.longest):
            return
        if positions.aligned and positions.plain:
            low, high = 0, positions.k_length - 1
        elif torch.compiler.is_compiling():
            return
        else:
            both = torch.cat((positions.q.flatten(), positions.k.flatten()))
            low, high = int(both.min()), int(both.max())
        if low < 0 or high >= self.longest:
            raise InvalidArgument(
                f"position {low if low < 0 else high} is outside the range of {self.longest} (0 to {self.longest - 1}) "
                "from which positions are drawn: make longest larger than every position"
            )


def _mapped(
    positions: Positions, target: int | None, make: Callable[[Tensor], Callable[[Tensor], Tensor]]
) -> Positions:
    """Positions after the map that is made for `target` of them; None: for as many as there are."""
    q, k = positions.one_axis()
    if q.is_floating_point() or k.is_floating_point():
        raise InvalidArgument("only whole positions can be drawn or spread, and these are fractions")
    if q.numel() + k.numel() == 0:
        return positions
    if target is not None or (positions.aligned and positions.plain):
        count = torch.tensor(positions.k_length if target is None else target, device=q.device)
    else:
        count = torch.cat((q.flatten(), k.flatten())).max() + 1
    of = make(count)
    mapped = of(q)
    return positions.replace(q=mapped, k=mapped if k is q else of(k))
