"""What several methods ask of their settings, and of the length of a sequence."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument


def check_factor(factor: float) -> None:
    """Raise `InvalidArgument` for a factor that shortens."""
    if not 1 <= factor < math.inf:
        raise InvalidArgument(
            f"factor is the target length divided by the trained length, at least 1, and is {factor}: "
            "1 leaves an encoding as it is, and no method is needed for shorter sequences"
        )


def check_original_length(length: int) -> None:
    """Raise `InvalidArgument` for what is no length."""
    if isinstance(length, bool) or not 1 <= length < math.inf:
        raise InvalidArgument(
            f"original_length is the length in tokens that the model was trained to, at least 1, not {length!r}"
        )


def check_positive(name: str, value: float) -> None:
    """Raise `InvalidArgument` for what is not a number above 0."""
    if not 0 < value < math.inf:
        raise InvalidArgument(f"{name} must be a number above 0, not {value}")


def growth(target_length: int | Tensor | None, original_length: int) -> Tensor:
    """How many times as long as in training a sequence is, at least 1; float64, of no dimensions, and no number of
    Python's, which would be one graph a length for a compiler. No length at all is the trained one."""
    if target_length is None:
        return torch.ones((), dtype=torch.float64, device="cpu")  # where frequencies are, whatever the default
    return (torch.as_tensor(target_length, dtype=torch.float64) / original_length).clamp(min=1.0)
