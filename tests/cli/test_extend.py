"""`lengthwise extend` from end to end on a tiny model, and everything that it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lengthwise.lab import Experiment, Training, run
from lengthwise.models.config import ModelConfig

Cli = Callable[..., Any]
TINY = ModelConfig(dim=16, layers=1, heads=2)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rotary and ALiBi, trained to sort 4 and tested at 4 and 8."""
    folder = tmp_path_factory.mktemp("runs")
    for encoding in ("rotary", "alibi"):
        for seed in range(2):
            experiment = Experiment(
                encoding, "sort(symbols=4)", 4, (4, 8), seed, model=TINY, training=Training(12, 4), test_examples=8
            )
            run(experiment, runs=folder, device="cpu")
    return folder


def test_trained_models_are_extended_and_shown_in_a_table_a_page_and_a_file(cli: Cli, runs: Path) -> None:
    called = cli("extend", runs, "--methods", "interpolate(2)", "ntk(2)")
    assert called.code == 0, called.err
    assert "alibi: sort(symbols=4), trained at 4 symbols to sort" in called.out
    assert called.out.count("interpolate(factor=2)") >= 2
    assert "Left out: ntk(2) (it changes the frequencies" in " ".join(called.out.split())
    assert "report:" in called.out
    assert "ntk(factor=2)" in Path("extend.html").read_text()
    measured = json.loads(Path("extend.json").read_text())["measured"]
    assert len(measured) == 2 * 2 * (3 + 2)  # seeds, lengths, and untouched and methods of each encoding


def test_the_same_command_again_measures_nothing_and_says_the_same(cli: Cli, runs: Path) -> None:
    first = cli("extend", runs, "--methods", "log_n")
    before = Path("extend.json").stat().st_mtime_ns
    assert cli("extend", runs, "--methods", "log_n").out == first.out
    assert Path("extend.json").stat().st_mtime_ns == before


def test_an_unknown_method_suggests_one_and_writes_nothing(cli: Cli, runs: Path) -> None:
    called = cli("extend", runs, "--methods", "intrepolate(2)")
    assert called.code == 2
    assert "interpolate" in called.err.replace("intrepolate", "")
    assert not Path("extend.html").exists()


def test_methods_that_no_run_can_take_are_an_error_with_the_reason(cli: Cli, runs: Path) -> None:
    called = cli("extend", runs, "--methods", "resample(20)")
    assert called.code == 2
    assert "no run can take any of these methods: resample(20): it changes a learned table" in called.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["RUNS", "--lengths", "0"], "--lengths are at least 1, not 0"),
        (["RUNS", "--device", "tpu9"], "can't be used here"),
        (["RUNS", "--methods", "interpolate(0.5)"], "at least 1"),
    ],
)
def test_what_cannot_work_is_one_clear_line(cli: Cli, runs: Path, arguments: list[str], message: str) -> None:
    called = cli("extend", *(runs if one == "RUNS" else one for one in arguments))
    assert called.code == 2
    assert message in called.err
    assert "Traceback" not in called.err


def test_a_run_without_weights_says_so_before_anything_is_measured(cli: Cli, tmp_path: Path) -> None:
    experiment = Experiment("rotary", "sort(symbols=4)", 4, (4,), model=TINY, training=Training(2, 4), test_examples=2)
    run(experiment, runs=tmp_path / "runs", device="cpu")
    next((tmp_path / "runs").glob("*/model.safetensors")).unlink()
    called = cli("extend", tmp_path / "runs")
    assert called.code == 2
    assert "no trained weights at" in called.err
    assert not Path("extend.json").exists()
