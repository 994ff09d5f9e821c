from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lengthwise.errors import InvalidArgument
from lengthwise.report.comparison import comparisons
from lengthwise.report.metrics import metric_of


def test_tasks_settings_and_trained_lengths_are_never_pooled(sort_results, text_results):
    sort = sort_results(["none"], seeds=1)[0]
    longer = replace(sort, experiment=replace(sort.experiment, train_length=15))
    more_steps = replace(
        sort, experiment=replace(sort.experiment, training=replace(sort.experiment.training, steps=4000))
    )
    groups = comparisons([sort, longer, more_steps, *text_results(["none"], seeds=1)])
    assert [(group.task, group.train_length) for group in groups] == [
        ("sort", 10), ("sort", 15), ("sort", 10), ("text", 128)
    ]  # fmt: skip
    assert [group.setting for group in groups] == [
        "trained length 10, steps 2000", "trained length 15, steps 2000", "trained length 10, steps 4000", ""
    ]  # fmt: skip


def test_encodings_are_ranked_by_their_mean_past_the_trained_length(sort_results, text_results):
    # Rotary is the best at the trained length of text, and fourth past it.
    (text,) = comparisons(text_results())
    assert text.encodings == ("alibi", "t5", "none", "rotary", "learned", "sinusoidal")
    (sort,) = comparisons(sort_results())
    assert sort.encodings[:4] == ("alibi", "t5", "none", "rotary")


def test_the_ranking_score_of_a_seed_is_its_mean_over_the_shared_lengths_past_the_trained_one(sort_results):
    run = replace(sort_results(["none"], seeds=1)[0], scores={"exact_match": (1.0, 0.9, 0.6, 0.3, 0.0)})
    (group,) = comparisons([run])
    assert group.far("none") == {0: pytest.approx((0.9 + 0.6 + 0.3 + 0.0) / 4)}
    short = sort_results(["t5"], seeds=1, lengths=(10, 13, 20))
    (mixed,) = comparisons([run, *short])
    assert mixed.far_lengths == (13, 20)
    assert mixed.far("none") == {0: pytest.approx((0.6 + 0.0) / 2)}


def test_a_seed_tested_twice_counts_once_with_the_run_that_ended_last(sort_results):
    (run,) = sort_results(["none"], seeds=1, lengths=(10, 20))
    again = replace(
        run,
        experiment=replace(run.experiment, test_lengths=(10, 20, 40)),
        scores={"exact_match": (0.5, 0.25, 0.125)},
        environment={**run.environment, "finished": "2026-01-01T00:00:00+00:00"},
    )
    for order in ([run, again], [again, run]):
        (group,) = comparisons(order)
        assert group.at("none", 10) == {0: 0.5}
        assert group.at("none", 40) == {0: 0.125}
        assert group.lengths == (10, 20, 40)


def test_a_run_that_diverged_is_ranked_last_and_has_no_interval(text_results):
    good, bad = text_results(["none"], seeds=1), text_results(["alibi"], seeds=1)
    broken = replace(bad[0], scores={"bits_per_byte": (math.nan,) * 4})
    (group,) = comparisons([broken, *good])
    assert group.encodings == ("none", "alibi")
    assert group.interval("alibi", 256) is None


def test_only_tables_with_untrained_rows_wear_a_dagger(sort_results):
    (group,) = comparisons(sort_results(["learned", "none"], seeds=1))
    assert group.label("learned") == "learned †"
    assert group.label("none") == "none"
    (whole,) = comparisons([replace(sort_results(["learned"], seeds=1)[0], trained_rows=40)])
    assert whole.label("learned") == "learned"


def test_no_results_scores_that_do_not_fit_and_unknown_metrics_are_errors_that_say_what_to_do(sort_results):
    with pytest.raises(InvalidArgument, match="there are no results"):
        comparisons([])
    (run,) = sort_results(["none"], seeds=1)
    with pytest.raises(InvalidArgument, match=r"1 scores .* for 5 test lengths: run it again"):
        comparisons([replace(run, scores={"exact_match": (1.0,)})])
    with pytest.raises(InvalidArgument, match="no scores for its metric"):
        comparisons([replace(run, scores={})])
    with pytest.raises(InvalidArgument, match="did you mean 'exact_match'"):
        metric_of("exactmatch")
