"""Faults against the contract itself."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lengthwise.bias import Bias, DenseBias, DistanceBias
from lengthwise.positions import Positions
from lengthwise.rotation import Rotation
from lengthwise.testing.broken.registry import DIMS, angles, broken, penalty, sinusoids, slopes


@broken("its method has another name than the contract's, so that nothing calls it", "acts_somewhere")
class MisspeltMethod(nn.Module):
    """`logits_bias` in place of `logit_bias`."""

    def logits_bias(self, positions: Positions) -> Bias:
        """Never called."""
        return DistanceBias(penalty, positions)


@broken("it has parameters and does nothing", "acts_somewhere")
class ActsNowhere(nn.Module):
    """A table that no method reads."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(8, DIMS.dim))


@broken("it maps positions, and no method reads them", "acts_somewhere")
class MapsForNobody(nn.Module):
    """Only `map_positions`."""

    def map_positions(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Positions:
        """Halve the positions."""
        return positions.replace(q=positions.q // 2, k=positions.k // 2)


@broken("a claim is misspelt", "words_known")
class UnknownClaim(nn.Module):
    """`translation_invariance` in place of `translation_invariant`."""

    claims = frozenset({"translation_invariance"})

    def logit_bias(self, positions: Positions) -> Bias:
        """Right."""
        return DistanceBias(penalty, positions)


@broken("an attribute of the contract holds a word of another", "words_known")
class UnknownAxes(nn.Module):
    """`axes` as names."""

    axes = "2"

    def logit_bias(self, positions: Positions) -> Bias:
        """Of the first axis alone."""
        if positions.axes == 2:
            positions = positions.replace(q=positions.q[..., 0], k=positions.k[..., 0])
        return DistanceBias(penalty, positions)


@broken("slopes belong to key heads under grouped-query attention", "shapes_fit", "*")
class SlopesOfKeyHeads(nn.Module):
    """ALiBi with half as many slopes, as MPT's port had."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Of two heads in place of four."""
        return DenseBias(-slopes(2).view(-1, 1, 1) * positions.distance().unsqueeze(-3).float())


@broken("a bias of one head broadcasts over all", "shapes_fit", "*")
class OneHeadBroadcasts(nn.Module):
    """`[1, q, k]`."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Of one head."""
        return DenseBias(-positions.distance().unsqueeze(-3).float())


@broken(
    "queries and keys are taken to be one sequence",
    "shapes_fit",
    "backends_agree",
    "cache_equals_one_pass",
    "long_step_right",
    "structure_equals_dense",
)
class TakesOneSequence(nn.Module):
    """Distances among queries, in cross-attention too."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Square."""
        place = positions.one_axis()[0]
        return DenseBias(penalty(place.unsqueeze(-1) - place.unsqueeze(-2)).movedim(0, -3))


@broken("a float32 table promotes embeddings in low precision", "dtypes_kept", "empty_rows_zero", "finite_far")
class PromotesEmbeddings(nn.Module):
    """The sum is not cast back."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Float32 whatever x is."""
        positions.check_tokens(x)
        return x + sinusoids(positions.one_axis()[0])


@broken("a table is rounded to bfloat16 in every dtype", "dtypes_kept")
class RoundsInEveryDtype(nn.Module):
    """Cast early: parameters in float32 are read through bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(DIMS.heads))

    def logit_bias(self, positions: Positions) -> Bias:
        """With rounded slopes where the module is narrower than float64."""
        narrow = self.scale if self.scale.dtype == torch.float64 else self.scale.bfloat16().to(self.scale.dtype)
        scale = narrow.to(torch.promote_types(narrow.dtype, torch.float32))

        def of_distance(distance: Tensor) -> Tensor:
            return penalty(distance) * scale.view(-1, *[1] * distance.dim())

        return DistanceBias(of_distance, positions)


@broken(
    "embeddings are changed in place",
    "inputs_unchanged",
    "batch_permuted",
    "cache_equals_one_pass",
    "draws_from_generator",
    "dtypes_kept",
    "gradients_exact",
    "meta_then_load",
    "packed_equals_apart",
    "padded_equals_alone",
    "state_keeps_its_shape",
    "long_step_right",
)
class EmbedsInPlace(nn.Module):
    """`x += table`."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """The argument is the result."""
        positions.check_tokens(x)
        return x.add_(sinusoids(positions.one_axis()[0]))


@broken(
    "positions are changed in place",
    "inputs_unchanged",
    "angles_exact",
    "backends_agree",
    "draws_from_generator",
    "meta_then_load",
    "state_keeps_its_shape",
)
class MovesPositions(nn.Module):
    """They end at zero after a call, and relative distances do not tell."""

    def rotation(self, positions: Positions) -> Rotation:
        """Right on the first call."""
        q, k = positions.one_axis()
        turned = Rotation.of_angles(angles(q), angles(k))
        q.sub_(1)
        return turned


@broken("one position broadcasts over all tokens", "mismatch_refused")
class BroadcastsOnePosition(nn.Module):
    """Sinusoids without a look at how many there are."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """The table of one token is added to all."""
        return x + sinusoids(positions.q[..., 0] if positions.axes > 1 else positions.q).to(x.dtype)


@broken("positions of two axes are taken for rows of a batch", "mismatch_refused")
class LooksAtNoAxes(nn.Module):
    """`check_tokens`, which does not look at axes, and then the tensor itself."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Of the first axis, whatever the others say."""
        positions.check_tokens(x)
        return x + sinusoids(positions.q[..., 0] if positions.axes > 1 else positions.q).to(x.dtype)


@broken("rows past the end of a table are clamped in silence", "past_the_table_refused")
class ClampsPastItsTable(nn.Module):
    """The last row serves all later tokens."""

    max_position = 64

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(self.max_position, DIMS.dim))

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Clamped."""
        positions.check_tokens(x)
        place = positions.one_axis()[0].clamp(0, self.max_position - 1)
        return x + nn.functional.embedding(place, self.table).to(x.dtype)
