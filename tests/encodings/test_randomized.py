from __future__ import annotations

import copy
import itertools
import pickle
from collections import Counter

import pytest
import torch

import lengthwise as lw
from lengthwise import ALiBi, Learned, NoPE, Positions, RandomizedPositions, Rotary, Sinusoidal, T5Bias


def drawn(encoding: RandomizedPositions, positions: Positions, seed: int = 0) -> Positions:
    generator = torch.Generator().manual_seed(seed)
    return lw.prepare(encoding, positions, generator=generator, training=True).positions


def test_drawn_positions_rise_within_the_range_and_are_shared_by_queries_and_keys() -> None:
    encoding = RandomizedPositions(Rotary(8), longest=50)
    for seed in range(20):
        positions = drawn(encoding, Positions.sequence(30), seed)
        assert positions.q.shape == (30,)
        assert positions.q.dtype == torch.int64
        assert (positions.q.diff() > 0).all()
        assert positions.q[0] >= 0
        assert positions.q[-1] < 50
        assert positions.k is positions.q
        assert not positions.aligned
        step = drawn(encoding, Positions.step(28, 2), seed)
        assert torch.equal(step.k, positions.q)
        assert torch.equal(step.q, positions.q[28:])


def test_every_subset_is_drawn_equally_often() -> None:
    encoding, positions = RandomizedPositions(NoPE(), longest=5), Positions.sequence(2)
    generator = torch.Generator().manual_seed(0)
    seen = Counter(
        tuple(lw.prepare(encoding, positions, generator=generator, training=True).positions.q.tolist())
        for _ in range(2000)
    )
    assert set(seen) == set(itertools.combinations(range(5), 2))
    assert all(abs(count - 200) < 5 * 200**0.5 for count in seen.values())


def test_a_sequence_as_long_as_the_range_stays_as_it_is() -> None:
    positions = drawn(RandomizedPositions(Rotary(8), longest=9), Positions.sequence(9))
    assert torch.equal(positions.q, torch.arange(9))


def test_padded_and_packed_rows_look_up_one_sample() -> None:
    encoding = RandomizedPositions(Rotary(8), longest=40)
    mask = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    padded = drawn(encoding, Positions.padded(mask))
    assert (padded.q[1].diff() > 0).all()
    assert torch.equal(padded.q[0, 2:], padded.q[1, :3])
    # Two documents of 3 draw 3 numbers and not 6: their last reaches as far as that of one alone.
    packed = drawn(encoding, Positions.packed([3, 2, 3]))
    alone = drawn(encoding, Positions.sequence(3))
    assert torch.equal(packed.q[0], alone.q[[0, 1, 2, 0, 1, 0, 1, 2]])


def test_what_a_token_may_see_is_left_as_it_was() -> None:
    positions = Positions.padded(torch.tensor([[0, 1, 1], [1, 1, 1]]))
    assert torch.equal(drawn(RandomizedPositions(Rotary(8)), positions).visible(), positions.visible())


def test_all_that_is_prepared_is_that_of_the_encoding_at_the_drawn_positions() -> None:
    sequence, x = Positions.sequence(6), torch.zeros(2, 6, 8)
    rotation = lw.prepare(RandomizedPositions(Rotary(8)), sequence, generator=torch.manual_seed(3), training=True)
    expected = Rotary(8).rotation(rotation.positions)
    assert torch.equal(rotation.rotation.q_cos, expected.q_cos)
    alibi = lw.prepare(RandomizedPositions(ALiBi(2)), sequence, generator=torch.manual_seed(3), training=True)
    distance = alibi.positions.q[:, None] - alibi.positions.q
    torch.testing.assert_close(alibi.bias.dense()[1], -(2.0**-8) * distance.abs().float())
    embedded = lw.prepare(RandomizedPositions(Sinusoidal(8)), sequence, generator=torch.manual_seed(3), training=True)
    assert torch.equal(embedded.embed(x)[1], Sinusoidal(8).table(embedded.positions.q))
    assert len({tuple(one.positions.q.tolist()) for one in (rotation, alibi, embedded)}) == 1


