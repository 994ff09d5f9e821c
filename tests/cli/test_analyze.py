from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lengthwise.analysis import probes
from lengthwise.lab.experiment import Experiment, Training
from lengthwise.lab.run import run
from lengthwise.models.config import ModelConfig

Cli = Callable[..., Any]

MODEL = ModelConfig(dim=16, layers=1, heads=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for encoding, seed in (("none", 0), ("none", 1), ("learned", 0)):
        training = Training(steps=3, batch=4)
        one = Experiment(encoding, "sort(symbols=4)", 4, (4, 6), seed, MODEL, training, test_examples=4)
        run(one, runs=folder, device="cpu")
    return folder


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small network takes most of the time of a command, and has tests of its own."""
    monkeypatch.setattr(probes, "_small_network", lambda x, y, x_new, seed: torch.zeros(len(x_new)))


def test_models_of_a_task_are_looked_at_compared_and_written(cli: Cli, runs: Path, tmp_path: Path) -> None:
    called = cli("analyze", runs, "--examples", "4", "--json", "a.json")
    assert called.code == 0
    for words in ("sort(symbols=4), trained at 4", "With 6 symbols", "shuffled", "learned and none", "another seed"):
        assert words in called.out
    assert "[3/3]" in called.err
    assert (tmp_path / "analysis.html").stat().st_size > 100_000
    (found,) = json.loads((tmp_path / "a.json").read_text())["groups"]
    assert len(found["models"]) == 3
    assert list(found["attention_distance"]) == ["4", "6"]
    assert [(one["encoding"], one["layer"], one["head"]) for one in found["heads"]] == [
        ("learned", 1, 1),
        ("learned", 1, 2),
    ]


def test_a_head_is_drawn_for_each_encoding(cli: Cli, runs: Path, tmp_path: Path) -> None:
    folders = [next(runs.glob(f"*-{name}-s0-*")) for name in ("none", "learned")]
    called = cli("analyze", *folders, "--examples", "4", "--lengths", "5", "--head", "1", "2", "--json", "a.json")
    assert called.code == 0
    (found,) = json.loads((tmp_path / "a.json").read_text())["groups"]
    assert [(one["encoding"], one["head"]) for one in found["heads"]] == [("learned", 2), ("none", 2)]
    assert list(found["attention_distance"]) == ["5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--examples", "3"), "--examples must be at least 4"),
        (("--head", "2", "1"), "layers 1 to 1 and heads 1 to 2"),
        (("--lengths", "0"), "the length of Sort"),
        (("--lengths", "50"), "outside the learned table"),
    ],
)
def test_what_can_not_be_looked_at_is_told_in_one_line(
    cli: Cli, runs: Path, arguments: tuple[str, ...], message: str
) -> None:
    called = cli("analyze", runs, *arguments)
    assert called.code == 2
    assert message in called.err
    assert not Path("analysis.html").exists()


def test_a_place_without_runs_is_told(cli: Cli, tmp_path: Path) -> None:
    called = cli("analyze", tmp_path)
    assert called.code == 2
    assert "holds no runs" in called.err
