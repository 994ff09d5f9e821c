"""Faults that one pass over one whole sequence does not show."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias, DenseBias, DistanceBias
from lengthwise.positions import Positions
from lengthwise.rotation import Rotation
from lengthwise.testing.broken.registry import DIMS, angles, broken, penalty, sinusoids, wave


@broken("the bias of a step is computed from its new tokens alone, is zero, and broadcasts", "cache_equals_one_pass")
class BiasOfNewTokens(nn.Module):
    """Distances among the queries, padded with zeros for the keys before."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Right in one pass."""
        place = positions.one_axis()[0]
        own = wave(place.unsqueeze(-1) - place.unsqueeze(-2)).movedim(0, -3)
        return DenseBias(nn.functional.pad(own, (positions.k_length - positions.q_length, 0)))


@broken("a relative bias ignores the number of past tokens", "cache_equals_one_pass")
class IgnoresThePast(nn.Module):
    """Queries count from 0 in every step."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Right in one pass."""
        distance = torch.arange(positions.q_length)[:, None] - torch.arange(positions.k_length)
        return DenseBias(wave(distance))


@broken(
    "a table is read from row 0 in every step", "cache_equals_one_pass", "packed_equals_apart", "padded_equals_alone"
)
class TableWithoutOffset(nn.Module):
    """Sinusoids by index in the call."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """The first rows, whatever the positions are."""
        positions.check_tokens(x)
        positions.one_axis()
        return x + sinusoids(torch.arange(x.shape[1])).to(x.dtype)


@broken(
    "it says that rotated keys may wait, and its rotation depends on the number of keys",
    "cache_equals_one_pass",
    "packed_equals_apart",
    "padded_equals_alone",
)
class RotatedByLength(nn.Module):
    """Two sets of frequencies are mixed in one cache."""

    claims = frozenset({"translation_invariant", "norm_preserving"})

    def rotation(self, positions: Positions) -> Rotation:
        """Angles shrink as the sequence grows."""
        q, k = (angles(place) / (1 + positions.k_length / 8) for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("one vector of positions serves all rows of a batch", "padded_equals_alone", "batch_permuted")
class OneRowOfPositions(nn.Module):
    """The first row's."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Of the first row."""
        positions.check_tokens(x)
        place = positions.one_axis()[0]
        return x + sinusoids(place[0] if place.dim() == 2 else place).to(x.dtype)


@broken("what stands in padding is summed", "padded_equals_alone", "packed_equals_apart")
class ReadsPadding(nn.Module):
    """A bias of each key from a sum over all tokens before it, padding among them."""

    direction = "causal"

    def read(self, hidden: Tensor, positions: Positions, state: Tensor | None = None) -> tuple[Bias, Tensor]:
        """Key j gets the bounded sum of what stands before it."""
        score = hidden[..., : DIMS.heads].float().transpose(1, 2)  # [batch, heads, new]
        past = score[..., :0] if state is None else state
        scores = torch.cat((past, score), dim=-1)
        values = scores.cumsum(-1).tanh()
        return DenseBias(values.unsqueeze(-2).expand(-1, -1, positions.q_length, -1)), scores


@broken("sums run on from one packed document into the next", "packed_equals_apart")
class RunsOnAcrossDocuments(nn.Module):
    """The same with padding left out, and nothing else."""

    direction = "causal"

    def read(self, hidden: Tensor, positions: Positions, state: Tensor | None = None) -> tuple[Bias, Tensor]:
        """Key j gets the bounded sum of what stands before it."""
        score = hidden[..., : DIMS.heads].float().transpose(1, 2)
        if positions.q_segment is not None:
            score = score.masked_fill((positions.q_segment == -1).unsqueeze(1), 0.0)
        past = score[..., :0] if state is None else state
        scores = torch.cat((past, score), dim=-1)
        values = scores.cumsum(-1).tanh()
        return DenseBias(values.unsqueeze(-2).expand(-1, -1, positions.q_length, -1)), scores


@broken("what it read of earlier tokens is not kept", "cache_equals_one_pass", "packed_equals_apart")
class ForgetsItsState(nn.Module):
    """Sums begin anew in every step."""

    direction = "causal"

    def read(self, hidden: Tensor, positions: Positions, state: Tensor | None = None) -> tuple[Bias, None]:
        """Zero for all keys before the step."""
        score = hidden[..., : DIMS.heads].float().transpose(1, 2)
        if positions.q_segment is not None:
            score = score.masked_fill((positions.q_segment == -1).unsqueeze(1), 0.0)
        values = nn.functional.pad(score.cumsum(-1).tanh(), (positions.k_length - positions.q_length, 0))
        return DenseBias(values.unsqueeze(-2).expand(-1, -1, positions.q_length, -1)), None


@broken("packed documents share positions across their border", "packed_equals_apart", "padded_equals_alone")
class CountsAcrossDocuments(nn.Module):
    """Sinusoids by order in the row."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """By index among all keys."""
        positions.check_tokens(x)
        positions.one_axis()
        offset = positions.one_axis()[0].amin() if positions.plain and positions.q.numel() else 0
        start = positions.k_length - positions.q_length if positions.aligned else offset
        return x + sinusoids(torch.arange(x.shape[1]) + start).to(x.dtype)


@broken("a row of the batch learns its index", "batch_permuted", "padded_equals_alone", "positions_matter")
class KnowsItsRow(nn.Module):
    """An index of the batch taken for one of positions."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Row b gets b."""
        positions.check_tokens(x)
        positions.one_axis()
        return x * (1 + torch.arange(x.shape[0]).to(x.dtype)[:, None, None])


@broken("distances are counted by index in a shard", "shards_equal_whole", "long_step_right")
class IndexInAShard(nn.Module):
    """Right wherever the queries are the last keys."""

    claims = frozenset({"translation_invariant", "nonincreasing", "pairwise"})

    def logit_bias(self, positions: Positions) -> Bias:
        """By index, counted from the end."""
        back = torch.arange(1 - positions.q_length, 1)[:, None] - torch.arange(1 - positions.k_length, 1)
        return DenseBias(penalty(back))


@broken(
    "a sum over real tokens is divided by their number, which may be zero", "empty_rows_zero", "padded_equals_alone"
)
class DividesByNothing(nn.Module):
    """Positions as a part of the number of real tokens."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """NaN where a row has none."""
        positions.check_tokens(x)
        place = positions.one_axis()[0]
        if positions.q_segment is None:
            return x + sinusoids(place).to(x.dtype)
        count = (positions.q_segment != -1).sum(-1, keepdim=True)
        return x + sinusoids(place * count / count).to(x.dtype)


@broken(
    "dense values do not belong to the structure",
    "structure_equals_dense",
    "backends_agree",
    "cache_equals_one_pass",
    "packed_equals_apart",
    "padded_equals_alone",
    "batch_permuted",
)
class DependsOnShape(nn.Module):
    """Distances are divided by how many are asked for at a time."""

    claims = frozenset({"translation_invariant", "nonincreasing"})

    def logit_bias(self, positions: Positions) -> Bias:
        """No function of distance alone."""
        return DistanceBias(lambda distance: penalty(distance) / max(distance.shape[-1], 1), positions)