def test_draws_of_the_encoding_inside_follow_on_those_of_the_wrapper() -> None:
    inner = lw.SHAPE(8, max_shift=1000)
    positions = drawn(RandomizedPositions(inner, longest=50), Positions.sequence(6), seed=4)
    alone = drawn(RandomizedPositions(NoPE(), longest=50), Positions.sequence(6), seed=4)
    assert len((positions.q - alone.q).unique()) == 1
    assert not torch.equal(positions.q, alone.q)


def test_evaluation_leaves_positions_as_they_are_and_draws_nothing() -> None:
    encoding, positions = RandomizedPositions(Rotary(8), evaluation="given"), Positions.sequence(5)
    state = torch.random.get_rng_state()
    prepared = lw.prepare(encoding, positions)
    assert prepared.positions is positions
    assert torch.equal(prepared.rotation.q_cos, Rotary(8).rotation(positions).q_cos)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_draws_come_from_the_generator_alone() -> None:
    encoding, positions = RandomizedPositions(Rotary(8)), Positions.sequence(5)
    state = torch.random.get_rng_state()
    assert torch.equal(drawn(encoding, positions, 1).q, drawn(encoding, positions, 1).q)
    assert not torch.equal(drawn(encoding, positions, 1).q, drawn(encoding, positions, 2).q)
    assert torch.equal(torch.random.get_rng_state(), state)
    torch.manual_seed(0)
    assert lw.prepare(encoding, positions, training=True).positions.q.diff().min() > 0


@pytest.mark.parametrize(
    "inner", [Rotary(8), ALiBi(2), T5Bias(2), Sinusoidal(8), Learned(8, 2048), NoPE()], ids=lambda x: type(x).__name__
)
def test_it_acts_where_the_encoding_acts_and_says_what_it_says(inner: torch.nn.Module) -> None:
    wrapped = RandomizedPositions(inner, evaluation="given")
    for one in (wrapped, copy.deepcopy(wrapped)):
        assert lw.sites(one) == lw.sites(inner)
        assert lw.claims(one) == lw.claims(inner)
        for name, usual in (("direction", "any"), ("max_position", None), ("cached_keys", "rotated"), ("axes", 1)):
            assert getattr(one, name, usual) == getattr(inner, name, usual)
        assert list(one.state_dict()) == [f"encoding.{name}" for name in inner.state_dict()]


def test_a_copy_acts_by_its_own_parameters() -> None:
    encoding = RandomizedPositions(Learned(4, 8), longest=8)
    x, positions = torch.zeros(1, 3, 4), Positions.sequence(3)
    for other in (copy.deepcopy(encoding), pickle.loads(pickle.dumps(encoding))):
        with torch.no_grad():
            other.encoding.table.zero_()
        assert other.embed_positions(x, positions).abs().sum() == 0
        assert encoding.embed_positions(x, positions).abs().sum() > 0


def test_the_direction_of_the_encoding_is_asked_for() -> None:
    with pytest.raises(lw.InvalidArgument, match="made for causal attention"):
        lw.prepare(RandomizedPositions(T5Bias(2)), Positions.sequence(3, causal=False))


def test_gradients_reach_the_rows_that_were_drawn() -> None:
    encoding = RandomizedPositions(Learned(2, 30), longest=30)
    prepared = lw.prepare(encoding, Positions.sequence(4), generator=torch.manual_seed(0), training=True)
    prepared.embed(torch.zeros(3, 4, 2)).sum().backward()
    expected = torch.zeros(30, 2)
    expected[prepared.positions.q] = 3.0
    assert torch.equal(encoding.encoding.table.grad, expected)


def test_it_is_built_from_a_spec() -> None:
    encoding = lw.build("randomized(rotary(base=500), longest=99)", lw.Dims(dim=16, heads=2))
    assert isinstance(encoding, RandomizedPositions)
    assert (encoding.longest, encoding.encoding.base) == (99, 500)


