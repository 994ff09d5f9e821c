"""Slow checks: compilers and exporters follow the encoding, and give its numbers."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.positions import Positions
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import output
from lengthwise.testing.verdict import Broken, NotApplicable, agree

_LENGTHS = (7, 9, 12, 17, 23)
_GRAPHS = 2
_BACKENDS = ("reference", "auto")


@check(
    "torch.compile(fullgraph=True) makes at most two graphs over five lengths",
    cause="Python that branches on a value of a tensor, or a length that is read as a number",
    speed="slow",
)
def compiles_whole(subject: Subject) -> None:
    """Traced and run as it was traced; with equal numbers."""
    from torch._dynamo import reset
    from torch._dynamo.testing import CompileCounter

    lengths = _lengths(subject)
    for backend in _BACKENDS:
        layer, counter = _Layer(Probe(subject, subject.build()), backend), CompileCounter()
        reset()
        try:
            compiled = torch.compile(layer, fullgraph=True, backend=counter)
            with torch.no_grad():
                for length in lengths:
                    x, positions = layer.probe.inputs(1, length), subject.sequence(length)
                    what = f"compiled, {length} tokens, backend {backend}"
                    agree(compiled(x, positions), layer(x, positions), output(torch.float32), what)
            if counter.frame_count > _GRAPHS:
                raise Broken(
                    f"{counter.frame_count} graphs for lengths {lengths} with backend {backend}, "
                    f"where {_GRAPHS} are allowed"
                )
        finally:
            reset()


@check(
    "torch.export with a dynamic length gives what eager gives",
    cause="a length that is read as a number, or a table of one length",
    speed="slow",
)
def exports_dynamic(subject: Subject) -> None:
    """Exported at one length, run at others."""
    lengths = _lengths(subject)
    length = torch.export.Dim("length", min=2, max=subject.fits(1024))
    positions = subject.sequence(lengths[1])
    axis = 0 if positions.q.dim() == 1 else 1
    shapes: Any = {"x": {1: length}, "positions": [{axis: length}, {axis: length}, None, None, None, None]}
    for backend in _BACKENDS:
        layer = _Layer(Probe(subject, subject.build()), backend)
        inputs = (layer.probe.inputs(1, lengths[1]), positions)
        program = torch.export.export(layer, inputs, dynamic_shapes=shapes, strict=False).module()
        with torch.no_grad():
            for number in lengths:
                x, here = layer.probe.inputs(1, number), subject.sequence(number)
                what = f"exported, {number} tokens, backend {backend}"
                agree(program(x, here), layer(x, here), output(torch.float32), what)


@check(
    "what torch.compile builds with its own compiler gives what eager gives",
    cause="an operator whose fake form says another dtype, shape or stride than it gives",
    speed="slow",
    once=True,
)
def inductor_equals_eager(subject: Subject) -> None:
    """Compiled for one length, and then for any."""
    from torch._dynamo import reset
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise NotApplicable("no compiler: torch.compile needs one of C++") from None
    first, *_, last = _lengths(subject)
    layer = _Layer(Probe(subject, subject.build()), "auto")
    reset()
    try:
        compiled = torch.compile(layer, fullgraph=True, backend="inductor")
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # the compiler's own, where warnings are errors
            for length in (first, last):
                x, positions = layer.probe.inputs(1, length), subject.sequence(length)
                agree(compiled(x, positions), layer(x, positions), output(torch.float32), f"inductor, {length} tokens")
    finally:
        reset()


class _Layer(nn.Module):
    """A probe as a module, for compilers."""

    def __init__(self, probe: Probe, backend: str) -> None:
        super().__init__()
        self.encoding, self.probe, self.backend = probe.encoding, probe, backend

    def forward(self, x: Tensor, positions: Positions) -> Tensor:
        return self.probe(x, positions, backend=self.backend)


def _lengths(subject: Subject) -> list[int]:
    lengths = [length for length in _LENGTHS if subject.fits(length) == length]
    if len(lengths) < 2:
        raise NotApplicable(f"its table of {subject.max_position} is too short for several lengths")
    return lengths
