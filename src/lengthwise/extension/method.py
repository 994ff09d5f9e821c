"""What an extension method is: a frozen dataclass that says how one part of an encoding is to change.

A method has one or more of these, and `lengthwise.extend` takes the first that the encoding can use:

    map_spectrum(spectrum, target_length) -> Spectrum     encodings with `spectrum` and `with_spectrum`
    map_table(table) -> table                             encodings with `table` and `with_table`
    branches() -> [Branch, ...]                           rotary encodings, and biases of distance
    map_distance(distance) -> distance                    biases of distance, with `of_distance`
    map_positions(positions, *, generator, training)      any encoding
    scale_queries(place) -> factors                       any encoding but those that act on embeddings
    transform(encoding) -> encoding                       what the method says it takes: for what is none of the above
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import ClassVar

from torch import Tensor

from lengthwise.extension.kinds import check_finite, check_kinds


@dataclass(frozen=True)
class Method:
    """The base of all extension methods.

    Class attributes say what the methods themselves can't: `formula` and `paper` for pages; `example`, a spec with
    settings; `preserves`, the claims of an encoding that the result still makes; `cached_keys`, the rule for a cache,
    which an instance may set by a property; `plain_factor`, whether two in a row are one with the product of both;
    `rebases`, whether its result is a spectrum as good as a trained one, which others may change. A static method
    `takes(encoding) -> reason | None` refuses encodings that have what the method needs and still can't use it.

    Of a method that maps positions: `preserves_at_positions`, the claims kept there, where they are not `preserves`;
    `whole`, whether several encodings at once get the same map, as random ones must; `draws_each_row`, whether each row
    has draws of its own.
    """

    formula: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    example: ClassVar[str] = ""
    preserves: ClassVar[frozenset[str]] = frozenset(
        {"translation_invariant", "norm_preserving", "nonincreasing", "nonpositive", "pairwise"}
    )
    plain_factor: ClassVar[bool] = False
    rebases: ClassVar[bool] = False
    preserves_at_positions: ClassVar[frozenset[str] | None] = None
    whole: ClassVar[bool] = False
    draws_each_row: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        """Settings of the wrong kind are refused before the method's own checks, which compare numbers."""
        own = cls.__dict__.get("__post_init__")
        if own is None:
            return

        @functools.wraps(own)
        def checked(self: Method) -> None:
            check_kinds(self)
            own(self)
            check_finite(self)

        setattr(cls, "__post_init__", checked)  # noqa: B010

    def __post_init__(self) -> None:
        check_kinds(self)
        check_finite(self)

    @property
    def cached_keys(self) -> str:
        """In which form keys may wait in a cache: `"rotated"`, `"rotated_at_target_length"` or `"raw"`."""
        return "rotated"

    @property
    def identity(self) -> bool:
        """Whether these settings change nothing: factor 1. The encoding is then left as it is, bit for bit."""
        return False

    def reach(self, rows: int | None) -> int | None:
        """Positions that the result can take after a map of positions, where the encoding takes `rows`; None: any.

        Raises:
            InvalidArgument: settings that need more positions than the encoding has.
        """
        return rows


def written(method: Method) -> str:
    """A method with the settings that are not its defaults: `YaRN(factor=4, original_length=2048)`."""
    changed = [one for one in fields(method) if one.init and getattr(method, one.name) != one.default]
    return f"{type(method).__name__}({', '.join(f'{one.name}={_short(getattr(method, one.name))}' for one in changed)})"


def _short(value: object) -> str:
    return written(value) if isinstance(value, Method) else f"{value:g}" if isinstance(value, float) else repr(value)


CHANGES: Mapping[str, str] = MappingProxyType(
    {
        "map_spectrum": "the frequencies of a rotation",
        "map_table": "a learned table",
        "branches": "pairs of positions",
        "map_distance": "a bias of distance",
        "map_positions": "positions",
        "scale_queries": "queries",
        "transform": "the encoding as a whole",
    }
)
"""What a method changes, by its hook, in the order in which `extend` prefers them."""


def changes(kind: type[Method]) -> tuple[str, ...]:
    """What methods of a kind can change, in words."""
    return tuple(what for hook, what in CHANGES.items() if hasattr(kind, hook))


@dataclass(frozen=True)
class Branch:
    """Pairs of positions, and where their query and key are moved to.

    Positions are broadcastable tensors, queries `[..., q, 1]` and keys `[..., 1, k]`; each map must keep the shape of
    its input. Of several branches the first that holds a pair decides; a pair that none holds is not seen.
    """

    where: Callable[[Tensor, Tensor], Tensor]
    q_map: Callable[[Tensor], Tensor]
    k_map: Callable[[Tensor], Tensor]
