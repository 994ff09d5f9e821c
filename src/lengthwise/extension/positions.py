"""Positions past the trained ones made into trained ones: the last one repeated, or random ones met in training.

    clamp      p -> min(p, n - 1),   of a bias of distance: d -> min(d, n - 1)
    randomize  p -> r_p, a sorted sample of {0, ..., longest - 1}, while training (Ruoss et al. 2023, 2305.16843)

Clamping is what "no generalization" means: nothing is new, and tokens past the n-th can't be told apart. Of a bias of
distance it is what Shaw et al. (2018, 1803.02155) and T5 build in: all that is far is equally far.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from lengthwise.encodings.randomized import EVALUATIONS, RandomizedPositions
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.positions import Positions
from lengthwise.sites import sites


@extensions.register("clamp")
@dataclass(frozen=True)
class Clamp(Method):
    """All positions past the last trained one share it; of a bias of distance, all far distances are one.

    Args:
        length: number of positions that differ, usually the trained length.

    Raises:
        InvalidArgument: a length below 1, or past the table of the encoding.

    Example:
        >>> import lengthwise as lw
        >>> alibi = lw.extend(lw.ALiBi(heads=1, max_bias=1), lw.Clamp(length=3))
        >>> alibi.logit_bias(lw.Positions.step(4)).dense().tolist()
        [[[-1.0, -1.0, -1.0, -0.5, -0.0]]]
    """

    length: int

    formula: ClassVar[str] = "p -> min(p, n - 1),  or of a bias d -> min(d, n - 1)"
    paper: ClassVar[str] = "no paper; for relative positions Shaw et al. 2018, arXiv 1803.02155, section 3.2"
    example: ClassVar[str] = "clamp(length=64)"
    preserves: ClassVar[frozenset[str]] = frozenset(
        {"translation_invariant", "norm_preserving", "nonincreasing", "nonpositive", "pairwise"}
    )
    preserves_at_positions: ClassVar[frozenset[str]] = preserves - {"translation_invariant"}

    def __post_init__(self) -> None:
        if self.length < 1:
            raise InvalidArgument(f"length is the number of positions that differ, at least 1, and is {self.length}")

    def reach(self, rows: int | None) -> None:
        """Any position can be given; but the last that is kept must be one of the table."""
        if rows is not None and self.length > rows:
            raise InvalidArgument(
                f"Clamp(length={self.length}) keeps more positions than the {rows} of the table: take length={rows}"
            )

    def map_distance(self, distance: Tensor, target_length: int | Tensor | None = None) -> Tensor:
        """Distances no farther than the last position is from the first, ahead too."""
        return distance.clamp(1 - self.length, self.length - 1)

    def map_positions(
        self, positions: Positions, *, generator: torch.Generator | None = None, training: bool = False
    ) -> Positions:
        """Positions no farther than the last one kept, on each axis."""
        q = positions.q.clamp(max=self.length - 1)
        return positions.replace(q=q, k=q if positions.k is positions.q else positions.k.clamp(max=self.length - 1))


@extensions.register("randomize")
@dataclass(frozen=True)
class Randomize(Method):
    """Random ordered positions of a larger range while training: `lengthwise.RandomizedPositions`.

    Several encodings at once get the same positions.

    Args:
        longest: size of the range, at least the longest sequence ever used.
        evaluation: where tokens stand outside of training, `"spread"` or `"given"`; see `RandomizedPositions`.

    Raises:
        InvalidArgument: a longest below 1 or past the table of the encoding, an unknown evaluation.

    Example:
        >>> import lengthwise as lw
        >>> encoding = lw.extend(lw.Rotary(head_dim=8), lw.Randomize(longest=100))
        >>> lw.prepare(encoding, lw.Positions.sequence(4)).positions.q.tolist()
        [19, 39, 59, 79]
    """

    longest: int
    evaluation: Literal["given", "spread"] = "spread"

    formula: ClassVar[str] = "p -> r_p, r a sorted sample of {0, ..., longest - 1} while training"
    paper: ClassVar[str] = "Ruoss et al. 2023, arXiv 2305.16843"
    example: ClassVar[str] = "randomize(longest=64)"
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.longest < 1:
            raise InvalidArgument(f"longest must be at least 1, not {self.longest}")
        if self.evaluation not in EVALUATIONS:
            raise InvalidArgument(f"unknown evaluation {self.evaluation!r}: {nearest(self.evaluation, EVALUATIONS)}")

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """Encodings that act, of one axis."""
        if not sites(encoding):
            return "it changes positions, and this encoding has none"
        axes = getattr(encoding, "axes", 1)
        return None if axes == 1 else f"it draws positions of one axis, and this encoding reads {axes}"

    def transform(self, encoding: nn.Module) -> nn.Module:
        """The encoding at drawn positions."""
        return RandomizedPositions(encoding, self.longest, self.evaluation)
