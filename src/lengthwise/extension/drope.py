"""DroPE: a model trained with a rotation goes on without it (Gelberg et al. 2025, 2512.12167).

    cos = 1, sin = 0   in every layer

The model is then trained for a short while at its old length (0.5 to 20 % of its training in the paper): dropping the
rotation alone harms it. At test its authors also raise the temperature: `ConstantTemperature.of_lengths`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from lengthwise.extension.extended import Extended, QueriesExtended
from lengthwise.extension.method import Method
from lengthwise.extension.registry import extensions
from lengthwise.sites import claims, sites


@extensions.register("drope")
@dataclass(frozen=True)
class DroPE(Method):
    """Removes a rotation; all else that an encoding does stays.

    Example:
        >>> import lengthwise as lw
        >>> lw.sites(lw.extend(lw.Combined(lw.Rotary(head_dim=8), lw.ALiBi(heads=2)), lw.DroPE()))
        ('bias',)
    """

    formula: ClassVar[str] = "logit(i, j) = q_i · k_j / sqrt(head_dim)"
    paper: ClassVar[str] = "Gelberg et al. 2025, arXiv 2512.12167"
    example: ClassVar[str] = "drope"
    preserves: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})

    @staticmethod
    def takes(encoding: nn.Module) -> str | None:
        """Encodings that turn queries and keys, and do nothing else by that road."""
        if isinstance(encoding, QueriesExtended):
            return f"{type(encoding.method).__name__} multiplies its queries: drop the rotation first"
        turns = hasattr(type(encoding), "spectrum") or claims(encoding) & {"translation_invariant", "norm_preserving"}
        if not hasattr(type(encoding), "rotation") and not hasattr(encoding, "rotation"):
            return "it removes a rotation, and this encoding has none"
        return None if turns else "it removes a rotation, and this encoding does something else to queries"

    def transform(self, encoding: nn.Module) -> nn.Module:
        """What is left of the encoding."""
        return Unrotated(encoding, self)


class Unrotated(Extended):
    """A rotary encoding that does not rotate any more."""

    def __init__(self, encoding: nn.Module, method: DroPE) -> None:
        super().__init__(encoding, method)
        del self.rotation
        self.cached_keys = "rotated"  # as they are, which no length and no position changes
        self.follows_length = self.follows_length and bool(sites(self))
        self.claims = frozenset({"translation_invariant", "pairwise"})
