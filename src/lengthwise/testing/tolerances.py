"""The one table of tolerances: from dtype, length and position."""

from __future__ import annotations

import math

import torch

# A few roundings of numbers near 1, in units of the dtype's epsilon.
_ROUNDINGS = {torch.float64: 64, torch.float32: 32, torch.float16: 4, torch.bfloat16: 4}


def rounding(dtype: torch.dtype, length: int = 1) -> float:
    """Relative and absolute error allowed for numbers near 1 that few roundings in `dtype` led to.

    A sum of `length` terms adds the roundings of all of them, of random sign: they grow with its square root.
    """
    return _ROUNDINGS[dtype] * torch.finfo(dtype).eps * math.sqrt(max(1.0, length / 16))


def output(dtype: torch.dtype, length: int = 1) -> float:
    """The same for what attention gives: a projection, a rotation, a logit, a softmax and a value stack up."""
    return 8 * rounding(dtype, length)


def angle(position: int) -> float:
    """Error allowed at a position for what is made of an angle of at most 1 radian a position in float32.

    An angle of `position` radians has a last digit worth 2^-23 of it; what uses two of them has the error of both.
    """
    return 2 * 2.0**-23 * max(position, 1) + rounding(torch.float32)


FAR = 2**20
"""Where the far window begins: past every context in use, and far past what bf16 or fp16 can tell apart."""
GRADIENT = 2e-3
"""Relative error allowed between a gradient and differences of float32 values, whose last digits are noise."""
