from __future__ import annotations

import math

import pytest
import torch
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

import lengthwise as lw
from lengthwise import SHAPE, Positions, Sinusoidal

# Position 2, dim 8: the formula sheet's numbers for the interleaved form.
SHEET = ".909297427 -.416146837 .198669331 .980066578 .0199986667 .999800007 .00199999867 .999998"


def drawn(encoding: SHAPE, positions: Positions, seed: int = 0) -> Positions:
    generator = torch.Generator().manual_seed(seed)
    return lw.prepare(encoding, positions, generator=generator, training=True).positions


def rows(batch: int, length: int) -> Positions:
    return Positions.padded(torch.ones(batch, length).bool())


def test_position_two_has_the_numbers_of_the_formula_sheet_where_nothing_is_drawn() -> None:
    x = torch.zeros(1, 3, 8)
    expected = torch.tensor([float(number) for number in SHEET.split()])
    for encoding, training in ((SHAPE(8), False), (SHAPE(8, max_shift=0), True)):
        embed = lw.prepare(encoding, Positions.sequence(3), training=training).embed
        torch.testing.assert_close(embed(x)[0, 2], expected, rtol=1e-6, atol=1e-8)


def test_a_shifted_row_is_a_later_part_of_the_table_of_marian() -> None:
    theirs = MarianSinusoidalPositionalEmbedding(600, 16).create_weight().detach()
    generator = torch.Generator().manual_seed(3)
    prepared = lw.prepare(SHAPE(16, variant="half"), rows(4, 9), generator=generator, training=True)
    out = prepared.embed(torch.zeros(4, 9, 16))
    for row, first in zip(out, prepared.positions.q[:, 0].tolist(), strict=True):
        torch.testing.assert_close(row, theirs[first : first + 9])


def test_a_shift_equals_the_formula_in_float64_far_out() -> None:
    positions = drawn(SHAPE(6, max_shift=2**20), rows(3, 2))
    out = SHAPE(6, max_shift=2**20).embed_positions(torch.zeros(3, 2, 6), positions)
    for place, row in zip(positions.q.flatten().tolist(), out.flatten(0, 1).tolist(), strict=True):
        for m in range(3):
            angle = place * 10000 ** (-2 * m / 6)
            assert row[2 * m] == pytest.approx(math.sin(angle), abs=2e-7)
            assert row[2 * m + 1] == pytest.approx(math.cos(angle), abs=2e-7)


def test_all_tokens_of_a_row_share_a_shift_and_rows_have_their_own() -> None:
    positions = drawn(SHAPE(8), rows(64, 5))
    assert torch.equal(positions.q - positions.q[:, :1], torch.arange(5).expand(64, 5))
    assert len(positions.q[:, 0].unique()) > 32
    assert torch.equal(positions.k, positions.q)
    assert not positions.aligned


def test_positions_that_a_batch_shares_have_one_shift() -> None:
    positions = drawn(SHAPE(8), Positions.sequence(5))
    assert positions.q.shape == (5,)
    assert torch.equal(positions.q - positions.q[0], torch.arange(5))
    assert positions.k is positions.q  # what is computed of it is computed once


def test_queries_and_keys_move_together() -> None:
    step = drawn(SHAPE(8), Positions.step(4, 2))
    assert torch.equal(step.q, step.k[4:])
    segments = torch.tensor([[0, 0, 1], [0, 1, 1], [0, 0, 0]])
    place = torch.arange(3)
    apart = drawn(SHAPE(8), Positions(place, place + 10, q_segment=segments, k_segment=segments))
    assert apart.q.shape == apart.k.shape == (3, 3)
    assert bool((apart.k - apart.q == 10).all())


def test_every_shift_up_to_the_largest_is_drawn_equally_often() -> None:
    shifts = drawn(SHAPE(8, max_shift=4), rows(10000, 1)).q[:, 0]
    counts = shifts.bincount().double()
    assert len(counts) == 5
    assert ((counts - 2000).abs() < 5 * math.sqrt(2000)).all()


def test_draws_come_from_the_generator_alone_and_belong_to_training() -> None:
    encoding, positions = SHAPE(8), rows(4, 3)
    torch.manual_seed(0)
    state = torch.random.get_rng_state()
    assert torch.equal(drawn(encoding, positions, 5).q, drawn(encoding, positions, 5).q)
    assert not torch.equal(drawn(encoding, positions, 5).q, drawn(encoding, positions, 6).q)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert lw.prepare(encoding, positions).positions is positions
    assert lw.prepare(encoding, positions, training=True).positions.q.min() >= 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_evaluation_is_sinusoidal_in_every_dtype(dtype: torch.dtype) -> None:
    x = torch.ones(2, 5, 8, dtype=dtype)
    out = SHAPE(8).embed_positions(x, Positions.sequence(5))
    assert out.dtype == dtype
    assert torch.equal(out, Sinusoidal(8).embed_positions(x, Positions.sequence(5)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 7}, "even dim.* not 7"),
        ({"dim": 8, "base": 0}, "base must be above 0, not 0"),
        ({"dim": 8, "variant": "haf"}, r"unknown variant 'haf': did you mean 'half'\?"),
        ({"dim": 8, "max_shift": -1}, r"max_shift must be at least 0 \(no shift at all\), not -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        SHAPE(**settings)
