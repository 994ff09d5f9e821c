"""Faults of gradients, of construction, and of what compilers see."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from lengthwise.attention import Request, backends
from lengthwise.attention.request import Run
from lengthwise.bias import Bias, DenseBias, DistanceBias
from lengthwise.positions import Positions
from lengthwise.rotation import Rotation
from lengthwise.testing.broken.registry import DIMS, angles, broken, frequencies, penalty, sinusoids


@broken("a learned bias gets no gradient", "gradients_exact")
class DetachedTable(nn.Module):
    """Detached on the way to the fast kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(DIMS.heads))

    def logit_bias(self, positions: Positions) -> Bias:
        """Of values without their history."""
        scale = self.scale.detach()
        return DistanceBias(lambda d: penalty(d) * scale.float().view(-1, *[1] * d.dim()), positions)


@broken("the gradient of a root is infinite at distance 0", "gradients_exact", "backends_agree")
class RootOfDistance(nn.Module):
    """sqrt(w |i - j|), whose slope at zero times zero is NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(DIMS.heads))

    def logit_bias(self, positions: Positions) -> Bias:
        """Right forwards."""
        wide = self.scale.to(torch.promote_types(self.scale.dtype, torch.float32))
        return DistanceBias(lambda d: -(wide.view(-1, *[1] * d.dim()) * d.abs()).sqrt(), positions)


@broken("a gradient is written by hand, with the wrong sign", "gradients_exact")
class WrongGradient(nn.Module):
    """Embeddings learn away from their target."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Right forwards."""
        positions.check_tokens(x)
        turned = 2 * x.detach() - x
        return turned + sinusoids(positions.one_axis()[0]).to(x.dtype)


class Detaching:
    """An attention backend that takes a bias as numbers without a history."""

    def refuses(self, request: Request) -> str | None:
        """Only whole logits."""
        return None if request.logits is None else "it computes logits itself"

    def cost(self, request: Request) -> float:
        """Never chosen by itself."""
        return 1000.0

    def plan(self, request: Request) -> Run:
        """The reference, with the bias detached."""
        bias = request.dense_bias()
        values = None if bias is None else DenseBias(bias.detach())
        return backends["reference"].plan(replace(request, bias=values))


@broken("a learned bias gets no gradient through a fast kernel", "backends_agree", backend=Detaching())
class LosesItsGradient(nn.Module):
    """Nothing is wrong with it: the backend beside it is wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(DIMS.heads))

    def logit_bias(self, positions: Positions) -> Bias:
        """Right."""
        scale = self.scale.to(torch.promote_types(self.scale.dtype, torch.float32))
        return DistanceBias(lambda d: penalty(d) * scale.view(-1, *[1] * d.dim()), positions)


class Branching(Detaching):
    """The cheapest attention backend, which looks at numbers to choose its road."""

    def cost(self, request: Request) -> float:
        """Always chosen."""
        return -1.0

    def plan(self, request: Request) -> Run:
        """The reference on both roads."""
        run = backends["reference"].plan(request)

        def branched(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            if float(q.detach().sum()) > 0:
                q = q.contiguous()
            return run(q, k, v)

        return branched


@broken("the attention that is chosen by itself can't be compiled", "compiles_whole", backend=Branching())
class CompilesByReference(nn.Module):
    """Nothing is wrong with it: the backend beside it is wrong."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Right."""
        return DistanceBias(penalty, positions)


@broken("the attention that is chosen by itself can't be exported", "exports_dynamic", backend=Branching())
class ExportsByReference(CompilesByReference):
    """The same, for the other check."""


class FillsEmptyRows(Detaching):
    """An attention backend that gives long rows without a key something."""

    def plan(self, request: Request) -> Run:
        """The reference, and a mean of nothing."""
        run, segment = backends["reference"].plan(request), request.positions.q_segment

        def filled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            out = run(q, k, v)
            if segment is None or request.q_length <= 256:
                return out
            return out + (segment == -1)[:, None, :, None].to(out.dtype)

        return filled


