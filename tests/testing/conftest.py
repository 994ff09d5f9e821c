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
    """`kit("encodings")` and `kit("wrong")`: failures of each, as kit.py finds them."""

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
