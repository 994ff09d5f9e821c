from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import Learned, PositionOutOfRange, Positions


@pytest.fixture
def learned() -> Learned:
    return Learned(dim=4, max_length=6)


def added(learned: Learned, positions: Positions, rows: int = 1) -> Tensor:
    with torch.no_grad():
        return learned.embed_positions(torch.zeros(rows, positions.q_length, 4), positions)


def test_each_token_gets_the_row_of_its_own_position(learned: Learned) -> None:
    E = learned.table.detach()
    assert torch.equal(added(learned, Positions.sequence(6), 2), E.expand(2, 6, 4))
    assert torch.equal(added(learned, Positions.step(3, 2)), E[None, 3:5])
    assert torch.equal(added(learned, Positions.packed([2, 6, 1])), E[None, [0, 1, 0, 1, 2, 3, 4, 5, 0]])
    mask = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    padded = added(learned, Positions.padded(mask), 2)
    assert torch.equal(padded[0, 2:], E[:2])
    assert torch.equal(padded[1], E[:4])
    deep = Positions(torch.arange(3).view(1, 3, 1), torch.arange(3).view(1, 3, 1))
    assert torch.equal(added(learned, deep), E[None, :3])


FAR: dict[str, Callable[[], Positions]] = {
    "sequence": lambda: Positions.sequence(7),
    "step": lambda: Positions.step(6),
    "packed": lambda: Positions.packed([1, 7]),
    "padded": lambda: Positions.padded(torch.tensor([[0, 1, 1, 1, 1, 1, 1, 1]])),
    "own": lambda: Positions(torch.tensor([6]), torch.tensor([6])),
}


@pytest.mark.parametrize("name", FAR)
def test_a_position_past_the_table_is_an_error_that_names_the_limit_and_the_ways_out(
    learned: Learned, name: str
) -> None:
    with pytest.raises(PositionOutOfRange) as caught:
        added(learned, FAR[name]())
    message = str(caught.value)
    for part in ("position 6 is outside the learned table of 6 positions (0 to 5)", "larger max_length", "rotary"):
        assert part in message
    assert "\n" not in message


def test_positions_inside_the_table_are_taken_though_the_keys_are_more(learned: Learned) -> None:
    left_padded = Positions.padded(torch.tensor([[0] * 20 + [1] * 6]))
    assert torch.equal(added(learned, left_padded)[0, 20:], learned.table)
    assert added(learned, Positions.sequence(0)).shape == (1, 0, 4)
    assert added(learned, Positions.step(9, 0)).shape == (1, 0, 4)


def test_negative_positions_and_fractions_are_refused(learned: Learned) -> None:
    below = torch.tensor([0, -1])
    with pytest.raises(PositionOutOfRange, match="position -1 is outside the learned table"):
        added(learned, Positions(below, below))
    half = torch.tensor([0.0, 0.5])
    with pytest.raises(lw.InvalidArgument, match=r"rows for whole positions only.*interpolate the table"):
        added(learned, Positions(half, half))


def test_a_plain_sequence_past_the_table_is_told_without_reading_a_tensor() -> None:
    learned = Learned(dim=4, max_length=6).to("meta")
    with pytest.raises(PositionOutOfRange, match="position 6"):
        learned.embed_positions(torch.zeros(1, 7, 4, device="meta"), Positions.sequence(7, device="meta"))


def test_the_table_starts_normal_and_gets_the_gradient_of_its_rows() -> None:
    torch.manual_seed(0)
    table = Learned(dim=100, max_length=100).table
    assert table.std().item() == pytest.approx(0.02, rel=0.05)
    learned = Learned(dim=2, max_length=3).double()
    learned.embed_positions(torch.zeros(2, 4, 2).double(), Positions.packed([2, 2])).sum().backward()
    assert learned.table.grad is not None
    assert learned.table.grad.tolist() == [[4.0, 4.0], [4.0, 4.0], [0.0, 0.0]]


@pytest.mark.parametrize(("dim", "max_length"), [(0, 4), (4, 0), (-1, 4)])
def test_a_table_of_nothing_is_refused(dim: int, max_length: int) -> None:
    with pytest.raises(lw.InvalidArgument, match="Learned needs dim and max_length of at least 1"):
        Learned(dim, max_length)