def test_positions_that_the_range_does_not_hold_are_refused_while_training() -> None:
    encoding = RandomizedPositions(Rotary(8), longest=4, evaluation="given")
    far = torch.tensor([0, 4])
    for positions in (Positions.sequence(5), Positions(far, far), Positions.packed([2, 5])):
        with pytest.raises(
            lw.InvalidArgument, match=r"position 4 is outside the range of 4 \(0 to 3\) .*: make longest"
        ):
            drawn(encoding, positions)
        assert lw.prepare(encoding, positions).positions is positions
    below = torch.tensor([0, -1])
    with pytest.raises(lw.InvalidArgument, match="position -1 is outside the range"):
        drawn(encoding, Positions(below, below))
    half = torch.tensor([0.5, 1.0])
    with pytest.raises(lw.InvalidArgument, match="only whole positions can be drawn or spread"):
        drawn(encoding, Positions(half, half))
    assert drawn(encoding, Positions.packed([2, 4, 1])).q.shape == (1, 7)
    assert drawn(encoding, Positions.sequence(0)).q_length == 0


def test_spread_positions_are_the_mean_of_the_drawn_ones_rounded_down() -> None:
    encoding, sequence = RandomizedPositions(NoPE(), longest=50, evaluation="spread"), Positions.sequence(6)
    generator = torch.Generator().manual_seed(0)
    draws = [lw.prepare(encoding, sequence, generator=generator, training=True).positions.q for _ in range(3000)]
    spread = lw.prepare(encoding, sequence).positions.q
    exact = (torch.arange(6) + 1) * 51 / 7 - 1  # mean of the order statistics of a sample without replacement
    assert spread.tolist() == exact.floor().tolist() == [6, 13, 20, 28, 35, 42]
    torch.testing.assert_close(torch.stack(draws).double().mean(0), exact.double(), rtol=0, atol=0.6)


def test_spread_positions_rise_within_the_range_up_to_its_size() -> None:
    encoding = RandomizedPositions(NoPE(), longest=40, evaluation="spread")
    for length in range(1, 41):
        spread = lw.prepare(encoding, Positions.sequence(length)).positions.q
        assert spread[0] >= 0
        assert spread[-1] < 40
        assert (spread.diff() > 0).all()
    assert torch.equal(spread, torch.arange(40))
    assert torch.equal(lw.prepare(encoding, Positions.sequence(70)).positions.q, torch.arange(70))


def test_spread_positions_are_fixed_by_the_target_length() -> None:
    encoding = RandomizedPositions(Rotary(8), longest=100, evaluation="spread")
    whole = lw.prepare(encoding, Positions.sequence(10)).positions.q
    step = lw.prepare(encoding, Positions.step(3, 2).replace(target_length=10)).positions
    assert torch.equal(step.k, whole[:5])
    assert torch.equal(step.q, whole[3:5])
    assert lw.claims(encoding) == {"norm_preserving"}
    assert encoding.cached_keys == "rotated_at_target_length"
    past = lw.prepare(encoding, Positions.sequence(40).replace(target_length=10)).positions.q
    assert torch.equal(past[:10], whole)
    assert (past.diff() > 0).all()
    assert past[-1] >= 100  # past the target it goes on, as rotary can


@pytest.mark.parametrize(
    ("inner", "longest", "message"),
    [
        (Rotary(8), 0, "longest must be at least 1, not 0"),
        (Learned(8, 64), 65, "longest 65 is past the 64 positions of Learned: give it a larger table, or longest=64"),
        (lw.Sinusoidal2D(8), 9, "draws positions of one axis, and Sinusoidal2D reads 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(inner: torch.nn.Module, longest: int, message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        RandomizedPositions(inner, longest)


def test_an_unknown_evaluation_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match=r"unknown evaluation 'spred': did you mean 'spread'\?"):
        RandomizedPositions(Rotary(8), evaluation="spred")
