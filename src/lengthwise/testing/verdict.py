"""What a check says when a property does not hold, and the comparisons that find it out."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Broken(Exception):
    """A property does not hold: what, where, by how much."""


class IsNaN(Broken):
    """A number that is none, or what it is compared with is."""


class NotApplicable(Exception):
    """A check has nothing to say of this encoding, with the reason."""


def agree(actual: Tensor, expected: Tensor, allowed: float | Tensor, what: str) -> None:
    """Raise `Broken` unless all numbers are equal within `allowed`, relative and absolute."""
    if actual.shape != expected.shape:
        raise Broken(f"{what}: of shape {list(actual.shape)}, expected {list(expected.shape)}")
    if actual.numel() == 0:
        return
    actual, expected = actual.detach().double(), expected.detach().double()
    for name, x in (("", actual), ("what it is compared with ", expected)):
        if bool(x.isnan().any()):
            raise IsNaN(f"{what}: {name}is NaN at {list(_place(x.isnan().int().argmax(), x))}")
    off = (actual - expected).abs()
    over = torch.nan_to_num(off / (allowed * (1.0 + expected.abs())), nan=float("inf"))
    over = torch.where(actual == expected, 0.0, over)  # both may be infinite
    if bool((over > 1.0).any()):
        index = _place(over.argmax(), over)
        found, wanted = actual[index].item(), expected[index].item()
        if not (math.isfinite(found) and math.isfinite(wanted)):
            raise Broken(f"{what}: {found} where {wanted:.6g} is expected, at {list(index)}")
        tolerance = (torch.as_tensor(allowed).expand_as(off)[index] * (1.0 + abs(wanted))).item()
        raise Broken(
            f"{what}: {found:.6g} and not {wanted:.6g} at {list(index)}, "
            f"off by {off[index].item():.2g} where {tolerance:.2g} is allowed"
        )


def same(actual: Tensor, expected: Tensor, what: str) -> None:
    """Raise `Broken` unless all numbers are the same bit for bit."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise Broken(f"{what}: {actual.dtype} {list(actual.shape)}, expected {expected.dtype} {list(expected.shape)}")
    wrong = actual.ne(expected) & ~(actual.isnan() & expected.isnan())
    if bool(wrong.any()):
        index = _place(wrong.int().argmax(), wrong)
        raise Broken(
            f"{what}: {actual[index].item():.6g} and not {expected[index].item():.6g} at {list(index)}, "
            "where not one bit may differ"
        )


def finite(x: Tensor, what: str) -> None:
    """Raise `Broken` if there is a NaN or an infinity."""
    wrong = ~x.isfinite()
    if bool(wrong.any()):
        index = _place(wrong.int().argmax(), wrong)
        value = x[index].item()
        if math.isnan(value):
            raise IsNaN(f"{what}: is NaN at {list(index)}")
        raise Broken(f"{what}: {value} at {list(index)}")


def _place(flat: Tensor, of: Tensor) -> tuple[int, ...]:
    return tuple(int(i) for i in torch.unravel_index(flat, of.shape))
