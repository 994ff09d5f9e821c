"""An encoding after a method that moves pairs of tokens."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias, PairBias
from lengthwise.extension.extended import DistanceExtended, Extended, reached
from lengthwise.extension.method import Branch, Method
from lengthwise.extension.pairs import PairLogits, first_match
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare


class PairsExtended(Extended):
    """An encoding that sees each pair of tokens at positions of its own, in causal attention.

    A rotation then yields whole logits, of keys that a cache holds unrotated; a bias of distance stays a bias. Up to
    the length that the method leaves as it is, `prepare` gives what the encoding itself does, at the same cost.
    """

    def __init__(self, encoding: nn.Module, method: Method) -> None:
        super().__init__(encoding, method)
        if method.identity:
            return
        self.direction = "causal"
        if hasattr(encoding, "rotation"):
            del self.rotation  # it turns keys differently for different queries: whole logits take its place
            self.attention_logits = self._attention_logits
            self.cached_keys = "raw"
            self.claims = self.claims - {"norm_preserving"}

    def prepare(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Prepared:
        """Logits or a bias that are ready for these positions, which the encoding may have mapped."""
        if self.method.identity or self._unmoved(positions):
            return prepare(self.encoding, positions, generator=generator, training=training)
        mapping = getattr(self.encoding, "map_positions", None)
        if mapping is not None:
            positions = mapping(positions, generator=generator, training=training)
        if hasattr(self.encoding, "rotation"):
            return Prepared(positions, logits=self._logits_at(positions))
        return Prepared(positions, bias=self._logit_bias(positions))

    def _unmoved(self, positions: Positions) -> bool:
        # A compiler would make a graph for either side of this length.
        exact: int = getattr(self.method, "exact_up_to", 0)
        return positions.aligned and not torch.compiler.is_compiling() and positions.k_length <= exact

    def _branches(self) -> Sequence[Branch]:
        return self._own.branches()

    def _logits_at(self, positions: Positions) -> PairLogits:
        return PairLogits.of_branches(self._branches(), self._inner.rotation, positions)

    def _attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        return self._logits_at(positions)(q, k, positions, scale)

    def _logit_bias(self, positions: Positions) -> Bias:
        if self.method.identity or self._unmoved(positions):
            return self._inner.logit_bias(positions)
        of_distance: Callable[..., Tensor] = self._inner.of_distance
        if isinstance(self.encoding, DistanceExtended) and self.encoding.follows_length:
            of_distance = functools.partial(of_distance, target_length=reached(positions))
        return PairBias(functools.partial(self._of_pair, of_distance), positions)

    def _of_pair(self, of_distance: Callable[[Tensor], Tensor], q: Tensor, k: Tensor) -> Tensor:
        def values(branch: Branch) -> Tensor:
            distance: Tensor = branch.q_map(q) - branch.k_map(k)
            return of_distance(distance.float() if distance.is_floating_point() else distance)

        return first_match(self._branches(), q, k, values)