@broken("rows of more than 256 queries that see nothing are no zeros", "empty_rows_zero", backend=FillsEmptyRows())
class EmptyByReference(CompilesByReference):
    """Nothing is wrong with it: the backend beside it is wrong."""


@broken("frequencies are a buffer that is not saved", "meta_then_load", "angles_exact")
class UnsavedFrequencies(nn.Module):
    """Garbage after the meta device and to_empty."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("inv_freq", frequencies(torch.float32), persistent=False)

    def rotation(self, positions: Positions) -> Rotation:
        """Right where the buffer is."""
        q, k = (place.double().unsqueeze(-1) * self.get_buffer("inv_freq").double() for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("frequencies are a plain tensor, left on the meta device", "meta_then_load")
class PlainTensor(nn.Module):
    """Neither a parameter nor a buffer: no move and no load reaches it."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def __init__(self) -> None:
        super().__init__()
        self.inv_freq = frequencies(torch.float64)

    def rotation(self, positions: Positions) -> Rotation:
        """Right where the tensor is."""
        q, k = (place.double().unsqueeze(-1) * self.inv_freq for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("a table of the last length is saved", "state_keeps_its_shape", "inputs_unchanged")
class SavesItsTable(nn.Module):
    """A checkpoint of one length can't be loaded at another."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(0, DIMS.head_dim // 2))

    def rotation(self, positions: Positions) -> Rotation:
        """Right, and kept."""
        q, k = positions.one_axis()
        turned = angles(q)
        self.register_buffer("table", turned)
        return Rotation.of_angles(turned, angles(k))


@broken("Python branches on a value of the positions", "compiles_whole")
class BranchesOnData(nn.Module):
    """A look into the tensor, to choose a road."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """The same on both roads."""
        q, k = positions.one_axis()
        if q.numel() and int(q.max()) > 5:
            return Rotation.of_angles(angles(q), angles(k))
        return Rotation.of_angles(angles(q), angles(k))


@broken("each length is compiled anew", "compiles_whole")
class BuildsByLength(nn.Module):
    """Python counts the tokens one by one."""

    def rotation(self, positions: Positions) -> Rotation:
        """Angle by angle."""
        q, k = (
            torch.stack([angles(place[..., i]) for i in range(place.shape[-1])], dim=-2)
            if place.shape[-1]
            else angles(place)
            for place in positions.one_axis()
        )
        return Rotation.of_angles(q, k)


@torch.library.custom_op("lengthwise_broken::penalty", mutates_args=(), schema="(Tensor distance) -> Tensor")
def _operator(distance: Tensor) -> Tensor:
    """A right bias of distance, its values laid out distance by distance."""
    return penalty(distance).movedim(0, -1).contiguous().movedim(-1, 0)


@_operator.register_fake
def _(distance: Tensor) -> Tensor:
    """Wrong: laid out head by head."""
    return distance.new_empty((DIMS.heads, *distance.shape), dtype=torch.float32)


@broken("an operator of its own says another layout than it gives", "inductor_equals_eager")
class MisdeclaresItsOperator(nn.Module):
    """Eager code and traced graphs look at the tensor; a compiler trusts what was said of it."""

    def logit_bias(self, positions: Positions) -> Bias:
        """Right, in eager code."""
        return DistanceBias(_operator, positions)


@broken("a table is built for the length that was exported", "exports_dynamic")
class BakesItsLength(nn.Module):
    """Sinusoids of a whole table, as long as the first input."""

    def embed_positions(self, x: Tensor, positions: Positions) -> Tensor:
        """Right, where the length is a number."""
        positions.check_tokens(x)
        places = torch.tensor(list(range(positions.k_length)))
        place = positions.one_axis()[0]
        if not positions.aligned:
            return x + sinusoids(place).to(x.dtype)
        return x + sinusoids(places)[place].to(x.dtype)
