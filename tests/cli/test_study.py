from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lengthwise.studies import kazemnejad2023, search

Cli = Callable[..., Any]


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rungs = ({"layers": 1, "steps": 2, "learning_rate": 1e-3},)
    monkeypatch.setattr(kazemnejad2023, "RUNGS", rungs)
    monkeypatch.setattr(search, "RUNGS", rungs)
    monkeypatch.chdir(tmp_path)


ASKED = ("study", "kazemnejad2023", "--tasks", "Parity", "--seeds", "1", "--jobs", "1", "--device", "cpu")


def test_a_study_trains_ranks_and_writes_a_page_and_goes_on_from_its_result_files_alone(
    cli: Cli, tmp_path: Path
) -> None:
    first = cli(*ASKED)
    assert first.code == 0
    assert "0 of 5 trials are done, 5 to run" in first.err
    for words in ("Parity", "NoPE", "published", "(a)", "(g)", "trained lengths"):
        assert words in first.out
    page = (tmp_path / "study.html").read_text()
    assert "Parity" in page
    assert not any(f'{attribute}="http' in page for attribute in ("src", "href"))
    stored = sorted((tmp_path / "results" / "kazemnejad2023-small" / "trials").iterdir())
    assert len(stored) == 5
    assert all(path.stat().st_size < 10_000 for path in stored)
    shutil.rmtree(tmp_path / "runs")
    stored[0].unlink()  # a broken study
    again = cli(*ASKED)
    assert "4 of 5 trials are done, 1 to run" in again.err
    assert again.out == first.out


def test_a_search_keeps_its_settings_beside_the_results(cli: Cli, tmp_path: Path) -> None:
    called = cli(*ASKED, "--encodings", "NoPE", "--search")
    assert called.code == 0
    assert "layers 1, steps 2, learning rate 0.001" in called.out
    assert (tmp_path / "results" / "kazemnejad2023-small" / "settings.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("study", "kazemnejad2024"), "did you mean 'kazemnejad2023'"),
        ((*ASKED[:2], "--tasks", "Addtion"), "did you mean"),
        ((*ASKED, "--scale", "paper", "--search"), "settings are searched for at --scale small"),
        ((*ASKED, "--encodings", "rotory"), "rotory"),
        ((*ASKED[:-4], "--jobs", "-1"), "jobs must be at least"),
    ],
)
def test_what_can_not_be_done_is_told_in_one_line(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    called = cli(*arguments)
    assert called.code == 2
    assert message in called.err
