"""A block of queries at a time, formed again for the backward pass: equal to the reference, for everything it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions

Close = Callable[..., None]
HEADS, DIM = 4, 32
SPECS = [
    "fire(threshold=20)",
    "cope",
    "shaw",
    "transformer_xl",
    "deberta",
    "dape(kerple)",
    "dape(randomized(kerple))",
    "stick_breaking",
    "alibi + t5",
    "cope + alibi",
    "fox",
    "rotary",
    "window(window=30)",
]


def holes() -> Tensor:
    mask = torch.ones(2, 130, dtype=torch.bool)
    mask[0, :57] = False
    mask[1, 120:] = False
    return mask


POSITIONS: dict[str, Callable[[], Positions]] = {
    "1": lambda: Positions.sequence(1),
    "127": lambda: Positions.sequence(127),
    "128": lambda: Positions.sequence(128),
    "129": lambda: Positions.sequence(129),
    "90 new of 130": lambda: Positions.step(40, 90),
    "padded": lambda: Positions.padded(holes()),
    "packed": lambda: Positions.packed([3, 60, 0, 67]),
    "an order of its own": lambda: Positions(
        torch.arange(100), torch.arange(100), q_order=torch.arange(100), k_order=torch.arange(100).flip(0)
    ),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few queries, so that small tests meet several of them."""
    monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", 2 * HEADS * 129 * 30)
    monkeypatch.setattr(sys.modules["lengthwise.attention.tiles"], "_PAIRS", 2 * HEADS * 30 * 60)


def build(spec: str) -> nn.Module:
    torch.manual_seed(1)
    encoding = lw.build(spec, lw.Dims(dim=DIM, heads=HEADS))
    for parameter in encoding.parameters():
        nn.init.normal_(parameter, std=0.3)
    return encoding


def run(backend: str, encoding: nn.Module, positions: Positions, kv_heads: int = 2) -> list[Tensor]:
    """Output, and gradients of q, k, v and all parameters."""
    generator = torch.Generator().manual_seed(0)
    queries, keys = positions.q_length, positions.k_length
    shapes = ((2, HEADS, queries, 8), (2, kv_heads, keys, 8), (2, kv_heads, keys, 8))
    q, k, v = (torch.randn(shape, generator=generator).requires_grad_() for shape in shapes)
    hidden = torch.randn(2, queries, DIM, generator=generator)
    out = lw.attention(q, k, v, encoding, positions, backend=backend, hidden=hidden)
    learned = [parameter for parameter in encoding.parameters() if parameter.requires_grad]
    grads = torch.autograd.grad(out, [q, k, v, *learned], torch.randn(out.shape, generator=generator))
    with torch.no_grad():
        again = lw.attention(q, k, v, encoding, positions, backend=backend, hidden=hidden)
    torch.testing.assert_close(again, out)
    return [out.detach(), *grads]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("where", POSITIONS)
def test_outputs_and_gradients_are_those_of_the_reference(spec: str, where: str, close: Close) -> None:
    encoding, positions = build(spec), POSITIONS[where]()
    if spec == "fox" and positions.q_length != positions.k_length:
        pytest.skip("it reads the hidden states of all tokens, or the state of those before")
    for fast, right in zip(run("blocks", encoding, positions), run("reference", encoding, positions), strict=True):
        close(fast, right, times=4 * max(1.0, float(right.abs().max())))


def test_what_it_can_not_take_is_told() -> None:
    q = torch.zeros(1, HEADS, 9, 8)
    with pytest.raises(lw.BackendRefused, match="can't be parted"):
        lw.attention(q, q, q, build("path"), hidden=torch.zeros(1, 9, DIM), backend="blocks")
    with pytest.raises(lw.BackendRefused, match="dropout"):
        lw.attention(q, q, q, build("shaw"), backend="blocks", dropout=0.1)


def test_long_attention_without_a_structure_goes_by_blocks() -> None:
    q = torch.zeros(1, HEADS, 300, 8)
    for spec in ("fire", "cope", "dape(alibi)"):
        assert lw.explain_attention(q, q, q, build(spec)).chosen == "blocks"
    assert lw.explain_attention(q[:, :, :1], q, q, build("fire")).chosen == "sdpa"


def test_memory_grows_with_the_length_times_a_block_and_not_with_its_square() -> None:
    # One head's logits of 300 x 300 pairs are 360 kB: none as large may be kept for the backward pass.
    encoding, kept = build("fire"), []
    q = torch.randn(1, HEADS, 300, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        lw.attention(q, q, q, encoding, backend="blocks")
    assert max(kept) <= HEADS * 300 * 8
