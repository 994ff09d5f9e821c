"""What encodings give past the trained length, in the three ways there are: the numbers.

nothing     no value past the trained length: what a model that was never trained there knows
carried on  the function goes on: every vector past the trained length is one that no token had in training
pressed     the longer range is pressed into the trained one: vectors between those of training, closer than ever

Of a function (sinusoids, rotations) the second is the encoding itself and the third `Interpolate`; a learned
table is carried on by `Extrapolate` and pressed by `Resample`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from lengthwise.dims import Dims
from lengthwise.errors import InvalidArgument
from lengthwise.extension import Extrapolate, Interpolate, Resample, extend
from lengthwise.report.pictures import Picture, picture

Way = Literal["nothing", "carried on", "pressed"]
KINDS = ("trained", "never met in training", "between trained ones")


@dataclass(frozen=True, eq=False)
class Panel:
    """What one encoding gives in one way.

    Args:
        encoding: its label.
        way: which of the three.
        trained: number of positions that training had.
        drawn: values at each position, as far as there are any.
        seen: the same at the trained positions, as training had them.
    """

    encoding: str
    way: Way
    trained: int
    drawn: Picture
    seen: Picture

    @property
    def kinds(self) -> list[str]:
        """Of each position, what its vector is: one of `KINDS`."""
        if self.way == "carried on":
            count = self.drawn.values.shape[1]
            return ["trained" if at < self.trained else "never met in training" for at in range(count)]
        off, step = self._off
        return ["trained" if far < 1e-4 * step else "between trained ones" for far in off.tolist()]

    @property
    def farthest(self) -> float | None:
        """Most that a vector stands from the nearest trained one, in steps of trained neighbours; None for nothing."""
        if self.way == "nothing":
            return None
        off, step = self._off
        return float(off.max()) / step

    @property
    def _off(self) -> tuple[Tensor, float]:
        """How far each vector stands from the nearest trained one, and trained neighbours from each other."""
        seen, given = self.seen.values.T.double(), self.drawn.values.T.double()
        step = float((seen[1:] - seen[:-1]).norm(dim=1).mean())
        exact = "donot_use_mm_for_euclid_dist"
        return torch.cdist(given, seen, compute_mode=exact).amin(1), step


def past_length(
    encodings: Mapping[str, nn.Module], dims: Dims, trained: int, *, factor: int = 2, fit: str = "fourier"
) -> list[Panel]:
    """What encodings give at `factor` times the trained length, each in the three ways.

    Args:
        encodings: by label; what embeds or rotates. A learned table has `trained` rows.
        dims: sizes of the model.
        trained: number of positions that training had.
        factor: the length drawn, over the trained one.
        fit: how a learned table is carried on; see `lengthwise.Extrapolate`.

    Raises:
        InvalidArgument: a learned table of another number of rows, a factor or a trained length below 2.
    """
    if factor < 2 or trained < 2:
        raise InvalidArgument(f"factor and trained must be at least 2, not {factor} and {trained}")
    panels: list[Panel] = []
    for label, encoding in encodings.items():
        rows = getattr(encoding, "max_position", None)
        if rows not in (None, trained):
            raise InvalidArgument(f"{label} has a table of {rows} rows, and training is said to have had {trained}")
        length = factor * trained
        if rows is None:
            carried, pressed = encoding, extend(encoding, Interpolate(factor))
        else:
            carried = extend(encoding, Extrapolate(length, fit))  # pyright: ignore[reportArgumentType]
            pressed = extend(encoding, Resample(length))
        seen = picture(encoding, dims, trained)
        ways: tuple[tuple[Way, Picture], ...] = (
            ("nothing", seen),
            ("carried on", picture(carried, dims, length)),
            ("pressed", picture(pressed, dims, length)),
        )
        panels += [Panel(label, way, trained, drawn, seen) for way, drawn in ways]
    return panels
