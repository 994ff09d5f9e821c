"""`lengthwise agree`: a table, paragraphs, JSON and a page."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import lengthwise.cli.agree as verb
from lengthwise.agreement import TOLERANCE, Comparison
from lengthwise.agreement.ours import rotated
from lengthwise.agreement.peers import module
from lengthwise.agreement.place import Place

Cli = Callable[..., Any]


def wrong(place: Place) -> Tensor:
    return rotated("rotary")(place) + 0.5


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    right = Comparison("rotary", "torch", "right", "rotated q and k", rotated("rotary"), rotated("rotary"))
    bad = Comparison("rotary", "torch", "wrong", "rotated q and k", rotated("rotary"), wrong, why="half off: {float32}")
    missing = Comparison("alibi", "nobody-has-it", "any", "bias", wrong, wrong)
    monkeypatch.setattr(verb, "COMPARISONS", (right, bad, missing))


@pytest.mark.usefixtures("few")
def test_the_table_has_a_line_for_each_comparison_and_a_paragraph_for_the_wrong_one(cli: Cli) -> None:
    called = cli("agree")
    assert called.code == 0
    lines = called.out.splitlines()
    assert max(map(len, lines)) < 100
    rows = {line.split()[1]: line for line in lines if line.startswith(("rotary", "alibi"))}
    assert rows["right"].split()[2:] == ["0"] * 6
    assert len(rows["wrong"].split()[2:]) == 6
    assert all(cell.endswith("*") for cell in rows["wrong"].split()[2:])
    assert rows["any"].split()[2:] == ["missing"] * 6
    assert any(line.startswith("nobody-has-it (not installed)") for line in lines)
    assert "half off: 0." in called.out
    assert "\x1b" not in called.out


@pytest.mark.usefixtures("few")
def test_json_parses_and_holds_every_number_with_its_tolerance_and_nothing_else_is_printed(cli: Cli) -> None:
    told = json.loads(cli("agree", "--json").out)
    assert len(told["rows"]) == 18
    assert {(row["part"], row["status"]) for row in told["rows"]} == {
        ("right", "agrees"),
        ("wrong", "differs"),
        ("any", "not installed"),
    }
    assert told["peers"] == {"torch": torch.__version__, "nobody-has-it": None}
    assert told["tolerance"] == {"float32": TOLERANCE[torch.float32], "bfloat16": TOLERANCE[torch.bfloat16]}
    assert all(row["tolerance"] == told["tolerance"][row["dtype"]] for row in told["rows"])
    assert len(told["paragraphs"]) == 1


@pytest.mark.usefixtures("few")
def test_a_page_is_written_and_named(cli: Cli, tmp_path: Path) -> None:
    called = cli("agree", "rotary", "--write", "page.md")
    assert called.out.rstrip().endswith("page: page.md")
    written = (tmp_path / "page.md").read_text()
    assert "1 of 2 comparisons agree at all places" in written
    assert "| `rotary` | torch: wrong |" in written
    assert "nobody-has-it" not in written


def test_names_choose_what_is_compared_and_an_unknown_one_is_told_with_the_nearest(cli: Cli) -> None:
    called = cli("agree", "alibbi")
    assert (called.code, called.out) == (2, "")
    assert "no peer has the encoding 'alibbi': did you mean 'alibi'?" in called.err


def test_a_peer_that_does_not_load_is_told_in_one_line_and_the_others_are_compared(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "old_peer.py").write_text("raise ImportError('another torch is needed')")
    monkeypatch.syspath_prepend(tmp_path)

    def both(place: Place) -> tuple[Tensor, Tensor]:
        module("old_peer").anything()
        return place.index, place.index

    right = Comparison("rotary", "torch", "right", "rotated q and k", rotated("rotary"), rotated("rotary"))
    old = [
        Comparison("t5", "pytest", part, "bias", lambda place: both(place)[0], lambda place: both(place)[1])
        for part in ("one", "two")
    ]
    monkeypatch.setattr(verb, "COMPARISONS", (*old, right))
    called = cli("agree")
    assert called.code == 0
    assert called.out.count("ImportError: it does not load: another torch is needed") == 1
    assert "pytest: all 2 comparisons" in called.out
    rows = {line.split()[1]: line.split()[2:] for line in called.out.splitlines() if line.startswith(("rotary", "t5"))}
    assert rows["one"] == rows["two"] == ["failed"] * 6
    assert rows["right"] == ["0"] * 6


def test_real_peers_are_compared(cli: Cli) -> None:
    told = json.loads(cli("agree", "t5", "--json").out)
    assert {row["encoding"] for row in told["rows"]} == {"t5", "t5(bidirectional=False)", "t5(bidirectional=True)"}
    assert {row["status"] for row in told["rows"]} <= {"agrees", "differs"}
