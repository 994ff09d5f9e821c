from __future__ import annotations

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import Hierarchical, Learned, PositionOutOfRange, Positions


def published(table: Tensor, alpha: float, place: int) -> Tensor:
    """The published sum over base vectors, in float64."""
    E = table.double()
    u = (E - alpha * E[0]) / (1 - alpha)
    high, low = divmod(place, len(E))
    return alpha * u[high] + (1 - alpha) * u[low]


def test_numbers_worked_by_hand_come_out() -> None:
    encoding = Hierarchical(dim=1, max_length=2, alpha=0.25)
    encoding.load_state_dict({"table": torch.tensor([[4.0], [1.0]])})
    # u = (4, 0): positions 00, 01, 10, 11.
    assert encoding.vectors(torch.arange(4))[:, 0].tolist() == pytest.approx([4.0, 1.0, 3.0, 0.0])


@pytest.mark.parametrize("alpha", [0.4, 0.1, 0.7])
def test_every_position_has_the_published_sum(alpha: float) -> None:
    encoding = Hierarchical(dim=5, max_length=7, alpha=alpha, init_std=1.0)
    place = torch.arange(49)
    with torch.no_grad():
        out = encoding.embed_positions(torch.zeros(1, 49, 5), Positions.sequence(49))[0]
    expected = torch.stack([published(encoding.table.detach(), alpha, p) for p in place.tolist()])
    torch.testing.assert_close(out.double(), expected, rtol=1e-5, atol=1e-5)


def test_below_its_rows_it_is_the_learned_table_to_the_bit() -> None:
    learned = Learned(16, 50)
    encoding = Hierarchical(16, 50)
    encoding.load_state_dict(learned.state_dict())
    x = torch.randn(2, 50, 16, generator=torch.Generator().manual_seed(0))
    positions = Positions.sequence(50)
    assert torch.equal(encoding.embed_positions(x, positions), learned.embed_positions(x, positions))


def test_all_positions_have_vectors_of_their_own() -> None:
    torch.manual_seed(0)
    vectors = Hierarchical(dim=8, max_length=12, init_std=1.0).vectors(torch.arange(144))
    gaps = torch.cdist(vectors, vectors) + torch.eye(144) * 9
    assert gaps.min() > 0.01


def test_rows_that_are_packed_or_stepped_read_their_own_positions() -> None:
    encoding = Hierarchical(dim=4, max_length=3)
    x = torch.zeros(1, 8, 4)
    whole = encoding.embed_positions(x, Positions.sequence(8))
    assert torch.equal(encoding.embed_positions(x[:, :2], Positions.step(6, 2)), whole[:, 6:])
    packed = encoding.embed_positions(x, Positions.packed([5, 3]))
    assert torch.equal(packed, torch.cat((whole[:, :5], whole[:, :3]), 1))


def test_a_position_past_the_square_is_an_error_that_names_the_limit() -> None:
    encoding = Hierarchical(dim=4, max_length=3)
    assert encoding.max_position == 9
    with pytest.raises(PositionOutOfRange, match=r"position 9 is outside the 9 positions \(0 to 8\) that 3 rows serve"):
        encoding.embed_positions(torch.zeros(1, 10, 4), Positions.sequence(10))
    below = torch.tensor([0, -1])
    with pytest.raises(PositionOutOfRange, match="position -1 is outside"):
        encoding.embed_positions(torch.zeros(1, 2, 4), Positions(below, below))
    left_padded = Positions.padded(torch.tensor([[0] * 20 + [1] * 9]))
    assert encoding.embed_positions(torch.zeros(1, 29, 4), left_padded).isfinite().all()
    half = torch.tensor([0.0, 0.5])
    with pytest.raises(lw.InvalidArgument, match="whole positions only"):
        encoding.embed_positions(torch.zeros(1, 2, 4), Positions(half, half))


def test_a_plain_sequence_past_the_square_is_told_without_reading_a_tensor() -> None:
    encoding = Hierarchical(dim=4, max_length=3).to("meta")
    with pytest.raises(PositionOutOfRange, match="position 9"):
        encoding.embed_positions(torch.zeros(1, 10, 4, device="meta"), Positions.sequence(10, device="meta"))
    assert encoding.embed_positions(
        torch.zeros(1, 9, 4, device="meta"), Positions.sequence(9, device="meta")
    ).shape == (1, 9, 4)


def test_the_table_has_its_gradient_in_float64() -> None:
    encoding = Hierarchical(dim=2, max_length=3).double()

    def output(table: Tensor) -> Tensor:
        return torch.func.functional_call(encoding, {"table": table}, (), strict=True)

    encoding.forward = lambda: encoding.vectors(torch.arange(9))
    assert torch.autograd.gradcheck(output, (encoding.table,))


def test_a_table_in_low_precision_is_summed_in_float32() -> None:
    encoding = Hierarchical(dim=8, max_length=5).bfloat16()
    vectors = encoding.vectors(torch.arange(25))
    assert vectors.dtype == torch.float32
    expected = torch.stack([published(encoding.table.detach(), 0.4, p) for p in range(25)])
    torch.testing.assert_close(vectors.double(), expected, rtol=1e-5, atol=1e-6)
    assert encoding.embed_positions(torch.zeros(1, 5, 8).half(), Positions.sequence(5)).dtype == torch.float16


@pytest.mark.parametrize("alpha", [0, 0.5, 1, -0.1, 1.5, float("nan")])
def test_an_alpha_that_merges_positions_is_refused(alpha: float) -> None:
    with pytest.raises(lw.InvalidArgument, match=r"alpha must be above 0 and below 1, and not 0\.5"):
        Hierarchical(4, 3, alpha=alpha)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0, "max_length": 4}, "at least 1, not 0 and 4"),
        ({"dim": 4, "max_length": 0}, "at least 1, not 4 and 0"),
        ({"dim": 4, "max_length": 4, "init_std": -1.0}, r"init_std must be at least 0, not -1\.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        Hierarchical(**settings)
