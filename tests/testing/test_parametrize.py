"""`parametrize_with_checks`, run by a pytest of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lengthwise as lw
from lengthwise.testing import named_checks, parametrize_with_checks

FILE = """
import lengthwise as lw
from lengthwise.testing import check_encoding, parametrize_with_checks
from lengthwise.testing.broken.claims import ClaimsDecay

def alibi():
    return lw.ALiBi(heads=4)

@parametrize_with_checks([alibi, ClaimsDecay], checks=["shapes_fit", "nonincreasing"])
def test_plain(make, check):
    check_encoding(make, checks=[check]).raise_if_failed()

@parametrize_with_checks([ClaimsDecay], checks=["shapes_fit", "nonincreasing"],
                         expected_failures={"nonincreasing": "it waves"})
def test_expected(make, check):
    check_encoding(make, checks=[check]).raise_if_failed()

@parametrize_with_checks([alibi], checks=["nonincreasing"], expected_failures={"nonincreasing": "it was wrong once"})
def test_strict(make, check):
    check_encoding(make, checks=[check]).raise_if_failed()
"""


def test_each_pair_is_a_case_and_expected_failures_are_strict(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(FILE)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", "--tb=line", "test_mine.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    for line in (
        "PASSED test_mine.py::test_plain[ALiBi0-shapes_fit]",
        "PASSED test_mine.py::test_plain[ALiBi0-nonincreasing]",
        "PASSED test_mine.py::test_plain[ClaimsDecay-shapes_fit]",
        "FAILED test_mine.py::test_plain[ClaimsDecay-nonincreasing]",
        "PASSED test_mine.py::test_expected[ClaimsDecay-shapes_fit]",
        "XFAIL test_mine.py::test_expected[ClaimsDecay-nonincreasing] - it waves",
        "FAILED test_mine.py::test_strict[ALiBi0-nonincreasing]",
    ):
        assert line in run.stdout
    assert "[XPASS(strict)] it was wrong once" in run.stdout


def test_without_a_choice_the_fast_checks_are_cases() -> None:
    mark = parametrize_with_checks([lw.NoPE]).mark
    assert mark.args[0] == ("make", "check")
    assert [case.values[1] for case in mark.args[1]] == [check.name for check in named_checks("fast")]
    assert "NoPE-acts_somewhere" in {case.id for case in mark.args[1]}


def test_an_expected_failure_of_no_check_is_told() -> None:
    with pytest.raises(lw.UnknownName, match="unknown check 'shape': did you mean"):
        parametrize_with_checks([lw.NoPE], expected_failures={"shape": "why"})


def test_the_kit_needs_no_pytest_to_be_imported() -> None:
    code = "import sys, lengthwise.testing; sys.exit('pytest' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
