"""Where an encoding acts: the protocols of the contract, and what an encoding says of itself.

An encoding is a `torch.nn.Module` with at least one of the methods below; its presence says where the encoding acts,
and nothing else is asked. Only the encoding that does nothing has none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn

from lengthwise.bias import Bias
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.query_key import QueryKeyMap


@runtime_checkable
class EmbedsPositions(Protocol):
    """Acts on token embeddings `[batch, length, dim]`."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Return embeddings that know their positions (those of the queries)."""
        ...


@runtime_checkable
class Rotates(Protocol):
    """Acts on queries and keys `[batch, heads, length, head_dim]`."""

    def rotation(self, positions: Positions) -> QueryKeyMap:
        """Return the rotation of queries and keys."""
        ...


@runtime_checkable
class BiasesLogits(Protocol):
    """Acts on logits, after the 1/sqrt(head_dim) scale."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Return what is added to the logits."""
        ...


@runtime_checkable
class ComputesLogits(Protocol):
    """Replaces the logits as a whole, where position can't be parted from q·k.

    An encoding whose rows do not sum to one says `normalizes = True`: its logits are then logarithms of the weights
    themselves, and no softmax is taken.
    """

    def attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        """Return logits `[batch, heads, q, k]`, scaled, before any mask."""
        ...


Logits = Callable[[Tensor, Tensor, Positions, float], Tensor]
"""What computes whole logits: from q, k, positions and scale to `[batch, heads, q, k]`.

One that keeps something of all queries and keys has a method `part(rows, columns) -> Logits` for some of them. One that
can do work for all of them once has a method `ready(q, k, scale)` too, which returns a function from rows and columns
to their logits and the slices of keys that these are of, where it leaves out keys that no row sees; it keeps positions
of its own.
"""


@runtime_checkable
class ReadsHidden(Protocol):
    """Lets the hidden states that a layer reads decide."""

    def read(self, hidden: Tensor, positions: Positions, state: Any = None) -> tuple[QueryKeyMap | Bias | Logits, Any]:
        """Return what the hidden states ask for, and what later tokens need to know of these.

        Args:
            hidden: `[batch, new, dim]` of the new tokens alone, which are the queries.
            positions: of the queries, and of all keys.
            state: what the last call returned, in a cache; None at the beginning.

        Returns:
            A map of the new queries and keys (a cache holds keys that are mapped already), or a bias or whole logits
            that cover all keys; and the state after the new tokens, tensors in any nest of tuples.
        """
        ...


SITES: Mapping[str, str] = MappingProxyType(
    {
        "embeddings": "embed_positions",
        "rotation": "rotation",
        "bias": "logit_bias",
        "logits": "attention_logits",
        "hidden": "read",
    }
)
"""Site names with the method that makes an encoding act there."""

CLAIMS: Mapping[str, str] = MappingProxyType(
    {
        "translation_invariant": "shifting all positions by the same amount leaves every logit as it is",
        "norm_preserving": "rotated queries and keys keep their length",
        "nonincreasing": "the bias never rises with distance",
        "nonpositive": "the bias is nowhere above 0",
        "pairwise": "logit (i, j) depends on q_i, k_j and their positions only",
    }
)
"""What an encoding may claim of itself, and what each word means."""

DIRECTIONS = ("any", "causal", "bidirectional")
CACHE_RULES = ("rotated", "rotated_at_target_length", "raw", "none")


def sites(encoding: nn.Module) -> tuple[str, ...]:
    """Names of the places where an encoding acts, in the order of `SITES`; empty for one that does nothing.

    Example:
        >>> import lengthwise as lw
        >>> lw.sites(lw.Rotary(head_dim=64))
        ('rotation',)
    """
    return tuple(site for site, method in SITES.items() if hasattr(encoding, method))


def claims(encoding: nn.Module) -> frozenset[str]:
    """What an encoding claims of itself.

    Raises:
        InvalidArgument: a claim that is not in `CLAIMS`.
    """
    made: frozenset[str] = frozenset(getattr(encoding, "claims", ()))
    for claim in sorted(made):
        if claim not in CLAIMS:
            raise InvalidArgument(
                f"{type(encoding).__name__} makes an unknown claim {claim!r}: {nearest(claim, CLAIMS)}"
            )
    return made


def direction(encoding: nn.Module) -> str:
    """Attention for which an encoding is made: `"any"`, `"causal"` or `"bidirectional"`."""
    return _one_of(encoding, "direction", "any", DIRECTIONS)


def cached_keys(encoding: nn.Module) -> str:
    """In which form keys may wait in a cache: `"rotated"`, `"rotated_at_target_length"`, `"raw"`; or `"none"` may."""
    return _one_of(encoding, "cached_keys", "rotated", CACHE_RULES)


def follows_length(encoding: nn.Module) -> bool:
    """Whether what an encoding says of a token changes with the length of the sequence, until that is fixed.

    Keys that are rotated at the length follow it, by their rule; an encoding that caches raw keys says so by an
    attribute `follows_length`.
    """
    return cached_keys(encoding) == "rotated_at_target_length" or bool(getattr(encoding, "follows_length", False))


def axes(encoding: nn.Module) -> int:
    """How many coordinates the positions have that an encoding reads."""
    return int(getattr(encoding, "axes", 1))


def _one_of(encoding: nn.Module, attribute: str, default: str, choices: tuple[str, ...]) -> str:
    value = getattr(encoding, attribute, default)
    if value not in choices:
        raise InvalidArgument(f"{type(encoding).__name__}.{attribute} is {value!r}: {nearest(str(value), choices)}")
    return value
