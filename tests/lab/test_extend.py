"""Trained models past their length: settings that reach, weights that stay, tests that are those of the laboratory."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import lengthwise as lw
from lengthwise.build import build_method
from lengthwise.errors import InvalidArgument, StorageError, UnknownName
from lengthwise.extension import effective_distance, extensions
from lengthwise.lab import Experiment, load_model, run
from lengthwise.lab.extend import Run, extend_run, find_runs
from lengthwise.lab.extend_model import encodings_of, extended_model
from lengthwise.lab.extend_settings import for_lengths, forms, spec_of
from lengthwise.lab.extend_store import UNTOUCHED, Key, Measured, Measurements

Tiny = Callable[..., Experiment]
Trained = Callable[..., Run]
LENGTHS = [(128, 1024), (128, 128), (100, 333), (6, 24), (3, 4), (2, 2)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, tiny: Tiny, book: Path) -> Trained:
    """`trained("rotary")`: a run on disk; `text=True` reads the book, trained to 16 and tested to 48."""
    made: dict[str, Run] = {}

    def make(encoding: str, *, text: bool = False, **changes: Any) -> Run:
        name = f"{encoding} {text} {changes}"
        if name not in made:
            given: dict[str, Any] = {"encoding": encoding} | changes
            if text:
                given |= {"task": f"text(paths=[{str(book)!r}])", "train_length": 16, "test_lengths": (16, 32, 48)}
                given |= {"test_examples": 4}
            folder = tmp_path_factory.mktemp("runs")
            run(tiny(**given), runs=folder, device="cpu")
            (made[name],) = find_runs([folder])[0]
        return made[name]

    return make


@pytest.fixture
def store(tmp_path: Path) -> Measurements:
    return Measurements(tmp_path / "extend.json")


# --- settings ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("short", "long"), LENGTHS)
@pytest.mark.parametrize("name", sorted(extensions))
def test_every_kind_has_settings_for_any_lengths_or_says_that_lengths_decide_none(
    name: str, short: int, long: int
) -> None:
    method = for_lengths(extensions[name], short, long)
    if method is None:
        assert name in ("pose", "randomize", "resample_grid", "ssmax")
    else:
        assert type(method) is extensions[name]
        assert forms(extensions[name], short, long)[0] == method


def test_a_factor_is_the_target_over_the_trained_length_and_never_rounded_down() -> None:
    assert for_lengths(lw.Interpolate, 128, 1024) == lw.Interpolate(8.0)
    assert for_lengths(lw.YaRN, 100, 333) == lw.YaRN(3.33, original_length=100)
    method = for_lengths(lw.Interpolate, 3, 10)
    assert isinstance(method, lw.Interpolate)
    assert 10 / 3 <= method.factor < 10 / 3 + 1e-3


@pytest.mark.parametrize("name", ["interpolate", "ntk", "yarn", "llama3", "self_extend", "constant_temperature"])
def test_a_target_that_was_trained_asks_for_no_change(name: str) -> None:
    for target in (64, 128):
        method = for_lengths(extensions[name], 128, target)
        assert method is not None
        assert method.identity


@pytest.mark.parametrize("short", [16, 100, 128])
@pytest.mark.parametrize("times", [2, 8])
@pytest.mark.parametrize("kind", [lw.SelfExtend, lw.ReRoPE, lw.DualChunk, lw.StreamingLLM, lw.LMInfinite])
def test_methods_of_pairs_make_no_distance_that_training_had_not(kind: type[Any], short: int, times: int) -> None:
    for method in forms(kind, short, times * short):
        distance = effective_distance(method, times * short - 1)
        assert distance[distance.isfinite()].max() <= short - 2


def test_a_spec_says_a_method_so_that_it_can_be_built_again() -> None:
    dims = lw.Dims(dim=8, heads=2, head_dim=4, trained_length=128)
    for _, kind in extensions.items():
        for method in forms(kind, 128, 1000):
            assert build_method(spec_of(method), dims) == method
            assert build_method(spec_of(method, leave_out=("original_length",)), dims) == method


# --- models -----------------------------------------------------------------------------------------------------


def test_the_extended_model_shares_its_weights_with_the_trained_one(trained: Trained) -> None:
    model, _ = load_model(trained("rotary").folder)
    longer, _ = extended_model(model, lw.Interpolate(2.0), 9, 20)
    own = {id(one) for one in model.parameters()}
    assert {id(one) for one in longer.parameters()} == own
    assert longer is not model
    assert not hasattr(encodings_of(model)[0], "method")


def test_each_layer_is_extended_and_shared_encodings_stay_shared(trained: Trained) -> None:
    shared, _ = load_model(trained("rotary", layers=2).folder)
    first, second = encodings_of(extended_model(shared, lw.Interpolate(2.0), 9, 20)[0])
    assert first is second
    own, _ = load_model(trained("cable", layers=2).folder)
    made = encodings_of(extended_model(own, lw.LogN(9), 9, 20)[0])
    assert made[0] is not made[1]
    for before, after in zip(encodings_of(own), made, strict=True):
        assert isinstance(after, lw.Extended)
        weights = dict(before.named_parameters())
        assert weights
        assert all(torch.equal(one, weights[name]) for name, one in after.encoding.named_parameters())


def test_tables_are_stretched_from_their_trained_rows_alone(trained: Trained) -> None:
    model, _ = load_model(trained("learned", text=True).folder)
    (before,) = encodings_of(model)
    assert before.max_position == 47
    longer, untrained = extended_model(model, lw.Resample(47), 15, 47)
    table = encodings_of(longer)[0].table
    assert not untrained
    assert torch.equal(table, lw.Resample(47).map_table(before.table[:15]))  # pyright: ignore


def test_a_temperature_leaves_untrained_rows_in_the_table_and_this_is_told(trained: Trained) -> None:
    model, _ = load_model(trained("learned", text=True).folder)
    assert extended_model(model, lw.LogN(16), 15, 47)[1]
    assert not extended_model(model, lw.LogN(16), 15, 15)[1]
    assert extended_model(model, None, 15, 47)[1]


def test_a_method_that_a_model_cannot_take_says_why(trained: Trained) -> None:
    model, _ = load_model(trained("alibi").folder)
    with pytest.raises(InvalidArgument, match="NTK can't extend this model: it changes the frequencies"):
        extended_model(model, lw.NTK(2.0), 9, 20)


# --- measurements -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["rotary", "learned", "t5"])
@pytest.mark.parametrize("text", [False, True])
def test_the_untouched_model_scores_what_it_scored_when_it_was_trained(
    trained: Trained, store: Measurements, encoding: str, text: bool
) -> None:
    one = trained(encoding, text=text)
    found = extend_run(one, store, specs=["log_n"])
    assert found.lengths == one.result.experiment.test_lengths
    for name, scores in one.result.scores.items():
        assert [row.scores[name] for row in found.measured[UNTOUCHED]] == pytest.approx(scores, abs=1e-9)


@pytest.mark.parametrize("spec", ["interpolate(1)", "yarn(1)", "dynamic_ntk(2)", "self_extend(1, 4)", "log_n"])
def test_at_the_trained_length_what_changes_nothing_scores_as_the_untouched_model(
    trained: Trained, store: Measurements, spec: str
) -> None:
    found = extend_run(trained("rotary", text=True), store, specs=[spec])
    untouched, extended = (rows[0].scores["bits_per_byte"] for rows in found.measured.values())
    assert extended == pytest.approx(untouched, abs=1e-6)


def test_a_factor_changes_the_scores(trained: Trained, store: Measurements) -> None:
    found = extend_run(trained("rotary", text=True), store, specs=["interpolate(3)"])
    assert found.measured["interpolate(factor=3)"] != found.measured[UNTOUCHED]


@pytest.mark.parametrize("encoding", ["rotary", "learned", "sinusoidal", "alibi", "t5", "none"])
def test_every_extension_that_applies_is_measured_with_finite_scores(
    trained: Trained, store: Measurements, encoding: str
) -> None:
    one = trained(encoding, text=True)
    found = extend_run(one, store)
    model, _ = load_model(one.folder)
    able = {name for name, kind in extensions.items() if any(lw.applies(e, kind) for e in encodings_of(model))}
    seen = {label.partition("(")[0] for label in found.measured} - {UNTOUCHED}
    assert seen == able - {"pose", "randomize", "resample_grid", "ssmax"}
    assert all(math.isfinite(row.scores["bits_per_byte"]) for rows in found.measured.values() for row in rows)
    untrained = {label.partition("(")[0] for label, rows in found.measured.items() if rows[-1].untrained}
    assert untrained == ({UNTOUCHED, "log_n", "constant_temperature"} if encoding == "learned" else set())


def test_what_follows_the_length_is_told_the_tested_one(trained: Trained, store: Measurements) -> None:
    found = extend_run(trained("rotary", text=True), store, specs=["dynamic_ntk(1)", "ntk(3)", "ntk(2)"])
    dynamic, triple, double = list(found.measured.values())[1:]
    assert dynamic[2].scores == pytest.approx(triple[2].scores, abs=1e-6)
    assert dynamic[1].scores == pytest.approx(double[1].scores, abs=1e-6)


def test_settings_for_each_length_are_those_of_its_own_factor(trained: Trained, store: Measurements) -> None:
    found = extend_run(trained("alibi", text=True), store, each=True)
    rows = found.measured["interpolate at each length"]
    assert rows[0].scores == pytest.approx(found.measured[UNTOUCHED][0].scores)
    assert rows[2] == found.measured["interpolate(factor=3)"][2]
    double = extend_run(trained("alibi", text=True), store, specs=["interpolate(2)"]).measured["interpolate(factor=2)"]
    assert rows[1] == double[1]
    assert "clamp at each length" not in found.measured


def test_what_is_in_the_store_is_not_measured_again(trained: Trained, store: Measurements) -> None:
    one = trained("rotary")
    first = extend_run(one, store, specs=["ntk(2)", "drope"])
    seen: list[str] = []
    again = extend_run(one, Measurements(store.path), specs=["ntk(2)", "drope"], on_progress=seen.append)
    assert again.measured == first.measured
    assert not seen
    gone = next(key for key in store.found if key.method == "drope" and key.length == 6)
    del store.found[gone]
    store.write({})
    assert extend_run(one, Measurements(store.path), specs=["ntk(2)", "drope"], on_progress=seen.append) == first
    assert seen == ["drope"]


def test_a_table_that_ends_before_a_length_has_no_score_there(trained: Trained, store: Measurements) -> None:
    specs = ["log_n", "resample(20)", "resample(63)"]
    found = extend_run(trained("learned", text=True), store, specs=specs, lengths=[16, 64])
    ends = {
        label: [math.isfinite(row.scores["bits_per_byte"]) for row in rows] for label, rows in found.measured.items()
    }
    assert ends == {
        UNTOUCHED: [True, False],
        "log_n": [True, False],
        "resample(length=20)": [True, False],
        "resample(length=63)": [True, True],
    }
    assert Measurements(store.path).found.keys() == store.found.keys()  # no score is still valid JSON to read


def test_a_method_for_other_encodings_is_left_out_with_the_reason(trained: Trained, store: Measurements) -> None:
    found = extend_run(trained("alibi"), store, specs=["yarn(2)", "interpolate(2)"])
    assert list(found.measured) == [UNTOUCHED, "interpolate(factor=2)"]
    assert "frequencies" in found.left_out["yarn(2)"]


def test_an_unknown_method_suggests_one(trained: Trained, store: Measurements) -> None:
    with pytest.raises(UnknownName, match="yarn"):
        extend_run(trained("rotary"), store, specs=["yran(2)"])


# --- files ------------------------------------------------------------------------------------------------------


def test_a_run_without_weights_says_so(tmp_path: Path, tiny: Tiny) -> None:
    run(tiny(), runs=tmp_path, device="cpu")
    next(tmp_path.glob("*/model.safetensors")).unlink()
    with pytest.raises(StorageError, match=r"no trained weights at .*model\.safetensors"):
        find_runs([tmp_path])


def test_runs_that_are_not_done_are_named_and_none_at_all_is_an_error(tmp_path: Path, tiny: Tiny) -> None:
    run(tiny(), runs=tmp_path, device="cpu")
    run(tiny(seed=1), runs=tmp_path, device="cpu")
    first, second = sorted(tmp_path.glob("*/result.json"))
    first.unlink()
    runs, unfinished = find_runs([tmp_path, tmp_path])
    assert [one.folder for one in runs] == [second.parent]
    assert unfinished == [first.parent]
    second.unlink()
    with pytest.raises(StorageError, match=r"no run in .* is done"):
        find_runs([tmp_path])


@pytest.mark.parametrize("content", ["", "[]", '{"format": 1}', '{"format": 9, "measured": []}', "\xff"])
def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path, content: str) -> None:
    path = tmp_path / "extend.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(StorageError, match="--results"):
        Measurements(path)
    assert path.read_text(encoding="latin-1") == content


def test_measurements_come_back_as_they_were_written(store: Measurements) -> None:
    rows = {
        Key("run", "yarn(factor=8)", 16, "4 of 48"): Measured({"bits_per_byte": 2.5}),
        Key("run", UNTOUCHED, 48): Measured({"exact_match": 0.25, "symbol_accuracy": 0.5}, untrained=True),
    }
    store.write(rows)
    assert Measurements(store.path).found == rows
    assert json.loads(store.path.read_text())["format"] == 1
