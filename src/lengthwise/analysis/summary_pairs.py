"""Whose attention resembles whose, over models of several encodings and seeds that read the same tokens.

Two encodings are compared seed by seed: models of one seed began with the same weights outside the encoding. The
control is an encoding against itself in the next seed: what is no farther than that may be chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Int64
from torch import Tensor

from lengthwise.analysis.record import record
from lengthwise.analysis.similarity import Variant, attention_distance
from lengthwise.analysis.summary import chunks
from lengthwise.errors import InvalidArgument
from lengthwise.models.decoder import Decoder

Models = Mapping[tuple[str, int], Decoder]
"""Models by encoding and seed."""


@dataclass(frozen=True)
class Pair:
    """Distance of the attention of two encodings.

    Args:
        first, second: encodings; the same one for a control.
        distances: one for each pair of models, in nats, mean over layers and examples.
        seeds: of the pairs of models; the two are the same but for a control.
    """

    first: str
    second: str
    distances: tuple[float, ...]
    seeds: tuple[tuple[int, int], ...]

    @property
    def control(self) -> bool:
        """Whether this is an encoding against itself in another seed."""
        return self.first == self.second


def resemblance(models: Models, tokens: Int64[Tensor, "batch length"], variant: Variant = "true") -> list[Pair]:
    """Distance between all encodings that share a seed, and the controls.

    Args:
        models: by encoding and seed, with the same number of layers.
        tokens: that all of them read.
        variant: of the divergence; see `attention_distance`.

    Raises:
        InvalidArgument: fewer than two models, or other numbers of layers.
    """
    wanted = pairs(models)
    if not wanted:
        raise InvalidArgument(f"whose attention resembles whose takes two encodings of one seed, not {list(models)}")
    sums = {(one, seeds): 0.0 for one, found in wanted.items() for seeds in found}
    for part in chunks(tokens, list(models.values())):
        weights = {key: record(model, part).weights for key, model in models.items()}
        for (first, second), (a, b) in sums:
            distance = attention_distance(weights[first, a], weights[second, b], variant)  # [part, layers]
            sums[(first, second), (a, b)] += float(distance.mean(dim=1).sum())
    return [
        Pair(*one, tuple(sums[one, seeds] / len(tokens) for seeds in found), tuple(found))
        for one, found in wanted.items()
    ]


def pairs(models: Models) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Which models are compared: for two encodings the seeds that both have, for one each seed with the next."""
    seeds: dict[str, list[int]] = {}
    for encoding, seed in models:
        seeds.setdefault(encoding, []).append(seed)
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    names = sorted(seeds)
    for place, first in enumerate(names):
        mine = sorted(seeds[first])
        # Of two seeds there is one pair, of three or more as many as seeds.
        around = list(zip(mine, mine[1:] + mine[:1], strict=True))[: len(mine) if len(mine) > 2 else len(mine) - 1]
        if around:
            found[first, first] = around
        for second in names[place + 1 :]:
            shared = [(seed, seed) for seed in mine if seed in seeds[second]]
            if shared:
                found[first, second] = shared
    return found
