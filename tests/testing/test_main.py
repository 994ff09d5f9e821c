"""`python -m lengthwise.testing`: all checks over the registry, as a table."""

from __future__ import annotations

import pytest

from lengthwise.testing.__main__ import main
from lengthwise.testing.makers import OfPath, OfSpec, maker, registered
from lengthwise.testing.suite import Subject

FAULTY = "lengthwise.testing.broken.claims:ClaimsDecay"


def test_it_prints_a_line_for_each_encoding_and_every_failure_below(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["none", FAULTY], "fast") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["encoding", "checks", "passed", "failed", "skipped", "not", "claimed", "seconds"]
    counts = {line.split()[0]: line.split()[1:] for line in lines[1:3]}
    assert counts["none"][2] == "0"
    assert counts[FAULTY][2] == "1"
    assert f"{FAULTY}: nonincreasing" in lines
    assert lines[-1].startswith("1 of 2 encodings pass, ")


def test_it_leaves_with_0_where_all_pass(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["none"], "fast") == 0
    assert "1 of 1 encodings pass" in capsys.readouterr().out


def test_a_colon_outside_brackets_makes_an_import_path() -> None:
    from lengthwise.testing.__main__ import DIMS

    assert isinstance(maker("a.b:C", DIMS), OfPath)
    assert isinstance(maker("rotary(layout='a:b')", DIMS), OfSpec)
    assert Subject(maker(FAULTY, DIMS)).name == FAULTY
    assert len({make.spec for make in registered(DIMS)}) == len(registered(DIMS))
