from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.lab.run import run
from lengthwise.studies import Choice, kazemnejad2023
from lengthwise.studies import search as searching


def test_a_search_trains_on_trained_lengths_alone_and_takes_the_best_rung_where_none_is_good_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rungs = ({"layers": 1, "steps": 1, "learning_rate": 1e-3}, {"layers": 1, "steps": 3, "learning_rate": 1e-3})
    monkeypatch.setattr(searching, "RUNGS", rungs)
    seen: list[Experiment] = []

    def train(experiments: Sequence[Experiment]) -> list[Result]:
        seen.extend(experiments)
        return [run(one, runs=tmp_path, device="cpu") for one in experiments]

    choice = Choice(tasks=("Parity",), encodings=("NoPE", "ALiBi"))
    chosen, tried = searching.search(choice, train)
    assert len(tried) == 2
    assert [row["setting"] for row in tried] == [dict(rung) for rung in rungs]
    best = max(tried, key=lambda row: min(row["reached"].values()))
    assert chosen == {"Parity": best["setting"]}
    assert all(max(one.test_lengths) <= one.train_length for one in seen)
    assert {one.seed for one in seen} == {searching.SEARCH_SEED}


def test_what_a_search_chose_is_what_the_study_trains_with() -> None:
    setting = {"layers": 3, "steps": 77, "learning_rate": 5e-4}
    study = kazemnejad2023.kazemnejad2023(Choice(tasks=("Parity",), seeds=1, settings={"Parity": setting}))
    assert {trial.experiment.model.layers for trial in study.trials} == {3}
    assert {trial.experiment.training.steps for trial in study.trials} == {77}
