from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
import vl_convert

import lengthwise as lw
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.report.study import findings, write_study_page
from lengthwise.studies import Choice, Study, Trial, attention, kazemnejad2023, studies
from lengthwise.studies.claims import claims
from lengthwise.studies.outcome import agreement, best_on, rank_difference, ranking, scored
from lengthwise.studies.scratchpads import formats
from lengthwise.studies.study import ResultFiles
from lengthwise.tasks.scratchpad import FORMATS

ARMS = ("NoPE", "T5", "ALiBi", "Rotary", "APE")


@pytest.fixture(scope="module")
def study() -> Study:
    return studies["kazemnejad2023"](Choice(tasks=("Copy V1", "Parity"), seeds=2))


def result(trial: Trial, past: float, seen: float = 1.0, told: float | None = None) -> Result:
    one = trial.experiment
    exact = tuple(seen if length <= one.train_length else past for length in one.test_lengths)
    free = tuple(seen if length <= one.train_length else past if told is None else told for length in one.test_lengths)
    return Result(
        experiment=one,
        metric="exact_match",
        scores={"exact_match": exact, "symbol_accuracy": exact, "exact_match_told_end": free},
        length_counts="symbols",
        by_position=None,
        table_rows=None,
        trained_rows=None,
        steps=tuple(range(1, 21)),
        losses=(1.0,) * 20,
        parameters=1,
        train_seconds=1.0,
        test_seconds=1.0,
        tokens_per_second=1.0,
        stopped_early=False,
        environment={},
    )


PAST = {"NoPE": 0.9, "T5": 0.7, "ALiBi": 0.5, "Rotary": 0.3, "APE": 0.1}


def test_a_trial_is_scored_on_trained_and_on_longer_lengths_apart(study: Study) -> None:
    one = scored(study.trials[0], result(study.trials[0], past=0.3, seen=0.9, told=0.6))
    assert (one.seen, one.past, one.past_told) == pytest.approx((0.9, 0.3, 0.6))
    assert one.undertrained
    assert not scored(study.trials[0], result(study.trials[0], 0.3, seen=0.95)).undertrained


def test_trained_lengths_weigh_as_training_draws_them() -> None:
    trial = studies["kazemnejad2023"](Choice(tasks=("Addition",), seeds=1)).trials[0]
    whole = result(trial, past=0.0)
    lengths = whole.experiment.test_lengths
    exact = tuple(0.5 if length == 1 else 1.0 for length in lengths)  # 1 of 4 pairs of numbers of digits up to 2
    one = scored(trial, replace(whole, scores={"exact_match": exact}))
    assert one.seen == pytest.approx((1 * 0.5 + 3 * 1.0) / 4)


def test_scratchpads_come_as_datasets_of_their_own_and_leave_the_published_ranks_alone() -> None:
    plain = studies["kazemnejad2023"](Choice(seeds=1))
    padded = studies["kazemnejad2023"](Choice(seeds=1, scratchpads=("minimal", "full")))
    more = padded.datasets[len(plain.datasets) :]
    assert len(more) == 12
    assert {one.small for one in more if one.name.startswith("Sorting")} == {
        "sort(scratchpad='co')",
        "sort(scratchpad='icor')",
    }
    assert all(trial.experiment.data for trial in padded.trials), "every task of them can be built"
    here = [scored(trial, result(trial, PAST[trial.arm])) for trial in padded.trials]
    ranks, with_pads = ranking(padded, here), ranking(padded, here, category="scratchpad")
    assert ranks is not None
    assert with_pads is not None
    assert (ranks.pairs, with_pads.pairs) == (17, 12)
    assert set(best_on(padded, here)) == {one.name for one in padded.datasets}


@pytest.mark.parametrize(
    ("addition", "parity", "answer"),
    [(0.9, 0.1, "holds here"), (0.9, 0.9, "does not"), (0.1, 0.1, "does not"), (0.9, 0.5, "holds here")],
)
def test_a_scratchpad_that_helps_addition_alone_is_what_was_claimed(
    addition: float, parity: float, answer: str
) -> None:
    study = studies["kazemnejad2023"](Choice(tasks=("Addition", "Parity"), seeds=2, scratchpads=("full",)))
    past = {"Addition, full scratchpad": addition, "Parity, full scratchpad": parity}
    scores = [scored(trial, result(trial, past.get(trial.dataset.name, 0.5))) for trial in study.trials]
    claim = next(one for one in claims(study, scores, {}) if one.letter == "f")
    assert claim.answer == answer
    assert f"Addition {100 * (addition - 0.5):+.1f}" in claim.because


