"""What can be told of the arguments of `Positions` without reading a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument


def check_places(q: Tensor, k: Tensor) -> None:
    """Raise `InvalidArgument` unless positions of queries and keys are tensors of one form, in a dtype that is wide."""
    for name, place in (("q", q), ("k", k)):
        if not isinstance(place, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"positions {name!r} must be a tensor, not {type(place).__name__}")
        if place.dim() not in (1, 2, 3):
            raise InvalidArgument(
                f"positions {name!r} must be [{name}], [batch, {name}] or [batch, {name}, axes], "
                f"not of shape {list(place.shape)}"
            )
        if place.dtype not in (torch.int64, torch.float32, torch.float64):
            raise InvalidArgument(
                f"positions {name!r} must be int64 (or float32 or float64 after a map), not {place.dtype}: "
                "narrower types can't tell distant positions apart"
            )
    if q.dim() != k.dim() or (q.dim() == 3 and q.shape[2] != k.shape[2]):
        raise InvalidArgument(
            f"positions of queries {list(q.shape)} and of keys {list(k.shape)} must have the same rank and axes"
        )


def check_segments(q: Tensor | None, k: Tensor | None, queries: int, keys: int) -> None:
    """Raise `InvalidArgument` unless both segments are given or neither, `[batch, length]` each."""
    if (q is None) != (k is None):
        raise InvalidArgument("give q_segment and k_segment together, or neither")
    for name, segment, length in (("q", q, queries), ("k", k, keys)):
        if segment is None:
            continue
        _check_part(name, "segment", segment, length)
        if segment.dim() != 2:
            raise InvalidArgument(f"segments must be [batch, length], not of shape {list(segment.shape)}")


def check_orders(q: Tensor | None, k: Tensor | None, queries: int, keys: int, *, needed: bool) -> None:
    """Raise `InvalidArgument` unless orders fit their positions, and say where queries stand if that is needed."""
    if q is not None and k is None:
        raise InvalidArgument("q_order without k_order: give both, so that they can be compared")
    for name, order, length in (("q", q, queries), ("k", k, keys)):
        if order is not None:
            _check_part(name, "order", order, length)
    if needed and q is None and queries > keys:
        raise InvalidArgument(
            f"{queries} queries can't be the last of {keys} keys: give q_order and k_order, or causal=False"
        )


def check_rows(parts: Sequence[tuple[str, Tensor]]) -> None:
    """Raise `InvalidArgument` unless all tensors with a batch dimension have 1 row or the same number."""
    batch, first = 1, ""
    for name, part in parts:
        size = part.shape[0]
        if batch != 1 and size not in (1, batch):
            raise InvalidArgument(f"{first} has {batch} rows and {name} {size}: each must have 1 or the same number")
        if batch == 1:
            batch, first = size, name


def check_settings(window: int | None, target_length: int | None) -> None:
    """Raise `InvalidArgument` for a window or a target length that is too small."""
    if window is not None and window < 0:
        raise InvalidArgument(f"window must be at least 0 (a token then sees itself only), not {window}")
    if target_length is not None and target_length < 1:
        raise InvalidArgument(f"target_length must be at least 1, not {target_length}")


def check_mask(mask: Tensor) -> None:
    """Raise `InvalidArgument` unless it is a tokenizer's mask `[batch, keys]`, bool or integer."""
    if mask.dim() != 2:
        raise InvalidArgument(
            f"attention_mask must be [batch, keys], not of shape {list(mask.shape)}; "
            "pass the mask of the tokenizer, not one of pairs"
        )
    if mask.is_floating_point():
        raise InvalidArgument(
            f"attention_mask must be bool or integer, not {mask.dtype}: one that is added to logits "
            "means the opposite (pass mask == 0), and one of ones and zeros wants mask.bool()"
        )


def check_count(name: str, count: int) -> None:
    """Raise `InvalidArgument` unless a number of tokens is whole and not negative."""
    if isinstance(count, float):
        raise InvalidArgument(f"{name} must be a whole number, not {count!r}")
    if count < 0:
        raise InvalidArgument(f"{name} must not be negative, and is {count}")


def _check_part(name: str, kind: str, part: Tensor, length: int) -> None:
    if part.shape[-1] != length or part.dim() not in (1, 2):
        raise InvalidArgument(
            f"{name}_{kind} of shape {list(part.shape)} does not match the {length} positions of {name!r}"
        )
    if part.dtype != torch.int64:
        raise InvalidArgument(
            f"{name}_{kind} must be int64, not {part.dtype}"
            + (": padding is segment -1; Positions.padded makes segments of a mask" * (kind == "segment"))
        )
