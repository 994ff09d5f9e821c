from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lengthwise.report.comparison import comparisons
from lengthwise.report.verdict import verdict


def runs(make, scores, lengths=(10, 20, 40)):
    """Results with the given scores: encoding to one row of scores for each seed."""
    return [
        replace(run, scores={run.metric: tuple(map(float, row))})
        for name, rows in scores.items()
        for run, row in zip(make([name], seeds=len(rows), lengths=lengths), rows, strict=True)
    ]


def of(results):
    (group,) = comparisons(results)
    return verdict(group)


def test_the_winner_past_the_trained_length_is_named_with_its_lead_counted_by_hand(sort_results):
    found = of(
        runs(
            sort_results,
            {"none": [(1.0, 0.5, 0.1), (1.0, 0.7, 0.3)], "alibi": [(0.9, 0.9, 0.5), (0.9, 0.8, 0.6)]},
        )
    )
    # Means past 10: alibi 0.7 and 0.7; none 0.3 and 0.5: differences 0.4 and 0.2.
    assert (found.winner, found.runner_up, found.separated, found.level_with) == ("alibi", "none", True, ())
    assert found.score.mean[0] == pytest.approx(0.7)
    assert found.difference.interval.mean[0] == pytest.approx(0.3)
    assert str(found) == (
        "alibi holds up best past 10: 70.0 % exact match on average at 2 lengths from 20 to 40. Separated from none, "
        "the next: ahead by 30.0 points (2 shared seeds, 95 % interval 20.0 to 40.0)."
    )


def test_less_is_better_for_bits_per_byte_and_a_lead_is_still_positive(text_results):
    found = of(text_results(["rotary", "alibi"]))
    assert found.winner == "alibi"
    assert found.difference.interval.mean[0] < 0
    assert "bits per byte on average" in found.text
    assert "−" not in found.text


def test_seeds_that_disagree_are_not_separated(sort_results):
    found = of(runs(sort_results, {"none": [(1, 0.5, 0.5), (1, 0.5, 0.5)], "t5": [(1, 0.9, 0.9), (1, 0.4, 0.4)]}))
    assert (found.winner, found.separated, found.level_with) == ("t5", False, ("none",))
    assert "Not separated from none" in found.text


def test_all_that_is_not_separated_from_the_winner_is_named(sort_results):
    near = {
        "none": [(1.0, 0.5, 0.5), (1.0, 0.6, 0.6)],
        "t5": [(1.0, 0.6, 0.6), (1.0, 0.4, 0.4)],
        "alibi": [(1.0, 0.55, 0.55), (1.0, 0.4, 0.4)],
    }
    found = of(runs(sort_results, {**near, "rotary": [(1.0, 0.1, 0.1)] * 2}))
    assert len(found.level_with) == 2
    assert f"Not separated from {found.level_with[1]} either." in found.text


def test_one_seed_separates_nothing_and_gives_no_interval(sort_results):
    found = of(runs(sort_results, {"none": [(1, 0.1, 0.1)], "t5": [(1, 0.9, 0.9)]}))
    assert not found.separated
    assert "1 shared seed)" in found.text


def test_without_a_shared_seed_nothing_is_compared(sort_results):
    first, second = runs(sort_results, {"none": [(1, 0.1, 0.1)], "t5": [(1, 0.9, 0.9)]})
    found = of([first, replace(second, experiment=replace(second.experiment, seed=5))])
    assert found.difference is None
    assert "they share no seed" in found.text


def test_where_nothing_can_be_ranked_the_verdict_says_why(sort_results, text_results):
    assert "nothing to rank" in of(sort_results(lengths=(5, 10))).text
    assert of(sort_results(lengths=(5, 10))).winner is None
    assert "only one" in of(sort_results(["none"])).text
    broken = [replace(run, scores={run.metric: (math.nan,) * 4}) for run in text_results(["none"])]
    assert "diverged" in of(broken).text


def test_encodings_that_are_level_have_no_winner(sort_results):
    nothing = [(0.5, 0.0, 0.0), (0.5, 0.0, 0.0)]
    found = of(runs(sort_results, {"none": nothing, "t5": nothing}))
    assert found.winner is None
    assert "No encoding stands out" in found.text
    assert "0.0 %" in found.text


def test_a_winner_that_is_behind_on_the_shared_seeds_is_not_called_separated(sort_results):
    four = [(1.0, 0.1, 0.1), (1.0, 0.1, 0.1), (1.0, 0.9, 0.9), (1.0, 0.9, 0.9)]
    found = of(runs(sort_results, {"rotary": four, "alibi": [(1.0, 0.2, 0.2), (1.0, 0.2, 0.2)]}))
    assert found.winner == "rotary"
    assert not found.separated
    assert "Not separated from alibi, the next: behind by 10.0 points (2 shared seeds" in found.text
