"""Faults of far positions and narrow dtypes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias, DistanceBias, PairBias
from lengthwise.positions import Positions
from lengthwise.query_key import QueryKeyMap
from lengthwise.rotation import Rotation
from lengthwise.testing.broken.registry import DIMS, angles, broken, frequencies, penalty, slopes, wave


@broken("positions in bfloat16: 256 and 257 are one", "positions_told_apart")
class NarrowPositions(nn.Module):
    """Rotary, as several packages had it."""

    claims = frozenset({"norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """Angles of rounded positions, and the queries' dtype does not matter."""
        q, k = positions.one_axis()
        return Rotation.of_angles(angles(q.bfloat16()), angles(k.bfloat16()))


@broken("a module in bfloat16 counts positions in bfloat16", "positions_told_apart", "finite_far")
class PositionsInItsDtype(nn.Module):
    """Sinusoids of positions in the dtype of a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(DIMS.dim // 2))

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Right in float32 only."""
        positions.check_tokens(x)
        place = positions.one_axis()[0]
        place = place if self.scale.dtype == torch.float64 else place.to(self.scale.dtype)
        turned = place.double().unsqueeze(-1) * frequencies(dims=DIMS.dim) * self.scale.double()
        return x + torch.cat((turned.sin(), turned.cos()), dim=-1).to(x.dtype)


@broken("key-only ALiBi in bfloat16: the last keys share one bias", "positions_told_apart", "finite_far")
class NarrowKeyBias(nn.Module):
    """Slope times key position, cast before the distance is formed."""

    def __init__(self) -> None:
        super().__init__()
        self.slopes = nn.Parameter(slopes())

    def logit_bias(self, positions: Positions) -> Bias:
        """Of the key alone."""
        wide = self.slopes.dtype in (torch.float32, torch.float64)

        def of_pair(q: Tensor, k: Tensor) -> Tensor:
            place = k.double() if wide else k.to(self.slopes.dtype).double()
            values = self.slopes.double().view(-1, *[1] * k.dim()) * place
            return values.float().expand(-1, *torch.broadcast_shapes(q.shape, k.shape))

        return PairBias(of_pair, positions)


@broken("frequencies are a buffer, which .to(bfloat16) narrows", "angles_exact")
class NarrowedFrequencies(nn.Module):
    """A persistent buffer: right, until the model is moved to bfloat16."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", frequencies(torch.float32))

    def rotation(self, positions: Positions) -> Rotation:
        """Angles in float64, of narrow frequencies."""
        q, k = (place.double().unsqueeze(-1) * self.get_buffer("inv_freq").double() for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken(
    "angles are a matrix product, which autocast narrows", "angles_exact", "far_equals_near", "positions_told_apart"
)
class AutocastAngles(nn.Module):
    """Right, until it runs under autocast."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """`positions @ frequencies`."""
        q, k = (place.float().unsqueeze(-1) @ frequencies(torch.float32)[None] for place in positions.one_axis())
        return Rotation.of_angles(q.float(), k.float())


@broken("cosines and sines in bfloat16 keep no norm", "norm_preserving")
class NarrowTables(nn.Module):
    """Tables in the dtype of the model, as a whole."""

    claims = frozenset({"norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """Rounded tables."""
        q, k = positions.one_axis()
        q_cos, q_sin, k_cos, k_sin = (
            f(angles(place)).bfloat16().float() for place in (q, k) for f in (torch.cos, torch.sin)
        )
        return Rotation(q_cos, q_sin, k_cos, k_sin)


@broken("distances are formed in the dtype of the queries", "far_equals_near", "finite_far")
class NarrowDistances(nn.Module):
    """A decay of whole logits, as far as bfloat16 can tell positions apart."""

    claims = frozenset({"translation_invariant", "pairwise"})

    def attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        """Right in float32."""
        q_place, k_place = (place.to(q.dtype) for place in positions.one_axis())
        distance = (q_place.unsqueeze(-1) - k_place.unsqueeze(-2)).abs()
        distance = distance if distance.dim() == 2 else distance.unsqueeze(1)
        return (q @ k.transpose(-1, -2)).to(q.dtype) * scale - distance / 4


@broken("positions in float16 overflow, and infinity less infinity is NaN", "finite_far")
class OverflowingBias(nn.Module):
    """Distances of positions in float16."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Right up to 2048, and NaN past 65504."""

        def of_pair(q: Tensor, k: Tensor) -> Tensor:
            return penalty(q.half().float() - k.half().float())

        return PairBias(of_pair, positions)


@broken(
    "a scale that grows with the position overflows",
    "finite_far",
    "angles_exact",
    "long_step_right",
    "positions_told_apart",
    "backends_agree",
)
class OverflowingScale(nn.Module):
    """xPos without the factor that keeps it in range."""

    def rotation(self, positions: Positions) -> Rotation:
        """Cosines and sines times 1.02^position, and its inverse for keys."""
        q, k = positions.one_axis()
        turned = Rotation.of_angles(angles(q), angles(k))
        q_scale, k_scale = (1.02 ** (sign * place.float().unsqueeze(-1)) for sign, place in ((1, q), (-1, k)))
        return Rotation(turned.q_cos * q_scale, turned.q_sin * q_scale, turned.k_cos * k_scale, turned.k_sin * k_scale)


@dataclass(frozen=True)
class _Scaled:
    inner: Rotation
    rotary_dim: int

    def __call__(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return self.q(q), self.k(k)

    def q(self, x: Tensor) -> Tensor:
        """Rotate and scale all dims."""
        return self.inner.q(x) * 1.1

    def k(self, x: Tensor) -> Tensor:
        """Rotate and scale all dims."""
        return self.inner.k(x) * 1.1


@broken("a scale meant for rotated dims is put on the whole head", "untouched_dims")
class ScalesPassThrough(nn.Module):
    """Partial rotary with an attention factor."""

    rotary_dim = 4

    def rotation(self, positions: Positions) -> QueryKeyMap:
        """Half of the dims rotated, all of them scaled."""
        q, k = positions.one_axis()
        return _Scaled(Rotation.of_angles(angles(q, dims=4), angles(k, dims=4)), self.rotary_dim)


@broken("the fraction is ignored: all dims are rotated", "untouched_dims")
class IgnoresItsFraction(nn.Module):
    """It says that 4 of 8 dims are rotated."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})
    rotary_dim = 4

    def rotation(self, positions: Positions) -> Rotation:
        """All dims rotated."""
        q, k = positions.one_axis()
        return Rotation.of_angles(angles(q), angles(k))


@broken("the bias is bfloat16", "structure_equals_dense", "backends_agree", "empty_rows_zero")
class NarrowBias(nn.Module):
    """Cast where it is made."""

    def logit_bias(self, positions: Positions) -> Bias:
        """In bfloat16."""
        return DistanceBias(lambda distance: wave(distance).bfloat16(), positions)
