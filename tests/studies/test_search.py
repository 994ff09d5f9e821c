from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.lab.run import run
from lengthwise.studies import Choice, kazemnejad2023
from lengthwise.studies import search as searching
from lengthwise.studies.study import ResultFiles

RUNGS = tuple({"layers": 1, "steps": steps, "learning_rate": 1e-3} for steps in (1, 3, 5))
"""None of them teaches anything."""


def test_a_search_looks_at_trained_lengths_alone_and_leaves_the_last_rung_to_what_no_other_is_enough_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "RUNGS", RUNGS)
    seen: list[Experiment] = []

    def train(experiments: Sequence[Experiment]) -> list[Result]:
        seen.extend(experiments)
        return [run(one, runs=tmp_path, device="cpu") for one in experiments]

    chosen, tried = searching.search(Choice(tasks=("Parity",), encodings=("NoPE", "ALiBi")), train)
    assert [row["setting"] for row in tried] == [dict(rung) for rung in RUNGS[:2]]
    assert all(list(row["reached"]) == ["NoPE"] for row in tried), "an encoding that fails ends its rung"
    assert chosen == {"Parity": dict(RUNGS[-1])}
    assert all(max(one.test_lengths) <= one.train_length for one in seen)
    assert {one.seed for one in seen} == {searching.SEARCH_SEED}


def test_a_search_takes_the_first_rung_at_which_every_encoding_is_good_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "RUNGS", RUNGS)
    monkeypatch.setattr(searching, "TRAINED", 0.0)

    def train(experiments: Sequence[Experiment]) -> list[Result]:
        return [run(one, runs=tmp_path, device="cpu") for one in experiments]

    chosen, tried = searching.search(Choice(tasks=("Parity", "SCAN"), encodings=("NoPE", "ALiBi")), train)
    assert chosen == {"Parity": dict(RUNGS[0]), "SCAN": dict(RUNGS[0])}
    assert [list(row["reached"]) for row in tried] == [["NoPE", "ALiBi"]] * 2


def test_what_a_search_chose_is_what_the_study_trains_with() -> None:
    setting = {"layers": 3, "steps": 77, "learning_rate": 5e-4}
    study = kazemnejad2023.kazemnejad2023(Choice(tasks=("Parity",), seeds=1, settings={"Parity": setting}))
    assert {trial.experiment.model.layers for trial in study.trials} == {3}
    assert {trial.experiment.training.steps for trial in study.trials} == {77}


def test_a_second_search_keeps_what_the_first_one_tried_elsewhere(tmp_path: Path) -> None:
    files, setting = ResultFiles(tmp_path), {"layers": 2, "steps": 5, "learning_rate": 1e-3}
    for name in ("Parity", "SCAN", "Parity"):
        files.write_search({name: setting}, [{"dataset": name, "setting": setting, "reached": {"NoPE": 1.0}}])
    assert files.settings() == {"Parity": setting, "SCAN": setting}
    tried = json.loads((tmp_path / "settings.json").read_text())["tried"]
    assert [row["dataset"] for row in tried] == ["SCAN", "Parity"]
