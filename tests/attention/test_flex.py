"""FlexAttention: the same numbers as the reference, by functions of two indices and blocks without a table of pairs."""

from __future__ import annotations

import copy
import shutil

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import lengthwise as lw
from lengthwise import Positions
from lengthwise.attention import flex

LENGTH = 300
PADDED = torch.ones(2, LENGTH, dtype=torch.bool)
PADDED[0, :150] = False
PADDED[1, -40:] = False
POSITIONS = {
    "sequence": Positions.sequence(LENGTH),
    "bidirectional": Positions.sequence(LENGTH, causal=False),
    "some last ones": Positions.step(LENGTH - 140, 140),
    "the last one": Positions.step(LENGTH - 1),
    "padded": Positions.padded(PADDED),
    "the last of padded ones": Positions.padded(PADDED, new=9),
    "packed": Positions.packed([128, 130, LENGTH - 258]),
}


def inputs(positions: Positions) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, positions.q_length, 16, generator=generator)
    k, v = torch.randn(2, 2, 2, positions.k_length, 16, generator=generator)
    return q, k, v


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flex, "compiled", lambda: flex_attention)


def windowed(positions: Positions, window: int) -> Positions:
    """Without withdrawing the promise, as `replace` would."""
    object.__setattr__(positions, "window", window)
    return positions


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("spec", ["none", "alibi", "t5(bidirectional=True)", "rotary + kerple"])
def test_it_gives_the_numbers_of_the_reference(spec: str, kind: str) -> None:
    positions = POSITIONS[kind]
    encoding = lw.build(spec, lw.Dims(dim=64, heads=4))
    with torch.no_grad():
        out = lw.attention(*inputs(positions), encoding, positions, backend="flex")
        expected = lw.attention(*inputs(positions), encoding, positions, backend="reference")
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", [None, 0, 1, 100, 127, 128, 200])
@pytest.mark.parametrize("kind", POSITIONS)
def test_its_blocks_are_those_of_a_table_of_all_pairs(kind: str, window: int | None) -> None:
    positions = copy.copy(POSITIONS[kind])
    if window is not None:
        positions = windowed(positions, window)
    past = torch.tensor(positions.k_length - positions.q_length)
    mask = flex._mask(positions, past)
    if mask is None:
        return
    ours = flex._blocks(positions, mask)
    batch = 1 if positions.q_segment is None else positions.q_segment.shape[0]
    theirs = create_block_mask(mask, batch, None, positions.q_length, positions.k_length, device="cpu")
    some, some_of_theirs = (held(blocks, partial=True) | held(blocks, partial=False) for blocks in (ours, theirs))
    assert (some | ~some_of_theirs).all()  # none is left out
    assert (held(theirs, partial=False) | ~held(ours, partial=False)).all()  # none is called whole that is not
    if positions.q_segment is None:
        assert torch.equal(some, some_of_theirs)
        assert torch.equal(held(ours, partial=False), held(theirs, partial=False))


def held(blocks: object, partial: bool) -> Tensor:
    """From lists to a table `[batch, blocks of queries, blocks of keys]`."""
    number, index = (
        (blocks.kv_num_blocks, blocks.kv_indices) if partial else (blocks.full_kv_num_blocks, blocks.full_kv_indices)
    )
    rank = torch.arange(index.shape[-1])
    table = torch.zeros(index.shape, dtype=torch.bool)
    table.scatter_(-1, index.long(), rank < number.unsqueeze(-1))
    return table[:, 0]


def test_what_it_can_not_do_is_refused_and_it_is_never_chosen_by_itself() -> None:
    q, k, v = inputs(POSITIONS["sequence"])
    with pytest.raises(lw.BackendRefused, match="no backward pass"):
        lw.attention(q, k, v, lw.ALiBi(4), backend="flex")
    with torch.no_grad():
        assert lw.explain_attention(q, k, v, lw.ALiBi(4)).chosen != "flex"
        with pytest.raises(lw.BackendRefused, match="no function of distance alone"):
            lw.attention(q, k, v, lw.FIRE(4), backend="flex")
        with pytest.raises(lw.BackendRefused, match="no float64"):
            lw.attention(q.double(), k.double(), v.double(), lw.ALiBi(4), backend="flex")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.skipif(shutil.which("g++") is None, reason="PyTorch compiles for a CPU with g++")
def test_compiled_it_has_at_most_two_graphs_for_six_lengths() -> None:
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    flex.compiled.cache_clear()
    counters.clear()
    with torch.no_grad():
        for length in (256, 300, 384, 1000, 640, 777):
            positions = Positions.sequence(length)
            encoding = lw.T5Bias(4)
            out = lw.attention(*inputs(positions), encoding, positions, backend="flex")
            expected = lw.attention(*inputs(positions), encoding, positions)
            torch.testing.assert_close(out, expected, rtol=1e-3, atol=1e-4)
    assert counters["stats"]["unique_graphs"] <= 2
