"""Rotated keys at new positions, without the hidden states that they came from.

    R(p + d) k = R(d) R(p) k

A rotation by the difference is all that is needed; cosines and sines that a method has multiplied once are not
multiplied again. For caches that drop or join parts: each key keeps what it says and stands elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.sites import cached_keys, claims
from lengthwise.spectrum import Spectrum


def move_keys(
    keys: Float[Tensor, "batch kv_heads k head_dim"], encoding: nn.Module, by: int | Tensor
) -> Float[Tensor, "batch kv_heads k head_dim"]:
    """Move keys that are rotated already.

    Args:
        keys: rotated keys, `[batch, kv_heads, k, head_dim]`.
        encoding: what rotated them.
        by: how far, negative for towards the start: one number, int64 `[k]` or `[batch, k]`; for an encoding of several
            axes `[batch or 1, k, axes]`.

    Returns:
        The keys as the encoding rotates them at their old positions plus `by`.

    Raises:
        InvalidArgument: an encoding whose keys can't be moved: it does not rotate, or not by distance alone, or its
            caches hold keys in another form.

    Example:
        >>> import torch, lengthwise as lw
        >>> rotary, keys = lw.Rotary(head_dim=4), torch.randn(1, 1, 3, 4)
        >>> here, later = (lw.Positions(place, place) for place in (torch.arange(3), torch.arange(5, 8)))
        >>> moved = lw.extension.move_keys(rotary.rotation(here).k(keys), rotary, 5)
        >>> torch.allclose(moved, rotary.rotation(later).k(keys), atol=1e-6)
        True
    """
    _check(encoding)
    place = _place(by, keys)
    at = Positions(place, place, causal=False)
    given: Any = encoding
    spectrum: Spectrum | None = getattr(encoding, "spectrum", None)
    if spectrum is None:
        return given.rotation(at).k(keys)
    plain = spectrum.replace(attention_factor=1.0)
    if hasattr(encoding, "rotation_by"):
        return given.rotation_by(plain, at).k(keys)
    return given.with_spectrum(plain).rotation(at).k(keys)


def _place(by: int | Tensor, keys: Tensor) -> Tensor:
    if isinstance(by, Tensor) and by.dim() > 0:
        return by
    number: Any = by.item() if isinstance(by, Tensor) else by
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise InvalidArgument(f"by is how far keys move, a number or a tensor of positions, not {by!r}")
    return torch.full((keys.shape[2],), number, device=keys.device)


def _check(encoding: nn.Module) -> None:
    name = type(encoding).__name__
    if not hasattr(encoding, "rotation"):
        raise InvalidArgument(f"{name} rotates no keys: those that wait in its cache can stay as they are")
    if cached_keys(encoding) != "rotated":
        raise InvalidArgument(
            f"a cache for {name} holds keys that are {cached_keys(encoding)}, and move_keys takes those that are "
            "rotated for good: rotate raw keys at their new positions; fix a method that follows the length at one"
        )
    if "translation_invariant" not in claims(encoding):
        raise InvalidArgument(
            f"{name} does not rotate by distance alone, so that a key's position can't be told from its new one: "
            "rotate the key anew"
        )
    if not hasattr(encoding, "spectrum") and "norm_preserving" not in claims(encoding):
        raise InvalidArgument(
            f"{name} changes the length of keys, and would do so again: move the keys by the part of it that rotates"
        )
