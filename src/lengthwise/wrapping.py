"""An encoding that holds another one and acts where that one acts."""

from __future__ import annotations

from torch import nn

from lengthwise.sites import SITES

_SAID = (
    "claims",
    "direction",
    "axes",
    "max_position",
    "cached_keys",
    "follows_length",
    "shared",
    "normalizes",
    "draws_each_row",
    "kv_heads",
)


def act_as(wrapper: nn.Module, inner: nn.Module) -> None:
    """Give `wrapper` the methods of the contract that `inner` has, and what `inner` says of itself.

    A method that the class of the wrapper defines under the same name with an underscore before it (`_rotation`) takes
    the place of the inner one.
    """
    for name in (*SITES.values(), *_SAID):
        if hasattr(inner, name):
            setattr(wrapper, name, getattr(wrapper, f"_{name}", getattr(inner, name)))
