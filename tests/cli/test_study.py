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


def test_encodings_of_ones_own_are_shown_beside_the_published_ones_and_not_ranked(cli: Cli, tmp_path: Path) -> None:
    called = cli(*ASKED, "--encodings", "none", "kerple")  # a spec of the publication is its arm
    assert called.code == 0
    assert "NoPE" in called.out
    assert "not ranked, for the publication has no such arm: KERPLE" in called.out
    assert "Not ranked, for the publication has no such arm: KERPLE." in (tmp_path / "study.html").read_text()
    alone = cli(*ASKED, "--encodings", "kerple")
    assert alone.code == 0
    assert "1 of 1 trials are done, 0 to run" in alone.err


def test_a_result_that_is_cut_in_half_is_named_and_the_others_are_left_alone(cli: Cli, tmp_path: Path) -> None:
    cli(*ASKED, "--encodings", "nope", "t5")
    stored = sorted((tmp_path / "results" / "kazemnejad2023-small" / "trials").iterdir())
    stored[0].write_text(stored[0].read_text()[:500])
    called = cli(*ASKED, "--encodings", "NoPE", "T5")
    assert called.code == 2
    assert f"{stored[0].name} holds no result" in called.err
    assert "delete this file, and the same command runs the trial again" in called.err
    stored[0].unlink()
    assert "1 of 2 trials are done, 1 to run" in cli(*ASKED, "--encodings", "NoPE", "T5").err


def test_a_page_of_stored_results_writes_nothing_else(cli: Cli, tmp_path: Path) -> None:
    cli(*ASKED, "--encodings", "NoPE", "T5", "--results", "stored")
    shutil.rmtree(tmp_path / "runs")
    (tmp_path / "study.html").unlink()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    called = cli(*ASKED, "--encodings", "NoPE", "T5", "--results", "stored", "--report", "page.html")
    assert called.code == 0
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}.keys() - before == {tmp_path / "page.html"}
    assert not (tmp_path / "runs").exists()


def test_a_search_keeps_its_settings_beside_the_results(cli: Cli, tmp_path: Path) -> None:
    called = cli(*ASKED, "--encodings", "NoPE", "--search")
    assert called.code == 0
    assert "layers 1, steps 2, learning rate 0.001" in called.out
    assert (tmp_path / "results" / "kazemnejad2023-small" / "settings.json").exists()
    assert "searched for anew" not in called.err
    again = cli(*ASKED, "--encodings", "NoPE", "--search")
    assert "has settings of 1 of these datasets already: they are searched for anew" in again.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("study", "kazemnejad2024"), "did you mean 'kazemnejad2023'"),
        ((*ASKED[:2], "--tasks", "Addtion"), "did you mean"),
        ((*ASKED, "--scale", "paper", "--search"), "settings are searched for at --scale small"),
        ((*ASKED, "--encodings", "NoPE", "rotory"), "did you mean 'rotary'?; arms of the study: NoPE, T5,"),
        ((*ASKED[:-4], "--jobs", "-1"), "jobs must be at least"),
    ],
)
def test_what_can_not_be_done_is_told_in_one_line(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    called = cli(*arguments)
    assert called.code == 2
    assert message in called.err
