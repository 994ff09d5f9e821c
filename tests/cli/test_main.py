"""From arguments to a verb, and from errors to one line and an exit code."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lengthwise import __version__
from lengthwise.cli import main
from lengthwise.cli.list import List
from lengthwise.errors import InvalidArgument

Cli = Callable[..., Any]
VERBS = ("list", "show", "compare", "report")


@pytest.mark.parametrize("arguments", [(), *((verb,) for verb in VERBS)], ids=lambda words: " ".join(words) or "alone")
def test_help_fits_a_screen_of_80_columns(cli: Cli, arguments: tuple[str, ...]) -> None:
    called = cli(*arguments, "--help")
    assert called.code == 0
    assert called.err == ""
    usage, *lines = called.out.rstrip().splitlines()
    assert usage.startswith(" ".join(("usage: lengthwise", *arguments)))
    assert len(usage) <= 2 * 80  # a terminal folds it
    assert 5 < len(lines) < 48
    assert max(map(len, lines)) <= 80


def test_the_command_alone_shows_its_help(cli: Cli) -> None:
    assert cli() == cli("--help")
    assert all(verb in cli().out for verb in VERBS)


def test_the_version_is_told(cli: Cli) -> None:
    assert cli("--version").out == f"lengthwise {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("cmpare",), "compare"),
        (("compare", "--seed", "3"), "--seeds"),
        (("compare", "--encoding", "none"), "--encodings"),
        (("show", "rotary", "--polt", "x.png"), "--plot"),
        (("show",), "NAME"),
        (("compare", "--seeds", "two"), "seeds"),
        (("report", "runs", "--outptu", "x"), "--output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_an_unknown_verb_or_option_or_a_wrong_value_is_told_with_a_hint(
    cli: Cli, arguments: tuple[str, ...], hint: str
) -> None:
    called = cli(*arguments)
    assert called.code == 2
    assert called.out == ""
    assert hint.lower() in called.err.lower()
    assert "Traceback" not in called.err


@pytest.mark.parametrize("arguments", [("show", "rotray"), ("report", "nowhere"), ("compare", "--seeds", "0")])
def test_an_error_is_one_line_and_a_traceback_only_when_asked_for(cli: Cli, arguments: tuple[str, ...]) -> None:
    plain = cli(*arguments)
    assert plain.code == 2
    assert plain.out == ""
    assert plain.err.startswith("lengthwise: ")
    assert plain.err.count("\n") == 1
    for verbose in (cli(*arguments, "-v"), cli("-v", *arguments), cli(*arguments, "--verbose")):
        assert verbose.code == 2
        assert verbose.err.startswith("Traceback")
        assert verbose.err.endswith(plain.err)


def test_an_error_of_several_lines_is_told_in_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: List, __: object) -> int:
        raise InvalidArgument("first\n  second")

    monkeypatch.setattr(List, "run", fail)
    assert cli("list").err == "lengthwise: first second\n"


def test_ctrl_c_leaves_one_line_and_the_exit_code_of_a_signal(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: List, __: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(List, "run", stop)
    called = cli("list")
    assert (called.code, called.out, called.err) == (130, "", "lengthwise: stopped\n")


@pytest.mark.parametrize("arguments", [["list"], ["--help"], ["show", "rotary"]], ids=" ".join)
def test_a_reader_that_has_seen_enough_is_no_error(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as closed:
        monkeypatch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit) as left:
            main(arguments)
    assert left.value.code == 0
    assert capfd.readouterr().err == ""


def test_a_terminal_without_our_symbols_shows_others_in_their_place(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with pytest.raises(SystemExit) as left:
        main(["show", "rotary"])
    sys.stdout.flush()
    assert left.value.code == 0
    assert b"?" in raw.getvalue()
    assert capfd.readouterr().err == ""
