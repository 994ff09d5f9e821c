"""Faults that show in calls longer than tests usually make, and encodings that do nothing."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias, DistanceBias
from lengthwise.positions import Positions
from lengthwise.rotation import Rotation
from lengthwise.testing.broken.registry import DIMS, angles, broken, penalty


@broken("a bias of ones, which softmax drops", "positions_matter", "positions_told_apart")
class BiasOfOnes(nn.Module):
    """The same for all keys."""

    claims = frozenset({"translation_invariant", "nonincreasing", "pairwise"})

    def logit_bias(self, positions: Positions) -> Bias:
        """Ones."""
        return DistanceBias(lambda distance: penalty(distance) * 0 + 1, positions)


@broken("a learned bias is multiplied by a factor that is zero and stays it", "positions_matter")
class TimesZero(nn.Module):
    """A gate that was meant to be learned."""

    claims = frozenset({"translation_invariant", "nonincreasing", "pairwise"})

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.gate = nn.Parameter(torch.ones(DIMS.heads)), 0.0

    def logit_bias(self, positions: Positions) -> Bias:
        """KERPLE's logarithm, times zero."""
        scale = nn.functional.softplus(self.scale.to(torch.promote_types(self.scale.dtype, torch.float32)))

        def of_distance(distance: Tensor) -> Tensor:
            return -self.gate * scale.view(-1, *[1] * distance.dim()) * distance.abs().float().log1p()

        return DistanceBias(of_distance, positions)


@broken("angles of zero turn nothing", "positions_matter")
class TurnsNothing(nn.Module):
    """Frequencies that were never filled."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """The identity."""
        q, k = positions.one_axis()
        return Rotation.of_angles(angles(q) * 0, angles(k) * 0)


@broken("dynamic NTK: the base grows once a call is longer than 2048", "long_step_right")
class BaseOfTheCall(nn.Module):
    """What a key gets depends on how many there are."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """With the base of this call's length."""
        base = 10000.0 * max(1.0, positions.k_length / 2048) ** 2
        q, k = positions.one_axis()
        return Rotation.of_angles(angles(q, base=base), angles(k, base=base))


@broken("dynamic NTK: the base grows past 1024, and never falls again", "long_step_right")
class RemembersALongCall(nn.Module):
    """The longest call decides; short ones never show it."""

    claims = frozenset({"norm_preserving"})

    def __init__(self) -> None:
        super().__init__()
        self.longest = 1024

    def rotation(self, positions: Positions) -> Rotation:
        """A function of history."""
        self.longest = max(self.longest, positions.k_length)
        q, k = (angles(place, base=10000.0 * (self.longest / 1024) ** 2) for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("a table of 512 distances that no max_position tells of", "long_step_right")
class RaisesPast512(nn.Module):
    """An index past its end."""

    claims = frozenset({"translation_invariant", "pairwise"})

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(DIMS.heads, 513))

    def logit_bias(self, positions: Positions) -> Bias:
        """Of a table of distances on either side."""
        table = self.table.to(torch.promote_types(self.table.dtype, torch.float32))
        return DistanceBias(lambda distance: table[:, distance.abs()], positions)
