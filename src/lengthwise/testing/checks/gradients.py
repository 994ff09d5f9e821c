"""Backends and gradients: every road gives the reference's numbers, and gradients are those of the function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lengthwise.attention import attention
from lengthwise.errors import BackendRefused
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe, quick_backends
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import GRADIENT, output, rounding
from lengthwise.testing.verdict import Broken, agree, finite

_EDGES = (1, 2, 127, 128, 129, 270)
"""Lengths around the sizes of blocks, and one longer than a block of queries."""


@check(
    "every backend that takes it gives the reference's numbers and gradients",
    cause="a backend that reads a structure which the bias does not keep",
)
def backends_agree(subject: Subject) -> None:
    """Forward and all gradients, in float32 and bfloat16, with a key head for each query head, for several, for all.

    Whole, windowed, in a step, packed, padded; and at lengths around the sizes of blocks.
    """
    length = subject.fits(12)
    mask = torch.arange(length) >= torch.tensor([[0], [min(3, length - 1)]])
    asked = _whole_and_step(subject, length) | {
        "a window of 3": subject.sequence(length, window=3),
        "padded rows": subject.padded(mask),
    }
    if subject.causal:
        asked["packed rows"] = subject.packed([length - length // 2, length // 2])
    encoding = subject.build()
    each = sorted({subject.heads_of_keys(case) for case in subject.cases})
    fewest, grouped, most = each[0], each[len(each) // 2], each[-1]
    for kv_heads in {grouped, most}:
        _compare(subject, encoding, asked, kv_heads, torch.float32)
    _compare(subject, encoding, asked, fewest, torch.bfloat16)
    if subject.axes == 1:  # some backends go by blocks
        edges = {f"a sequence of {at}": subject.sequence(subject.fits(at)) for at in _EDGES}
        _compare(subject, encoding, edges, most, torch.float32)
        past = _whole_and_step(subject, subject.fits(129))
        _compare(subject, encoding, past, grouped, torch.float32)
        _compare(subject, encoding, past, fewest, torch.bfloat16)


def _whole_and_step(subject: Subject, length: int) -> dict[str, Positions]:
    """All tokens of a sequence, and the last third of them behind a cache."""
    asked = {f"a sequence of {length}": subject.sequence(length)}
    if subject.causal:
        index = torch.arange(length)
        asked[f"a step to {length}"] = subject.part(index[length - length // 3 :], index)
    return asked


def _compare(
    subject: Subject, encoding: nn.Module, asked: dict[str, Positions], kv_heads: int, dtype: torch.dtype
) -> None:
    """Backends against the reference in float32, given the same numbers."""
    probe = Probe(subject, encoding, kv_heads)
    for what, positions in asked.items():
        given = _Given.of(probe, positions, dtype)
        expected = given.run("reference", torch.float32)
        for backend in (name for name in quick_backends() if (name, dtype) != ("reference", torch.float32)):
            try:
                found = given.run(backend, dtype)
            except BackendRefused:
                continue
            for name, value in expected.items():
                allowed = _allowed(name, value, dtype, positions.k_length)
                agree(found[name], value, allowed, f"{name} of {backend} in {str(dtype)[6:]}, {what}")


def _allowed(name: str, value: Tensor, dtype: torch.dtype, length: int) -> float | Tensor:
    """The error allowed of an output or a gradient, of each number relative to 1 + its size.

    In a narrow dtype what is summed is float32 and what is kept is not: a gradient that is the rest of large terms is
    off by roundings of them, of which the largest gradient beside it gives the size; a parameter's sums over all pairs.
    """
    if dtype == torch.float32:
        return 4 * output(dtype, length)
    times = 2 if name in ("output", "gradient of q", "gradient of k", "gradient of v") else 4
    size = value.detach().abs()
    largest = size.amax() if size.numel() else 0.0
    return times * rounding(dtype, length) * (1 + largest) / (1 + size)


@check(
    "gradients are those of the function, for inputs and for every parameter",
    cause="a detached parameter, or a root or logarithm of a distance of zero",
)
def gradients_exact(subject: Subject) -> None:
    """Slopes along fixed directions, against differences of values in float64."""
    length = subject.fits(6)
    encoding = subject.build(torch.float64)
    probe = Probe(subject, encoding, dtype=torch.float64)
    x, positions = probe.inputs(2, length).requires_grad_(), subject.sequence(length)
    parts = {name: part for name, part in encoding.named_parameters() if part.is_floating_point()}
    wrapped = _Called(probe)

    def value(inputs: Tensor, changes: dict[str, Tensor]) -> Tensor:
        own = {f"encoding.{name}": part + changes.get(name, 0.0) for name, part in parts.items()}
        out = functional_call(wrapped, own, (inputs, positions))
        return (out * weights).sum()

    weights = torch.randn(2, subject.dims.heads, length, subject.dims.head_dim, generator=_seed(6)).double()
    zeros = {name: torch.zeros_like(part, requires_grad=True) for name, part in parts.items()}
    total = value(x, zeros)
    wanted: dict[str, Tensor] = {"embeddings": x, **zeros}
    if not total.requires_grad:
        raise Broken("the result has no gradient at all")
    found = _slopes(total, list(wanted.values()))
    for (name, part), slope in zip(wanted.items(), found, strict=True):
        if slope is not None:
            finite(slope, f"the gradient of {name}")
        direction = torch.randn(part.shape, generator=_seed(7)).double()
        analytic = 0.0 if slope is None else float((slope * direction).sum())

        def along(step: float, name: str = name, direction: Tensor = direction) -> float:
            with torch.no_grad():
                if name == "embeddings":
                    return float(value(x + step * direction, {}))
                return float(value(x, {name: step * direction}))

        # Values may be float32 inside, and may have kinks: some step must be neither too short nor too long.
        def differences(steps: tuple[float, ...], along: Callable[[float], float] = along) -> list[float]:
            return [(along(step) - along(-step)) / (2 * step) for step in steps]

        numeric = differences((1e-2, 1e-3, 1e-4))
        scale = max(1e-2, abs(analytic), max(map(abs, numeric)))
        off = min(abs(one - analytic) for one in numeric)
        if not off <= GRADIENT * scale:  # a kink near by; float32 inside may not notice such steps, and then gives 0
            off = min(off, *(abs(one - analytic) for one in differences((1e-5, 1e-6)) if one), off)
        if not off <= GRADIENT * scale:
            raise Broken(
                f"the gradient of {name}: slope {analytic:.6g} and differences {numeric[1]:.6g} along one direction, "
                f"off by {off:.2g} where {GRADIENT * scale:.2g} is allowed"
            )


@dataclass(frozen=True)
class _Given:
    """What every backend is given: all that an encoding prepared, and numbers that a narrow dtype holds exactly."""

    probe: Probe
    prepared: Prepared
    hidden: Tensor
    qkv: tuple[Tensor, ...]
    slope: Tensor

    @classmethod
    def of(cls, probe: Probe, positions: Positions, rounded: torch.dtype) -> _Given:
        x = probe.inputs(2, positions.k_length)
        prepared, hidden = probe.prepare_step(x, positions)
        if prepared.rotation is not None and "hidden" in probe.subject.sites:
            prepared = replace(prepared, rotation=None)  # one that was read covers new keys only; backends never see it
        (_, k, v), q = probe.project(x), probe.project(hidden)[0]
        q, k, v = (part.detach().to(rounded).float() for part in (q, k, v))
        slope = torch.randn(q.shape, generator=_seed(8)).to(rounded).float()
        return cls(probe, prepared, hidden, (q, k, v), slope)

    def run(self, backend: str, dtype: torch.dtype) -> dict[str, Tensor]:
        """The output of attention in a dtype, and all gradients."""
        q, k, v = (part.to(dtype, copy=True).requires_grad_() for part in self.qkv)
        out = attention(q, k, v, self.prepared, backend=backend)
        total = out
        if self.hidden.requires_grad:  # what acts on embeddings learns through them, before any backend
            total = out + self.hidden.sum() * 0
        names = dict(self.probe.encoding.named_parameters())
        wanted = {"q": q, "k": k, "v": v, **{name: part for name, part in names.items() if part.requires_grad}}
        found = _slopes(total, list(wanted.values()), self.slope.to(total.dtype), keep=True)
        zero = torch.zeros(())
        grads = {
            f"gradient of {name}": (zero.expand_as(part) if grad is None else grad)
            for (name, part), grad in zip(wanted.items(), found, strict=True)
        }
        return {"output": out.detach(), **grads}


class _Called(nn.Module):
    """A probe as a module, so that its encoding's parameters can be replaced."""

    def __init__(self, probe: Probe) -> None:
        super().__init__()
        self.encoding, self.probe = probe.encoding, probe

    def forward(self, x: Tensor, positions: Positions) -> Tensor:
        return self.probe(x, positions)


def _seed(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


def _slopes(
    total: Tensor, wanted: list[Tensor], weights: Tensor | None = None, *, keep: bool = False
) -> list[Tensor | None]:
    """Gradients; None where the result does not depend on a part."""
    return list(torch.autograd.grad(total, wanted, weights, allow_unused=True, retain_graph=keep))
