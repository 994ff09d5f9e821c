"""Positions as an argument of compiled and exported models: a tree of tensors, with settings that are constants."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.utils import _pytree as pytree


def register(kind: type, *, tensors: tuple[str, ...], settings: tuple[str, ...]) -> None:
    """Tell torch which fields of a frozen class are leaves of its tree, and which are constants.

    Args:
        kind: the class.
        tensors: names of its fields that hold tensors or None.
        settings: names of the others.
    """

    def flatten(whole: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(whole, name) for name in tensors], tuple(getattr(whole, name) for name in settings)

    def flatten_with_keys(whole: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
        # Keys with brackets: torch.export replaces names in text, and `q` as an attribute begins `q_segment` too.
        leaves, constants = flatten(whole)
        return [(pytree.MappingKey(name), leaf) for name, leaf in zip(tensors, leaves, strict=True)], constants

    def unflatten(leaves: Iterable[Any], constants: Iterable[Any]) -> Any:
        # Without checks: tracers put things other than tensors into leaves.
        whole = object.__new__(kind)
        for name, value in zip(tensors + settings, (*leaves, *constants), strict=True):
            object.__setattr__(whole, name, value)
        return whole

    pytree.register_pytree_node(
        kind,
        flatten,
        unflatten,
        serialized_type_name=f"lengthwise.{kind.__name__}",
        flatten_with_keys_fn=flatten_with_keys,
        to_dumpable_context=list,
        from_dumpable_context=tuple,
    )
