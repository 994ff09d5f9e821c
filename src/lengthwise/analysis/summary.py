"""All that is looked at in one model, as plain numbers: how far heads look, what states know, what order does.

Measured on examples of one length. The first token, which marks the beginning in most tasks, stays first in whatever is
moved or repeated: with no mark at all a decoder that reads one token over and over could tell no place from another
without an encoding. Layers count from 1; layer 0 of a list of states is the embedding.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import cosine_similarity

from lengthwise.analysis.order import order_effect
from lengthwise.analysis.probes import Kind, probe_distance, probe_position
from lengthwise.analysis.reach import attended_distance, histogram, mean_distance
from lengthwise.analysis.record import record
from lengthwise.errors import InvalidArgument
from lengthwise.models.decoder import Decoder

BINS = 10
"""Bins of the histograms of attended distance."""
LARGEST = 2**25
"""Numbers of attention that are held at once, of all layers, heads and models."""
PROBES = 4
"""Fewest examples: a probe never sees a quarter of them."""

Asked = Literal["position", "distance"]


@dataclass(frozen=True)
class Probe:
    """One probe of one layer.

    Args:
        asked: `"position"` of a token, or `"distance"` of two.
        kind: `"linear"` or `"mlp"`.
        layer: whose states it reads; 0 is the embedding.
        shuffled: whether its labels were shuffled: the control.
        r2: part of the variance that it explains on rows it never saw.
        error: mean absolute error, in tokens.
    """

    asked: Asked
    kind: Kind
    layer: int
    shuffled: bool
    r2: float
    error: float


@dataclass(frozen=True, eq=False)
class Looks:
    """What one model does at one length.

    Args:
        tokens: tokens of an example.
        attended: share of queries in each bin of normalized attended distance, `[layers][bins]`, over heads.
        mean_distance: tokens that each head looks back, `[layers][heads]`.
        probes: of position and distance, linear and mlp, with their controls.
        order: cosine of a token's two states when all but the first token are moved, `[layers + 1]`.
        largest: largest difference between the two last states, relative to their largest number.
        places: cosine between the states of the commonest token, repeated at all places but the first, mean over pairs,
            `[layers + 1]`.
    """

    tokens: int
    attended: list[list[float]]
    mean_distance: list[list[float]]
    probes: list[Probe]
    order: list[float]
    largest: float
    places: list[float]


def look(
    model: Decoder, tokens: Int64[Tensor, "batch length"], *, probed: bool = True, bins: int = BINS, seed: int = 0
) -> Looks:
    """Look at one model.

    Args:
        model: a decoder; attended distance is defined for causal attention only.
        tokens: examples, at least 4, of at least 3 tokens.
        probed: whether probes are fitted, which takes most of the time.
        bins: of the histograms.
        seed: of the second order and of the probes.

    Raises:
        InvalidArgument: too few examples or tokens.
    """
    batch, length = tokens.shape
    if batch < PROBES or length < 3:
        raise InvalidArgument(
            f"a model is looked at with at least {PROBES} examples of at least 3 tokens, not {batch} of {length}"
        )
    counts: Tensor | float = 0.0
    back: Tensor | float = 0.0
    states: list[tuple[Tensor, ...]] = []
    for part in chunks(tokens, [model]):
        seen = record(model, part)
        weights = seen.weights
        share = len(part) / batch
        counts = counts + share * torch.stack([histogram(layer, bins) for layer in attended_distance(weights)])
        back = back + share * mean_distance(weights)
        states.append(seen.hidden)
    assert isinstance(counts, Tensor)
    assert isinstance(back, Tensor)
    moved = 1 + torch.randperm(length - 1, generator=torch.Generator().manual_seed(seed))
    order = torch.cat((torch.zeros(1, dtype=torch.int64), moved)).to(tokens.device)
    effects = [(len(part), order_effect(model, part, order)) for part in chunks(tokens, [model])]
    by_layer = [[rows * value for value in effect.by_layer] for rows, effect in effects]
    layers = len(states[0])
    return Looks(
        length,
        counts.tolist(),
        back.tolist(),
        _probes([torch.cat([part[layer] for part in states]) for layer in range(layers)], seed) if probed else [],
        [sum(values) / batch for values in zip(*by_layer, strict=True)],
        max(effect.largest for _, effect in effects),
        _across_places(model, tokens),
    )


def common(tokens: Int64[Tensor, "batch length"]) -> int:
    """The token that occurs most, the smaller id where two do."""
    return int(tokens.flatten().bincount().argmax())


def chunks(tokens: Int64[Tensor, "batch length"], models: list[Decoder]) -> Iterator[Int64[Tensor, "part length"]]:
    """Examples in parts so small that the attention of all models to a part fits into memory together."""
    each = sum(model.config.layers * model.config.heads for model in models) * tokens.shape[1] ** 2
    return iter(tokens.split(max(1, LARGEST // each)))


def _probes(states: list[Float[Tensor, "batch length dim"]], seed: int) -> list[Probe]:
    found: list[Probe] = []
    kinds: tuple[Kind, ...] = ("linear", "mlp")
    pairs = min(512, 4 * states[0].shape[1])  # few pairs of wide states are learned by heart
    for kind, shuffled, layer in itertools.product(kinds, (False, True), range(len(states))):
        place = probe_position(states[layer], kind, shuffled=shuffled, seed=seed)
        apart = probe_distance(states[layer], kind, pairs=pairs, shuffled=shuffled, seed=seed)
        found.append(Probe("position", kind, layer, shuffled, place.r2, place.error))
        found.append(Probe("distance", kind, layer, shuffled, apart.r2, apart.error))
    return found


def _across_places(model: Decoder, tokens: Int64[Tensor, "batch length"]) -> list[float]:
    token = common(tokens[:, 1:])
    repeated = torch.full_like(tokens[:1], token)
    marks = tokens[tokens[:, 0] != token, 0]  # text has no mark, but some example begins with another byte
    repeated[0, 0] = marks[0] if len(marks) else token
    found: list[float] = []
    for hidden in record(model, repeated).hidden:
        states = hidden[0, 1:].double()
        similarity = cosine_similarity(states.unsqueeze(1), states.unsqueeze(0), dim=-1)
        count = len(states)
        found.append(float((similarity.sum() - similarity.diagonal().sum()) / (count * (count - 1))))
    return found