def test_undertrained_models_say_nothing_of_scratchpads() -> None:
    study = studies["kazemnejad2023"](Choice(tasks=("Addition", "Parity"), seeds=2, scratchpads=("full",)))
    scores = [scored(trial, result(trial, 0.5, seen=0.5 if trial.dataset.plain else 1.0)) for trial in study.trials]
    claim = next(one for one in claims(study, scores, {}) if one.letter == "f")
    assert claim.answer == "can't be told"
    assert "too few pairs of trained models" in claim.because


def test_chance_alone_seldom_says_that_encodings_matter_with_a_scratchpad() -> None:
    study = studies["kazemnejad2023"](Choice(seeds=1, scratchpads=("full", "minimal")))
    padded = [trial for trial in study.trials if trial.dataset.plain]
    rng = random.Random(0)
    held = 0
    for _ in range(20):  # a random order for each dataset, which its formats share
        past = {(trial.dataset.plain, trial.arm): rng.random() for trial in padded}
        scores = [scored(trial, result(trial, past[trial.dataset.plain, trial.arm])) for trial in padded]
        held += next(one for one in claims(study, scores, {}) if one.letter == "g").answer == "holds here"
    assert held <= 4


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(scratchpads=("ful",)), "no scratchpad 'ful': did you mean 'full'"),
        (Choice(scratchpads=("none",)), "'none' is no scratchpad"),
        (Choice(scratchpads=("",)), "'' is no scratchpad"),
        (Choice(tasks=("Copy V1",), scratchpads=("full",)), "none of these datasets has scratchpads"),
    ],
)
def test_a_scratchpad_that_is_none_is_refused(choice: Choice, message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        studies["kazemnejad2023"](choice)


def test_two_names_of_one_scratchpad_are_one_dataset() -> None:
    forms = ("full", "icovr", "no variables", "minimal", "oc", "v")
    made = [one for one in studies["kazemnejad2023"](Choice(seeds=1, scratchpads=forms)).datasets if one.plain]
    assert len({one.small for one in made}) == len(made)
    assert [one.scratchpad for one in made if one.plain == "LEGO"] == ["full", "minimal"]
    assert [one.scratchpad for one in made if one.plain == "Parity"] == ["full", "no variables", "minimal", "v"]


def test_that_encodings_matter_with_a_scratchpad_is_told_by_their_ranks_there() -> None:
    study = studies["kazemnejad2023"](Choice(seeds=1, scratchpads=("full",)))
    ordered = [scored(trial, result(trial, PAST[trial.arm])) for trial in study.trials]
    alike = [scored(trial, result(trial, 0.5)) for trial in study.trials]
    answers = [next(c.answer for c in claims(study, some, {}) if c.letter == "g") for some in (ordered, alike)]
    assert answers == ["holds here", "can't be told"]


def test_a_clear_order_gives_the_reciprocal_ranks_of_that_order(study: Study) -> None:
    ranks = ranking(study, [scored(trial, result(trial, PAST[trial.arm])) for trial in study.trials])
    assert ranks is not None
    assert ranks.arms == ARMS
    assert ranks.mean == pytest.approx((1, 1 / 2, 1 / 3, 1 / 4, 1 / 5))
    assert ranks.pairs == 6  # Copy V1, Copy V1 2x, Parity, two seeds each


def test_ties_share_their_ranks_and_the_published_rule_favours_early_rows(study: Study) -> None:
    scores = [scored(trial, result(trial, 0.0)) for trial in study.trials]
    shared, first = ranking(study, scores), ranking(study, scores, ties="first")
    assert shared is not None
    assert first is not None
    assert shared.mean == pytest.approx((1 / 3,) * 5)
    assert first.mean == pytest.approx((1, 1 / 2, 1 / 3, 1 / 4, 1 / 5))


def test_a_ranking_can_leave_out_undertrained_pairs_and_can_rank_as_told_where_to_stop(study: Study) -> None:
    weak = study.trials[0]
    scores = [
        scored(t, result(t, PAST[t.arm], seen=0.5 if t == weak else 1.0, told=1 - PAST[t.arm])) for t in study.trials
    ]
    kept, told = ranking(study, scores, trained_only=True), ranking(study, scores, told=True)
    assert kept is not None
    assert told is not None
    assert kept.pairs == 5
    assert told.mean == pytest.approx((1 / 5, 1 / 4, 1 / 3, 1 / 2, 1))


def test_a_dataset_without_all_arms_is_not_ranked(study: Study) -> None:
    some = [trial for trial in study.trials if trial.arm != "APE" or trial.dataset.name == "Parity"]
    ranks = ranking(study, [scored(trial, result(trial, PAST[trial.arm])) for trial in some])
    assert ranks is not None
    assert ranks.pairs == 2
    assert ranking(study, []) is None


def test_the_published_order_agrees_with_itself_and_its_reverse_does_not(study: Study) -> None:
    published = {name: data["pooled"] for name, data in study.published["datasets"].items()}
    same = agreement(study, [scored(t, result(t, published[t.dataset.name][t.arm])) for t in study.trials], published)
    reverse = agreement(
        study, [scored(t, result(t, 1 - published[t.dataset.name][t.arm])) for t in study.trials], published
    )
    assert same is not None
    assert reverse is not None
    assert (same.mean, reverse.mean) == pytest.approx((1.0, -1.0))
    assert same.datasets == 3


def test_the_best_of_a_dataset_may_be_several(study: Study) -> None:
    scores = [scored(trial, result(trial, 0.5 if trial.arm in ("T5", "APE") else 0.2)) for trial in study.trials]
    assert set(map(tuple, best_on(study, scores).values())) == {("T5", "APE")}
    alike = [scored(trial, result(trial, 0.5)) for trial in study.trials]
    assert set(map(tuple, best_on(study, alike).values())) == {()}


def test_the_published_accuracies_give_the_published_claims(study: Study) -> None:
    whole = studies["kazemnejad2023"](Choice(seeds=1))
    published = {name: data["pooled"] for name, data in whole.published["datasets"].items()}
    scores = [scored(t, result(t, published[t.dataset.name][t.arm])) for t in whole.trials]
    found = {claim.letter: claim for claim in claims(whole, scores, {})}
    assert found["c"].answer == "holds here"
    assert found["d"].answer == "holds here"
    assert [found[letter].answer for letter in "efg"] == ["can't be told"] * 3
    ranks = ranking(whole, scores)
    assert ranks is not None
    assert max(zip(ranks.mean, ranks.arms, strict=True))[1] == "NoPE"
    assert rank_difference(whole, scores, "NoPE", "APE")[1] > 0


def test_a_claim_on_attention_goes_by_the_true_divergence(study: Study) -> None:
    near = {"true": {"T5": {5: [0.1]}, "ALiBi": {5: [0.2]}, "NoPE (another seed)": {5: [0.05]}}}
    far = {"true": {"T5": {5: [0.3]}, "ALiBi": {5: [0.2]}}}
    answers = [next(c.answer for c in claims(study, [], distances) if c.letter == "e") for distances in (near, far)]
    assert answers == ["holds here", "does not"]


def test_results_come_back_from_their_small_files_and_another_experiments_is_refused(
    study: Study, tmp_path: object
) -> None:
    files = ResultFiles(Path(str(tmp_path)))
    first = study.trials[0]
    files.write(first, result(first, 0.25))
    stored = files.read(study.trials)
    assert list(stored) == [first]
    assert stored[first].scores == result(first, 0.25).scores
    other = replace(first, experiment=replace(first.experiment, test_examples=7))
    path = Path(str(tmp_path)) / "trials" / f"{first.experiment.address}.json"
    path.rename(path.with_name(f"{other.experiment.address}.json"))
    with pytest.raises(lw.StorageError, match="another experiment"):
        files.read([other])


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"scale": "huge"}, "a study has small, medium, paper"),
        ({"seeds": 0}, "at least 1"),
        ({"tasks": ("Sortin single",)}, "no dataset 'Sortin single'"),
    ],
)
def test_a_choice_without_sense_is_refused(choice: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        studies["kazemnejad2023"](Choice(**choice))  # pyright: ignore[reportArgumentType]


def test_a_dataset_is_found_by_its_task_too() -> None:
    names = {one.name for one in studies["kazemnejad2023"](Choice(tasks=("repeat",))).datasets}
    assert names == {"Copy V1 (repeat one token)", "Copy V1 2x"}


def test_the_study_has_seventeen_datasets_in_three_categories_and_every_experiment_once() -> None:
    whole = studies["kazemnejad2023"](Choice(seeds=3))
    assert len(whole.datasets) == 17
    counts = {
        category: sum(one.category == category for one in whole.datasets)
        for category in whole.published["mean_reciprocal_rank"]
    }
    assert (counts["primitive"], counts["mathematics_and_reasoning"], counts["SCAN_and_PCFG"]) == (8, 7, 2)
    experiments: list[Experiment] = [trial.experiment for trial in whole.trials]
    assert len(set(experiments)) == len(experiments) == 17 * 5 * 3


def test_the_paper_scale_has_the_published_model_and_training() -> None:
    one = studies["kazemnejad2023"](Choice(scale="paper", tasks=("Copy V1 (",), seeds=1)).trials[0].experiment
    assert (one.model.dim, one.model.layers, one.model.heads, one.model.hidden) == (768, 12, 12, 3072)
    assert (one.training.steps, one.training.batch, one.training.learning_rate) == (40_000, 64, 3e-5)
    assert (one.train_length, one.test_lengths[-1]) == (20, 40)


def test_every_figure_of_the_page_can_be_drawn(tmp_path: Path) -> None:
    study = studies["kazemnejad2023"](Choice(tasks=("Addition", "Parity"), seeds=2, scratchpads=("full",)))
    distances = {
        variant: {"T5": {5: [0.1], 6: [0.2]}, "ALiBi": {5: [0.2], 6: [0.3]}, "NoPE (another seed)": {5: [0.05]}}
        for variant in ("true", "authors")
    }
    reach = {
        name: {"NoPE": [[0.5, 0.5], [0.7, 0.3]], "T5": [[1.0, 0.0]], "FIRE": [[0.0, 1.0]]}
        for name in ("Addition", "elsewhere")
    }
    results = {trial: result(trial, PAST[trial.arm]) for trial in study.trials}
    page = write_study_page(findings(study, results, distances, reach), tmp_path / "page.html").read_text()
    data = json.loads(page.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert len(data["figures"]) == 1 + 2 + 1 + 1 + len(study.datasets)
    for name, spec in data["figures"].items():
        assert f'id="{name}"' in page
        assert "<svg" in vl_convert.vegalite_to_svg({**spec, "config": data["themes"]["light"]})
    assert [row["share"] for row in data["figures"]["figure-reach"]["datasets"]["rows"]] == [0.6, 0.4, 1.0, 0.0]
    assert "On Addition: for every query" in page


def test_formats_are_ranked_within_each_dataset_encoding_and_seed() -> None:
    study = studies["kazemnejad2023"](Choice(tasks=("Addition",), seeds=2, scratchpads=("full", "minimal")))
    past = {"": 0.1, "full": 0.3, "minimal": 0.2}
    scores = [
        scored(trial, result(trial, past[trial.dataset.scratchpad]))
        for trial in study.trials
        if (trial.arm, trial.experiment.seed, trial.dataset.scratchpad) != ("APE", 1, "full")
    ]
    (one,) = formats(study, scores)
    assert (one.dataset, one.pairs) == ("Addition", 9)
    assert one.rank == pytest.approx({"none": 1 / 3, "full": 1.0, "minimal": 1 / 2})
    assert one.past == pytest.approx({"none": 0.1, "full": 0.3, "minimal": 0.2})
    assert formats(study, [one for one in scores if not one.trial.dataset.plain]) == []


def test_published_formats_are_those_of_the_six_datasets() -> None:
    ranks = kazemnejad2023.published()["formats"]["rank"]
    assert set(ranks) == set(kazemnejad2023.SCRATCHPADS)
    assert all(set(row) <= set(FORMATS) for row in ranks.values())
    assert max(ranks["Addition"], key=ranks["Addition"].get) == "no variables"


def test_what_was_read_off_models_is_kept_where_they_are_gone_and_fewer_seeds_do_not_take_its_place() -> None:
    before = {"true": {"T5": {"5": [0.1, 0.2]}, "APE": {"5": [0.3]}}}
    found = {"true": {"T5": {"5": [0.9], "6": [0.9]}, "APE": {"5": [0.4]}}, "authors": {"T5": {"5": [0.5]}}}
    assert attention._merged(before, found) == {
        "true": {"T5": {"5": [0.1, 0.2], "6": [0.9]}, "APE": {"5": [0.4]}},
        "authors": {"T5": {"5": [0.5]}},
    }
    assert attention._merged(before, {"true": {}, "authors": {}}) == before | {"authors": {}}
