"""Clamped and randomized positions."""

from __future__ import annotations

import pytest
import torch

import lengthwise as lw
from lengthwise.extension import Clamp, Randomize

DIMS = lw.Dims(dim=16, heads=4, max_length=16)


def added(encoding: torch.nn.Module, length: int) -> torch.Tensor:
    with torch.no_grad():
        embed = lw.prepare(encoding, lw.Positions.sequence(length)).embed
        assert embed is not None
        return embed(torch.zeros(1, length, 16))[0]


def test_past_a_clamp_every_token_gets_the_vector_of_the_last_one() -> None:
    learned = lw.build("learned", DIMS)
    rows = added(lw.extend(learned, Clamp(length=16)), 40)
    assert torch.equal(rows[:16], learned.table)
    assert torch.equal(rows[16:], learned.table[-1:].expand(24, -1))
    assert torch.equal(added(lw.extend(learned, Clamp(length=4)), 6)[3:], learned.table[3:4].expand(3, -1))


def test_a_clamped_rotation_turns_all_later_tokens_as_the_last_one() -> None:
    q = torch.randn(1, 1, 1, 8).expand(1, 1, 12, 8)
    turned = lw.extend(lw.Rotary(8), Clamp(5)).rotation(lw.Positions.sequence(12)).q(q)
    assert torch.equal(turned[:, :, :5], lw.Rotary(8).rotation(lw.Positions.sequence(5)).q(q[:, :, :5]))
    assert torch.equal(turned[:, :, 5:], turned[:, :, 4:5].expand(-1, -1, 7, -1))


@pytest.mark.parametrize("spec", ["alibi", "kerple", "t5(max_distance=64)", "sandwich", "t5(bidirectional=True)"])
def test_of_a_bias_of_distance_the_distance_is_clamped(spec: str) -> None:
    plain = lw.build(spec, DIMS)
    place = lw.Positions.sequence(40)
    bias = lw.extend(plain, Clamp(10)).logit_bias(place)
    assert isinstance(bias, lw.DistanceBias)
    index = torch.arange(40)
    distance = (index[:, None] - index).clamp(-9, 9)
    assert torch.equal(bias.dense(), plain.of_distance(distance))


def test_a_clamp_keeps_translation_invariance_where_it_clamps_distances_only() -> None:
    assert "translation_invariant" in lw.claims(lw.extend(lw.ALiBi(4), Clamp(8)))
    rotary = lw.extend(lw.Rotary(8), Clamp(8))
    assert lw.claims(rotary) == {"norm_preserving", "pairwise"}


def test_a_clamped_table_has_no_last_position() -> None:
    learned = lw.build("learned", DIMS)
    assert lw.extend(learned, Clamp(16)).max_position is None
    with pytest.raises(lw.InvalidArgument, match="more positions than the 16 of the table: take length=16"):
        lw.extend(learned, Clamp(17))


def test_a_clamp_changes_nothing_before_its_length() -> None:
    for spec in ("rotary", "alibi"):
        plain = lw.build(spec, DIMS)
        q = torch.randn(1, 4, 9, 4)
        at = lw.Positions.sequence(9)
        longer = lw.extend(plain, Clamp(9))
        assert torch.equal(
            lw.attention(q, q, q, longer, at, backend="reference"),
            lw.attention(q, q, q, plain, at, backend="reference"),
        )


def test_randomized_positions_are_those_of_the_encoding_of_that_name() -> None:
    at = lw.Positions.sequence(6)
    plain = lw.RandomizedPositions(lw.Rotary(8), longest=50, evaluation="given")
    longer = lw.extend(lw.Rotary(8), Randomize(longest=50, evaluation="given"))
    for training in (True, False):
        one, other = (
            lw.prepare(made, at, generator=torch.Generator().manual_seed(3), training=training).positions.q
            for made in (plain, longer)
        )
        assert torch.equal(one, other)


@pytest.mark.parametrize("method", ["randomize(longest=90)", "pose(target_length=90)"])
def test_several_encodings_at_once_get_the_same_drawn_positions(method: str) -> None:
    encoding = lw.build(f"rotary + alibi + {method}", DIMS)
    ready = lw.prepare(encoding, lw.Positions.sequence(7), generator=torch.Generator().manual_seed(0), training=True)
    assert not torch.equal(ready.positions.q, torch.arange(7))
    assert ready.bias is not None
    assert ready.rotation is not None
    plain = lw.build("rotary + alibi", DIMS)
    assert torch.equal(ready.bias.dense(), plain.logit_bias(ready.positions).dense())
    q = torch.randn(1, 4, 7, 4)
    assert torch.equal(ready.rotation.q(q), plain.rotation(ready.positions).q(q))


def test_bad_settings_say_what_to_do() -> None:
    with pytest.raises(lw.InvalidArgument, match="at least 1, and is 0"):
        Clamp(0)
    with pytest.raises(lw.InvalidArgument, match="longest must be at least 1"):
        Randomize(0)
    with pytest.raises(lw.InvalidArgument, match="did you mean 'spread'"):
        Randomize(5, evaluation="spred")  # pyright: ignore[reportArgumentType]
    with pytest.raises(lw.InvalidArgument, match="past the 16 positions"):
        lw.extend(lw.build("learned", DIMS), Randomize(17))
    with pytest.raises(lw.InvalidArgument, match="Randomize can't extend NoPE: it changes positions"):
        lw.extend(lw.NoPE(), Randomize(17))
