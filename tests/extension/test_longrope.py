from __future__ import annotations

import random

import pytest
import torch

import lengthwise as lw
from lengthwise.extension.longrope_search import search_longrope

GROWING = [1 + m / 2 for m in range(32)]


def test_the_numbers_of_the_formula_sheet() -> None:
    longer = lw.extend(lw.Rotary(64), lw.LongRoPE([1.0] * 32, GROWING, 4096, factor=32))
    short, long = longer.spectrum_at(4096), longer.spectrum_at(4097)
    assert short.attention_factor == long.attention_factor == pytest.approx(1.19023807, abs=5e-9)
    assert short.inv_freq.sum().item() == pytest.approx(3.99790823, rel=1e-7)
    assert long.inv_freq.sum().item() == pytest.approx(2.26186805, rel=1e-7)


def test_the_factor_of_logits_acts_at_short_lengths_too(close) -> None:
    longer = lw.extend(lw.Rotary(16), lw.LongRoPE(1.0, 4.0, 64, factor=4))
    q = torch.randn(1, 2, 20, 16, generator=torch.Generator().manual_seed(0))
    turned = longer.rotation(lw.Positions.sequence(20)).q(q)
    close(turned, lw.Rotary(16).rotation(lw.Positions.sequence(20)).q(q) * longer.method.rotation_multiplier)
    assert longer.method.rotation_multiplier > 1


def test_one_number_is_that_of_each_pair() -> None:
    one = lw.extend(lw.Rotary(16), lw.LongRoPE(1.5, 4, 64, attention_factor=1))
    all_of_them = lw.extend(lw.Rotary(16), lw.LongRoPE([1.5] * 8, [4] * 8, 64, attention_factor=1))
    for length in (64, 65):
        assert torch.equal(one.spectrum_at(length).inv_freq, all_of_them.spectrum_at(length).inv_freq)
    interpolated = lw.extend(lw.Rotary(16), lw.Interpolate(4)).spectrum.inv_freq
    assert torch.equal(one.spectrum_at(65).inv_freq, interpolated)


def test_where_both_lists_are_the_same_no_length_matters_and_keys_may_wait() -> None:
    longer = lw.extend(lw.Rotary(64), lw.LongRoPE(GROWING, tuple(GROWING), 4096, factor=32))
    assert longer.cached_keys == "rotated"
    assert longer.spectrum.inv_freq.sum().item() == pytest.approx(2.26186805, rel=1e-7)
    assert lw.extend(lw.Rotary(64), lw.LongRoPE(1.0, 2.0, 64, factor=2)).cached_keys == "rotated_at_target_length"


def test_methods_of_the_same_lists_are_equal_and_can_be_keys() -> None:
    assert len({lw.LongRoPE([1.0, 2.0], [1, 3], 64, 2), lw.LongRoPE((1, 2), [1.0, 3.0], 64, 2)}) == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"short_factor": [1.0] * 7, "factor": 4}, "short_factor needs a divisor for each of the 8 pairs .* has 7"),
        ({"long_factor": [1.0] * 9, "factor": 4}, "long_factor needs a divisor for each of the 8 pairs .* has 9"),
        ({"long_factor": [], "factor": 4}, "long_factor needs a divisor for each of the 8 pairs .* has 0"),
        ({"long_factor": [1.0] * 7 + [0.0], "factor": 4}, "each of long_factor must be a number above 0, not 0"),
        ({}, "LongRoPE needs factor"),
        ({"factor": 0.5}, "factor is .* at least 1"),
        ({"attention_factor": -1.0}, "attention_factor must be a number above 0"),
        ({"factor": 4, "original_length": 0}, "original_length is"),
        ({"factor": 4, "original_length": 1}, "an original_length of 1 gives no attention_factor"),
    ],
)
def test_settings_that_make_no_sense_are_refused_when_it_extends_at_the_latest(settings, message: str) -> None:
    given = {"short_factor": 1.0, "long_factor": 4.0, "original_length": 64} | settings
    with pytest.raises(lw.InvalidArgument, match=message):
        lw.extend(lw.Rotary(16), lw.LongRoPE(**given))


def distance(wanted: list[float]):
    calls: list[tuple[float, ...]] = []

    def score(divisors: tuple[float, ...]) -> float:
        calls.append(divisors)
        return sum((one - other) ** 2 for one, other in zip(divisors, wanted, strict=True))

    return score, calls


def test_the_search_keeps_to_the_papers_bounds_and_scores_nothing_twice() -> None:
    score, calls = distance([1.0, 2.0, 3.0, 4.0])
    found = search_longrope(score, 4, 4, generations=5)
    assert len(set(calls)) == len(calls)
    for divisors in calls:
        assert list(divisors) == sorted(divisors)
        assert divisors[0] >= 1
        assert divisors[-1] <= 1.25 * 4
    assert score(found) == min(score(one) for one in list(calls))


def test_the_search_is_decided_by_its_seed_and_leaves_other_draws_alone() -> None:
    state, torch_state = random.getstate(), torch.get_rng_state()
    runs = {}
    for seed in (0, 0, 1):
        score, calls = distance([1.0, 1.5, 2.5, 4.0])
        search_longrope(score, 4, 4, generations=3, seed=seed)
        assert runs.setdefault(seed, calls) == calls
    assert runs[0] != runs[1]
    assert random.getstate() == state
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_the_search_does_better_than_what_it_starts_from() -> None:
    wanted = sorted(random.Random(5).uniform(1, 8) for _ in range(8))
    score, calls = distance(wanted)
    found = search_longrope(score, 8, 8)
    interpolation, ntk = calls[:2]
    assert interpolation == (8.0,) * 8
    assert ntk == tuple(round(8 ** (m / 7), 2) for m in range(8))
    assert score(found) < 0.1 * min(score(interpolation), score(ntk))


def test_the_search_starts_from_what_it_is_given_too() -> None:
    wanted = [1.0, 1.25, 2.0, 3.0]
    score, calls = distance(wanted)
    assert list(search_longrope(score, 4, 4, starts=[wanted], population=3, generations=0)) == wanted
    assert len(calls) == 3


def test_divisors_that_were_found_make_a_method() -> None:
    x = torch.randn(1, 1, 40, 16, generator=torch.Generator().manual_seed(0))
    target = lw.attention_weights(x, x, lw.extend(lw.Rotary(16), lw.NTK(4)))

    def score(divisors: tuple[float, ...]) -> float:
        longer = lw.extend(lw.Rotary(16), lw.LongRoPE(divisors, divisors, 16, attention_factor=1))
        return (lw.attention_weights(x, x, longer) - target).abs().mean().item()

    found = search_longrope(score, 8, 4, population=4, generations=0)
    assert score(found) < 1e-3  # NTK is one of its starts, to the step


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pairs": 0}, "pairs must be at least 1"),
        ({"factor": 0.5}, "factor is"),
        ({"population": 0}, "population must be at least 1"),
        ({"mutations": -1}, "mutations must be at least 0"),
        ({"probability": 0.0}, "probability must be above 0"),
        ({"step": 0.0}, "step must be a number above 0"),
        ({"starts": [[1.0, 2.0]]}, "starts are lists of 4 divisors"),
        ({"starts": [[4.0, 3.0, 2.0, 1.0]]}, "that never fall"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(settings, message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        search_longrope(**({"score": sum, "pairs": 4, "factor": 4.0} | settings))
