"""The kit, run in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def kit() -> Callable[[str], dict[str, dict[str, str]]]:
    """`kit("encodings")`, `kit("wrong")` and so on: failures of each, as kit.py finds them."""

    def run(what: str) -> dict[str, dict[str, str]]:
        root = Path(__file__).parents[2]
        done = subprocess.run(
            [sys.executable, Path(__file__).with_name("kit.py"), what],
            env=os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def not_as_listed(kit: Callable[[str], dict[str, dict[str, str]]]) -> Callable[[str], dict[str, set[str]]]:
    """`not_as_listed("wrong")`: the checks that missed a wrong encoding, or found it without being listed, by name."""

    def run(what: str) -> dict[str, set[str]]:
        from lengthwise.testing.broken import BROKEN  # here, behind the shape checks of all tests

        listed = {wrong.made.__name__: wrong for wrong in BROKEN}
        faults: dict[str, set[str]] = {}
        for name, failures in kit(what).items():
            wrong, found = listed[name], set(failures)
            faults[name] = {wrong.caught_by} - found
            if "*" not in wrong.also:
                faults[name] |= found - {wrong.caught_by, *wrong.also}
        assert len(faults) >= len(BROKEN) // 2
        return {name: checks for name, checks in faults.items() if checks}

    return run
