"""Compiles and exports attention with every encoding; run by test_compile.py in a process without shape checks.

Prints a line for each case: its name, and "ok" or what went wrong.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions

# One of each kind; the conformance kit asks all of them.
SPECS = ("none", "learned", "sinusoidal", "rotary", "alibi", "t5", "fire", "rotary + alibi")
DIMS = lw.Dims(dim=16, heads=2, max_length=32)


class Attend(nn.Module):
    """Embeddings to attention, with all that the encoding does."""

    def __init__(self, spec: str) -> None:
        super().__init__()
        self.encoding = lw.build(spec, DIMS)

    def forward(self, x: Tensor, positions: Positions | None = None) -> Tensor:
        if positions is None:
            positions = Positions.sequence(x.shape[1])
        prepared = lw.prepare(self.encoding, positions)
        x = x if prepared.embed is None else prepared.embed(x)
        q = x.unflatten(-1, (2, 8)).transpose(1, 2)
        return lw.attention(q, q, q, prepared)


def embeddings(length: int) -> Tensor:
    return torch.randn(2, length, 16, generator=torch.Generator().manual_seed(length))


def counted(module: nn.Module) -> tuple[Callable[..., Tensor], list[int]]:
    graphs: list[int] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        graphs.append(1)
        return graph.forward

    return torch.compile(module, fullgraph=True, backend=backend), graphs


def compiles_into_at_most_two_graphs_over_five_lengths(spec: str) -> None:
    module = Attend(spec)
    compiled, graphs = counted(module)
    for length in (9, 5, 12, 7, 20):
        torch.testing.assert_close(compiled(embeddings(length)), module(embeddings(length)), rtol=1e-5, atol=1e-5)
    assert len(graphs) <= 2, f"{len(graphs)} graphs over five lengths"


def takes_positions_as_an_argument_of_one_graph(spec: str) -> None:
    module = Attend(spec)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    mask = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    for positions in (Positions.padded(mask), Positions.packed([2, 4])):
        x = embeddings(6)
        torch.testing.assert_close(compiled(x, positions), module(x, positions), rtol=1e-5, atol=1e-5)


def exports_with_a_length_that_changes(spec: str) -> None:
    module = Attend(spec).eval()
    shapes = {"x": {1: torch.export.Dim("length", min=2, max=30)}}
    program = torch.export.export(module, (embeddings(9),), dynamic_shapes=shapes).module()
    for length in (9, 5, 20):
        torch.testing.assert_close(program(embeddings(length)), module(embeddings(length)), rtol=1e-5, atol=1e-5)


def keeps_the_operator_that_takes_no_memory_of_the_square(spec: str) -> None:
    called: set[str] = set()

    def backend(graph: torch.fx.GraphModule, inputs: list[Tensor]) -> Callable[..., object]:
        called.update(str(node.target) for node in graph.graph.nodes)
        return graph.forward

    module = Attend(spec)
    torch.compile(module, fullgraph=True, backend=backend)(embeddings(9))
    wanted = {"alibi": "lengthwise.toeplitz", "t5": "lengthwise.toeplitz", "fire": "lengthwise.tiles"}.get(spec)
    operators = [name for name in called if name.startswith("lengthwise.")]
    assert wanted is None or [name.removesuffix(".default") for name in operators] == [wanted], called


def differentiates_by_transforms_as_without_a_compiler(spec: str) -> None:
    module = Attend(spec)
    x = embeddings(9)

    def summed(x: Tensor) -> Tensor:
        return module(x).square().sum()

    transforms = [torch.func.grad(summed)]
    if any(name in spec for name in ("alibi", "t5", "fire")):  # PyTorch's kernel without a bias has no forward mode
        transforms.append(lambda x: torch.func.jvp(summed, (x,), (torch.ones_like(x),))[1])
    for transform in transforms:
        wanted = transform(x)  # first: PyTorch loads what it needs, which it can't while it compiles
        torch.testing.assert_close(torch.compile(transform, backend="aot_eager")(x), wanted, rtol=1e-4, atol=1e-4)


CASES = (
    keeps_the_operator_that_takes_no_memory_of_the_square,
    differentiates_by_transforms_as_without_a_compiler,
    compiles_into_at_most_two_graphs_over_five_lengths,
    takes_positions_as_an_argument_of_one_graph,
    exports_with_a_length_that_changes,
)


def main() -> None:
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="`torch.jit", category=DeprecationWarning)  # PyTorch's own, in jvp
    for case in CASES:
        for spec in SPECS:
            torch._dynamo.reset()
            try:
                with torch.no_grad():
                    case(spec)
                outcome = "ok"
            except Exception:
                outcome = repr(traceback.format_exc()[-1500:])
            print(f"{case.__name__}\t{spec}\t{outcome}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
