"""Claims that do not hold."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias, DenseBias, DistanceBias
from lengthwise.positions import Positions
from lengthwise.rotation import Rotation
from lengthwise.testing.broken.registry import DIMS, angles, broken, penalty, sinusoids, wave


@broken("sums of sinusoids and embeddings are not invariant to shifts", "translation_invariant", "far_equals_near")
class ClaimsInvariance(nn.Module):
    """Sinusoidal, with a claim of rotary."""

    claims = frozenset({"translation_invariant", "pairwise"})

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Right."""
        positions.check_tokens(x)
        return x + sinusoids(positions.one_axis()[0]).to(x.dtype)


@broken("it is invariant where both axes move alike, and only there", "translation_invariant")
class InvariantOnTheDiagonal(nn.Module):
    """What a key gets depends on how far it is from the diagonal of an image."""

    claims = frozenset({"translation_invariant", "pairwise"})
    axes = 2

    def logit_bias(self, positions: Positions) -> Bias:
        """A wave of row less column of the key."""
        q, k = positions.several_axes(2)
        values = wave(k[..., 0] - k[..., 1]).movedim(0, 1).unsqueeze(2)  # [batch, heads, 1, k]
        return DenseBias(values.expand(-1, -1, q.shape[1], -1))


@broken(
    "a bias of logarithms of positions drifts with the position",
    "translation_invariant",
    "angles_exact",
    "far_equals_near",
)
class DriftsSlowly(nn.Module):
    """Angles that bend, which near shifts hardly show."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """Angles of a bent position."""
        q, k = (angles(place) + 1e-6 * place.double().unsqueeze(-1) ** 2 for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("an attention factor changes norms", "norm_preserving")
class ClaimsNorms(nn.Module):
    """Rotary times 1.1."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """Scaled."""
        q, k = positions.one_axis()
        return Rotation.of_angles(angles(q), angles(k), scale=1.1)


@broken("a periodic bias rises again", "nonincreasing")
class ClaimsDecay(nn.Module):
    """A wave of distance."""

    claims = frozenset({"translation_invariant", "nonincreasing", "pairwise"})

    def logit_bias(self, positions: Positions) -> Bias:
        """Right, but for the claim."""
        return DistanceBias(wave, positions)


@broken("keys ahead get a positive bias that grows with distance", "nonincreasing")
class RewardsTheFuture(nn.Module):
    """ALiBi without the absolute value, in bidirectional attention."""

    claims = frozenset({"translation_invariant", "nonincreasing", "pairwise"})

    def logit_bias(self, positions: Positions) -> Bias:
        """`-slope (i - j)`."""
        return DistanceBias(lambda distance: penalty(distance) * distance.sign(), positions)


@broken("keys ahead get half a step more on one side", "nonincreasing")
class LeansToOneSide(nn.Module):
    """ALiBi with 0.5 for keys ahead, as published once."""

    claims = frozenset({"translation_invariant", "nonincreasing", "pairwise"})

    def logit_bias(self, positions: Positions) -> Bias:
        """Not symmetric."""
        return DistanceBias(lambda distance: penalty(distance) - 0.5 * (distance < 0), positions)


@broken("a bias falls with distance, and nearby keys are rewarded", "nonpositive")
class RewardsItsNeighbours(nn.Module):
    """ALiBi as slope times the key's position: another constant in each row, which only softmax drops."""

    claims = frozenset({"nonincreasing", "nonpositive", "pairwise"})
    direction = "causal"

    def logit_bias(self, positions: Positions) -> Bias:
        """`slope j` in place of `-slope (i - j)`."""
        q, k = positions.one_axis()
        return DenseBias(-penalty(k).movedim(0, -2).unsqueeze(-2).expand(*k.shape[:-1], -1, q.shape[-1], -1))


@broken("a bias that hidden states decide rises with distance", "nonincreasing")
class RemembersWhatIsFar(nn.Module):
    """Forgetting attention whose gates add where they should take away."""

    claims = frozenset({"nonincreasing"})
    direction = "causal"

    def read(self, hidden: Tensor, positions: Positions, state: Tensor | None = None) -> tuple[Bias, Tensor]:
        """The running sums the other way round."""
        return running_sums(hidden, positions, state, -1.0)


@broken("the mean position of all keys is subtracted", "pairwise", "long_step_right", "shards_equal_whole")
class ClaimsPairs(nn.Module):
    """What a key gets depends on the other keys."""

    claims = frozenset({"pairwise"})
    direction = "causal"

    def logit_bias(self, positions: Positions) -> Bias:
        """Distance to the mean of the keys that a query sees."""
        k = positions.one_axis()[1].float()
        seen = positions.visible()
        if seen is None:
            seen = torch.ones(positions.q_length, positions.k_length, dtype=torch.bool, device=positions.device)
        k = k.unsqueeze(-2)
        mean = (k * seen).sum(-1, keepdim=True) / seen.sum(-1, keepdim=True).clamp(min=1)
        return DenseBias((k - mean).abs().sin().unsqueeze(-3).repeat_interleave(DIMS.heads, dim=-3))


@broken("what one token holds changes the logits of others", "pairwise")
class ClaimsPairsAndReads(nn.Module):
    """A bias of running sums, with a claim of rotary."""

    claims = frozenset({"pairwise"})
    direction = "causal"

    def read(self, hidden: Tensor, positions: Positions, state: Tensor | None = None) -> tuple[Bias, Tensor]:
        """Forgetting attention: the sum of logarithms of gates between key and query."""
        return running_sums(hidden, positions, state)


def running_sums(
    hidden: Tensor, positions: Positions, state: Tensor | None, factor: float = 1.0
) -> tuple[Bias, Tensor]:
    """A right forgetting bias, and its sums as a state."""
    gates = nn.functional.logsigmoid(hidden[..., : DIMS.heads].float()).transpose(1, 2)
    if positions.q_segment is not None:
        gates = gates.masked_fill((positions.q_segment == -1).unsqueeze(1), 0.0)
    total = gates if state is None else torch.cat((state, gates), dim=-1)
    sums = total.cumsum(-1)
    return DenseBias(factor * (sums[..., -positions.q_length :].unsqueeze(-1) - sums.unsqueeze(-2))), total
