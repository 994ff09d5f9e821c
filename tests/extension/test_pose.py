"""Positions with skips."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.extension import PoSE


def drawn(method: PoSE, positions: lw.Positions, seed: int) -> Tensor:
    encoding = lw.extend(lw.Rotary(8), method)
    generator = torch.Generator().manual_seed(seed)
    return lw.prepare(encoding, positions, generator=generator, training=True).positions.q


@pytest.mark.parametrize("chunks", [2, 3, 5])
def test_positions_rise_start_at_zero_stay_below_the_target_and_skip_at_most_between_chunks(chunks: int) -> None:
    for seed in range(40):
        place = drawn(PoSE(60, chunks), lw.Positions.sequence(12), seed)
        steps = place.diff()
        assert place[0] == 0
        assert int(steps.min()) >= 1
        assert int(place[-1]) < 60
        assert int((steps > 1).sum()) <= chunks - 1


def test_two_chunks_are_drawn_as_the_published_code_draws_them() -> None:
    # n = 5, target 7: the first chunk has 1 to 3 tokens and the skip is 0 to 2, each evenly.
    seen: dict[tuple[int, ...], int] = {}
    for seed in range(900):
        place = drawn(PoSE(7), lw.Positions.sequence(5), seed)
        key = tuple(place.tolist())
        seen[key] = seen.get(key, 0) + 1
    expected = {tuple(p if p < first else p + skip for p in range(5)) for first in (1, 2, 3) for skip in (0, 1, 2)}
    assert set(seen) == expected
    skipping = [count for place, count in seen.items() if place != (0, 1, 2, 3, 4)]
    assert min(skipping) > 60  # 900 / 9 = 100, standard deviation 9
    assert max(skipping) < 140


def test_outside_of_training_positions_are_as_given() -> None:
    at = lw.Positions.sequence(9)
    plain = lw.Rotary(8)
    longer = lw.extend(plain, PoSE(90))
    ready = lw.prepare(longer, at)
    assert ready.positions is at
    assert lw.claims(longer) == lw.claims(plain)
    assert longer.cached_keys == "rotated"


def test_a_seed_decides_the_draw_and_seeds_differ() -> None:
    at = lw.Positions.sequence(20)
    assert torch.equal(drawn(PoSE(500), at, 4), drawn(PoSE(500), at, 4))
    assert not torch.equal(drawn(PoSE(500), at, 4), drawn(PoSE(500), at, 5))


def test_rows_with_positions_of_their_own_have_draws_of_their_own_and_padding_does_not_matter() -> None:
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [1] * 8, [1] * 8])
    at = lw.Positions.padded(mask)
    place = drawn(PoSE(400), at, 0)
    assert lw.extend(lw.Rotary(8), PoSE(400)).draws_each_row
    assert not torch.equal(place[1], place[2])
    assert int(place[0, 3]) == 0
    assert bool((place[0, 3:].diff() > 0).all())
    assert int(place.max()) < 400


def test_queries_and_keys_of_a_step_share_the_draw() -> None:
    encoding = lw.extend(lw.Rotary(8), PoSE(100))
    at = lw.Positions.step(5, new=3)
    moved = lw.prepare(encoding, at, generator=torch.Generator().manual_seed(1), training=True).positions
    assert torch.equal(moved.q, moved.k[5:])
    assert not torch.equal(moved.k, at.k)


def test_a_sequence_as_long_as_the_target_stays_as_it_is() -> None:
    for seed in range(5):
        assert torch.equal(drawn(PoSE(9), lw.Positions.sequence(9), seed), torch.arange(9))
    assert drawn(PoSE(9), lw.Positions.sequence(0), 0).numel() == 0
    assert drawn(PoSE(9, chunks=4), lw.Positions.sequence(1), 0).tolist() == [0]


def test_interpolation_makes_the_positions_of_pose_fractions_of_the_trained_range() -> None:
    encoding = lw.build("rotary + interpolate(factor=4) + pose(target_length=400)", lw.Dims(dim=32, heads=4))
    ready = lw.prepare(encoding, lw.Positions.sequence(10), generator=torch.Generator().manual_seed(2), training=True)
    plain = lw.build("rotary", lw.Dims(dim=32, heads=4))
    near = ready.positions.replace(q=ready.positions.q / 4, k=ready.positions.k / 4)
    q = torch.randn(1, 4, 10, 8)
    assert ready.rotation is not None
    torch.testing.assert_close(ready.rotation.q(q), plain.rotation(near).q(q), rtol=0, atol=1e-6)


def test_bad_settings_and_sequences_say_what_to_do() -> None:
    with pytest.raises(lw.InvalidArgument, match="at least 2 of them, not 1"):
        PoSE(10, chunks=1)
    with pytest.raises(lw.InvalidArgument, match="at least 1, not 0"):
        PoSE(0)
    with pytest.raises(lw.InvalidArgument, match="resample the table first, or take target_length=16"):
        lw.extend(lw.Learned(8, 16), PoSE(17))
    with pytest.raises(lw.InvalidArgument, match="12 positions is longer than target_length 10"):
        drawn(PoSE(10), lw.Positions.sequence(12), 0)
    fractions = lw.Positions(torch.arange(3.0), torch.arange(3.0))
    with pytest.raises(lw.InvalidArgument, match="let PoSE act first"):
        drawn(PoSE(10), fractions, 0)
    with pytest.raises(lw.InvalidArgument, match="PoSE can't extend Sinusoidal2D: it moves positions of one axis"):
        lw.extend(lw.build("sinusoidal2d", lw.Dims(dim=32, heads=4)), PoSE(10))
