"""Distances pressed together as soon as a sequence is longer than the trained ones (Al-Khateeb et al. 2023).

    d -> d / s,   s = max(1, length / original_length)      arXiv 2310.13017

For ALiBi this is every slope divided by s. The paper was not read; the rule is that of a model card of its authors and
of code derived from theirs, and its details are UNVERIFIED. `Interpolate` is the same at a fixed s. Up to the trained
length nothing changes, bit for bit; past it every token that is added moves all distances, so that neither a shorter
sequence nor decoding step by step gives the rows of one pass, unless `positions.with_target(length)` fixes s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions


@extensions.register("dynamic_interpolate")
@dataclass(frozen=True)
class DynamicInterpolate(Method):
    """Distances of a bias divided by how many times longer than the trained length the sequence is.

    Args:
        original_length: the trained length.

    Raises:
        InvalidArgument: an original_length below 1.

    Example:
        >>> import lengthwise as lw
        >>> alibi = lw.extend(lw.ALiBi(heads=1, max_bias=1), lw.DynamicInterpolate(original_length=2))
        >>> alibi.logit_bias(lw.Positions.step(1)).dense().tolist()
        [[[-0.5, -0.0]]]
        >>> alibi.logit_bias(lw.Positions.step(3)).dense().tolist()
        [[[-0.75, -0.5, -0.25, -0.0]]]
    """

    original_length: int

    formula: ClassVar[str] = "d -> d / max(1, length / L)"
    paper: ClassVar[str] = "Al-Khateeb et al. 2023, arXiv 2310.13017"
    example: ClassVar[str] = "dynamic_interpolate()"
    preserves: ClassVar[frozenset[str]] = frozenset({"nonincreasing", "nonpositive"})

    def __post_init__(self) -> None:
        if self.original_length < 1:
            raise InvalidArgument(
                f"original_length is the length that the model was trained to, at least 1, and is "
                f"{self.original_length}"
            )

    @property
    def cached_keys(self) -> str:
        """A cache decodes as one pass does once the length is fixed."""
        return "rotated_at_target_length"

    def map_distance(self, distance: Tensor, target_length: int | Tensor | None = None) -> Tensor:
        """Distances divided by `target_length / original_length` where that is above 1, float32 or wider."""
        wide = distance if distance.is_floating_point() else distance.float()
        if target_length is None:
            return wide
        length = torch.as_tensor(target_length, dtype=torch.float64, device=distance.device)
        return wide / (length / self.original_length).clamp(min=1).to(wide.dtype)
