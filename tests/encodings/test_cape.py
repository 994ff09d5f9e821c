from __future__ import annotations

import math

import pytest
import torch

import lengthwise as lw
from lengthwise import CAPE, Positions

# Position 2, dim 8: the formula sheet's numbers for the interleaved form.
SHEET = ".909297427 -.416146837 .198669331 .980066578 .0199986667 .999800007 .00199999867 .999998"
FULL = {"max_global_shift": 5.0, "max_local_shift": 0.4, "max_scale": 1.5}


def drawn(encoding: CAPE, positions: Positions, seed: int = 0) -> Positions:
    generator = torch.Generator().manual_seed(seed)
    return lw.prepare(encoding, positions, generator=generator, training=True).positions


def rows(batch: int, length: int) -> Positions:
    return Positions.padded(torch.ones(batch, length).bool())


def test_position_two_has_the_numbers_of_the_formula_sheet_where_nothing_is_drawn() -> None:
    expected = torch.tensor([float(number) for number in SHEET.split()])
    for encoding, training in ((CAPE(8, **FULL), False), (CAPE(8), True)):
        prepared = lw.prepare(encoding, Positions.sequence(3), training=training)
        assert prepared.positions.aligned
        torch.testing.assert_close(prepared.embed(torch.zeros(1, 3, 8))[0, 2], expected, rtol=1e-6, atol=1e-8)


def test_mapped_positions_have_sinusoids_with_a_phase_of_a_quarter_turn_on_odd_channels() -> None:
    generator = torch.Generator().manual_seed(1)
    prepared = lw.prepare(CAPE(6, **FULL), rows(3, 4), generator=generator, training=True)
    out = prepared.embed(torch.zeros(3, 4, 6)).flatten(0, 1).tolist()
    for place, row in zip(prepared.positions.q.flatten().tolist(), out, strict=True):
        for c in range(6):
            angle = place * 10000 ** (-2 * (c // 2) / 6) + (c % 2) * math.pi / 2
            assert row[c] == pytest.approx(math.sin(angle), abs=2e-7)


def test_a_global_shift_moves_a_row_as_a_whole_and_evenly_within_its_bounds() -> None:
    q = drawn(CAPE(8, max_global_shift=5.0), rows(4000, 3)).q
    shift = q - torch.arange(3)
    torch.testing.assert_close(shift, shift[:, :1].expand(-1, 3))
    assert shift.min() > -5
    assert shift.max() < 5
    assert shift[:, 0].mean().abs() < 0.25
    assert shift[:, 0].var().item() == pytest.approx(25 / 3, rel=0.1)


def test_a_local_shift_moves_each_token_by_itself_and_keeps_the_order_below_a_half() -> None:
    q = drawn(CAPE(8, max_local_shift=0.49), rows(1000, 4)).q
    shift = q - torch.arange(4)
    assert shift.abs().max() < 0.49
    assert shift.var().item() == pytest.approx(0.49**2 / 3, rel=0.1)
    step = drawn(CAPE(8, max_local_shift=0.49), Positions.step(4, 2))
    assert torch.equal(step.q, step.k[4:])  # a token has one shift, as a query and as a key
    assert torch.corrcoef(shift.T).fill_diagonal_(0).abs().max() < 0.15
    assert (q.diff(dim=1) > 0).all()


def test_a_scale_stretches_a_row_evenly_in_its_logarithm() -> None:
    q = drawn(CAPE(8, max_scale=2.0), rows(4000, 3)).q
    torch.testing.assert_close(q, q[:, 1:2] * torch.arange(3.0, dtype=q.dtype))
    logarithm = q[:, 1].log()
    assert logarithm.abs().max() < math.log(2)
    assert logarithm.mean().abs() < 0.05
    assert logarithm.var().item() == pytest.approx(math.log(2) ** 2 / 3, rel=0.1)


def test_positions_are_centred_and_shifted_before_they_are_stretched() -> None:
    q = drawn(CAPE(8, max_global_shift=1.0, max_scale=3.0, normalize=True), rows(50, 5)).q
    scale = q.diff(dim=1)  # no local shift: steps are the scale
    torch.testing.assert_close(scale, scale[:, :1].expand(-1, 4))
    assert (q[:, 2] / scale[:, 0]).abs().max() <= 1  # the middle token stands at shift * scale


def test_normalized_positions_are_counted_from_the_mean_of_their_own_row_and_document() -> None:
    encoding = CAPE(8, normalize=True)

    def centred(positions: Positions) -> list[object]:
        return lw.prepare(encoding, positions).positions.q.tolist()

    assert centred(Positions.sequence(4)) == [-1.5, -0.5, 0.5, 1.5]
    assert centred(Positions.packed([3, 2])) == [[-1.0, 0.0, 1.0, -0.5, 0.5]]
    mask = torch.tensor([[0, 1, 1, 1], [1, 1, 0, 0]])
    padded = lw.prepare(encoding, Positions.padded(mask)).positions.q
    assert padded[0, 1:].tolist() == [-1.0, 0.0, 1.0]
    assert padded[1, :2].tolist() == [-0.5, 0.5]
    step = lw.prepare(encoding, Positions.step(3, 1)).positions
    assert step.q.tolist() == [1.5]
    assert step.k.tolist() == [-1.5, -0.5, 0.5, 1.5]


def test_positions_that_a_batch_shares_have_one_draw_and_segments_of_rows_their_own() -> None:
    shared = drawn(CAPE(8, **FULL), Positions.sequence(5))
    assert shared.q.shape == (5,)
    assert shared.k is shared.q
    segments = torch.tensor([[0, 0, 1], [0, 1, 1]])
    place = torch.arange(3)
    own = drawn(CAPE(8, **FULL, normalize=True), Positions(place, place, q_segment=segments, k_segment=segments))
    assert own.q.shape == own.k.shape == (2, 3)


def test_draws_come_from_the_generator_alone() -> None:
    encoding, positions = CAPE(8, **FULL), rows(2, 3)
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    assert torch.equal(drawn(encoding, positions, 5).q, drawn(encoding, positions, 5).q)
    assert not torch.equal(drawn(encoding, positions, 5).q, drawn(encoding, positions, 6).q)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert lw.prepare(encoding, positions).positions is positions
    assert lw.prepare(encoding, positions, training=True).positions.q.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_embeddings_keep_their_dtype(dtype: torch.dtype) -> None:
    x = torch.ones(2, 5, 8, dtype=dtype)
    encoding = CAPE(8, normalize=True)
    embed = lw.prepare(encoding, Positions.sequence(5)).embed
    assert embed(x).dtype == dtype


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 7}, "even dim.* not 7"),
        ({"dim": 8, "base": 0}, "base must be above 0, not 0"),
        ({"dim": 8, "max_global_shift": -1.0}, "max_global_shift must be at least 0"),
        ({"dim": 8, "max_local_shift": float("nan")}, "max_local_shift must be at least 0"),
        ({"dim": 8, "max_scale": 0.5}, r"max_scale must be at least 1 .* not 0\.5"),
        ({"dim": 8, "max_scale": float("inf")}, "max_scale must be at least 1 .* not inf"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        CAPE(**settings)
