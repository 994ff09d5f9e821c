from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lengthwise.errors import InvalidArgument
from lengthwise.lab.statistics import mean_interval, mean_reciprocal_rank, paired_difference


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)[:, None]


tables = st.integers(2, 5).flatmap(
    lambda seeds: arrays(float, (seeds, 3), elements=st.floats(-100, 100, allow_subnormal=False))
)


def test_two_seeds_span_exactly_what_was_seen_and_say_so():
    interval = mean_interval(column(0.2, 0.6), rng=rng())
    assert (interval.mean[0], interval.low[0], interval.high[0]) == (pytest.approx(0.4), 0.2, 0.6)
    assert not interval.enough
    assert interval.note == "2 seeds: the interval spans what was seen, not what is to be expected"


def test_one_seed_has_a_mean_and_no_interval():
    interval = mean_interval(column(0.3), rng=rng())
    assert interval.mean[0] == 0.3
    assert np.isnan(interval.low[0])
    assert np.isnan(interval.high[0])
    assert "unknown" in interval.note


def test_four_seeds_give_the_quantiles_of_all_256_draws_counted_by_hand():
    values = (0.0, 1.0, 3.0, 10.0)
    means = sorted(sum(draw) / 4 for draw in itertools.product(values, repeat=4))
    interval = mean_interval(column(*values), rng=rng())
    # 2.5 % of 256 is 6.4: the 7th lowest and the 7th highest mean.
    assert (interval.low[0], interval.high[0]) == (means[6], means[-7])
    assert not interval.enough


def test_where_all_draws_are_taken_the_generator_is_not_touched():
    generator = rng()
    mean_interval(np.arange(10.0).reshape(5, 2), rng=generator)
    assert generator.random() == rng().random()


def test_many_seeds_agree_with_the_percentile_bootstrap_of_scipy():
    values = rng().gamma(2.0, size=40)
    ours = mean_interval(values[:, None], rng=np.random.default_rng(1), resamples=20_000)
    theirs = scipy.stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(2)
    ).confidence_interval
    spread = values.std() / np.sqrt(40)
    assert ours.low[0] == pytest.approx(theirs.low, abs=0.06 * spread)
    assert ours.high[0] == pytest.approx(theirs.high, abs=0.06 * spread)
    assert ours.enough
    assert ours.note == ""


def test_the_same_generator_gives_the_same_interval():
    scores = rng().normal(size=(9, 4))
    first, second = (mean_interval(scores, rng=np.random.default_rng(7)) for _ in range(2))
    assert first.low.tolist() == second.low.tolist()
    assert first.high.tolist() == second.high.tolist()


def test_intervals_of_ten_seeds_hold_the_true_mean_about_nine_times_in_ten():
    # One column is one repetition of the whole study: 500 studies of 10 seeds whose true mean is 0.
    interval = mean_interval(rng().normal(size=(10, 500)), rng=rng(), resamples=2000)
    coverage = ((interval.low <= 0) & (interval.high >= 0)).mean()
    assert 0.85 <= coverage <= 0.95


@settings(max_examples=40, deadline=None)
@given(tables)
def test_an_interval_lies_within_the_scores_and_holds_their_mean(scores):
    interval = mean_interval(scores, rng=rng())
    slack = 1e-12 * (1 + np.abs(scores).max())
    assert (interval.low >= scores.min(axis=0) - slack).all()
    assert (interval.high <= scores.max(axis=0) + slack).all()
    assert (interval.low <= interval.mean + slack).all()
    assert (interval.mean <= interval.high + slack).all()


@settings(max_examples=40, deadline=None)
@given(tables, st.integers(-5, 5), st.sampled_from([0.5, 2.0, 8.0]))
def test_an_interval_moves_and_stretches_with_the_scores(scores, shift, factor):
    plain, moved = (mean_interval(x, rng=rng()) for x in (scores, factor * scores + shift))
    assert moved.low == pytest.approx(factor * plain.low + shift, abs=1e-9)
    assert moved.high == pytest.approx(factor * plain.high + shift, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(tables, st.randoms(use_true_random=False))
def test_a_difference_changes_its_sign_and_nothing_else_when_the_two_change_places(scores, random):
    other = scores.copy()
    random.shuffle(other)
    there, back = (paired_difference(x, y, rng=rng()) for x, y in ((scores, other), (other, scores)))
    assert there.interval.mean.tolist() == (-back.interval.mean).tolist()
    assert there.interval.low.tolist() == (-back.interval.high).tolist()
    assert there.separated.tolist() == back.separated.tolist()


def test_two_seeds_are_separated_only_where_both_agree():
    a = np.array([[0.5, 0.5, 0.5], [0.6, 0.4, 0.5]])
    b = np.array([[0.4, 0.4, 0.5], [0.5, 0.5, 0.4]])
    assert paired_difference(a, b, rng=rng()).separated.tolist() == [True, False, False]


def test_four_seeds_with_one_against_the_others_are_not_separated_though_the_interval_leaves_out_zero():
    difference = paired_difference(column(1.0, 1.0, 1.0, -0.1), np.zeros((4, 1)), rng=rng())
    assert difference.interval.low[0] > 0
    assert not difference.separated[0]


def test_many_seeds_may_disagree_and_still_be_separated():
    a = column(1.0, 1.1, 0.9, 1.2, 1.0, 0.8, 1.1, -0.05)
    assert paired_difference(a, np.zeros((8, 1)), rng=rng()).separated[0]


def test_one_seed_is_never_separated():
    assert not paired_difference(column(1.0), column(0.0), rng=rng()).separated[0]


def test_reciprocal_ranks_equal_those_computed_by_hand():
    scores = np.array([[0.9, 0.1, 0.5], [0.8, 0.3, 0.6], [0.7, 0.2, 0.4]])
    # Ranks by trial: first row 1, 3, 2; second row 2, 1, 1; third row 3, 2, 3.
    expected = [(1 + 1 / 3 + 1 / 2) / 3, (1 / 2 + 1 + 1) / 3, (1 / 3 + 1 / 2 + 1 / 3) / 3]
    assert mean_reciprocal_rank(scores, higher_is_better=True).tolist() == pytest.approx(expected)
    assert mean_reciprocal_rank(-scores, higher_is_better=False).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("ties", "expected"),
    [("average", [1 / 1.5, 1 / 1.5, 1 / 3]), ("min", [1.0, 1.0, 1 / 3]), ("first", [1.0, 1 / 2, 1 / 3])],
)
def test_each_rule_for_ties_gives_its_ranks(ties, expected):
    assert mean_reciprocal_rank(column(1, 1, 0), higher_is_better=True, ties=ties).tolist() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("scores", "options", "word"),
    [
        (np.zeros(3), {}, "shape"),
        (np.zeros((0, 3)), {}, "at least one"),
        (column(1.0, np.nan), {}, "finite"),
        (column(1.0, 2.0), {"level": 95}, "0.95"),
        (column(1.0, 2.0), {"resamples": 0}, "resamples"),
    ],
)
def test_what_can_not_be_averaged_is_an_error_that_says_why(scores, options, word):
    with pytest.raises(InvalidArgument, match=word):
        mean_interval(scores, rng=rng(), **options)


def test_differences_of_unlike_shapes_and_unknown_rules_are_errors():
    with pytest.raises(InvalidArgument, match="same seeds"):
        paired_difference(np.zeros((2, 1)), np.zeros((3, 1)), rng=rng())
    with pytest.raises(InvalidArgument, match="did you mean 'average'"):
        mean_reciprocal_rank(np.zeros((2, 1)), higher_is_better=True, ties="avrage")
