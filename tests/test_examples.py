"""Every example runs as it stands, without a warning, and says what it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SAYS = {
    "01": "after three layers: [2, 8, 10, 64]",
    "02": "a cached step is the last row of one pass: True",
    "03": "acts on: ('bias',)",
    "04": "learned   48",
    "05": "decoding with a cache is one pass: True",
    "06": "sinusoidal          2.81        0.51",
    "07": "blind to order: True",
    "08": "float32   1.0000   2.0000   3.0000  32.0000  64.0000  64.0000",
}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_what_it_should(path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[path.stem[:2]] in done.stdout
    assert "False" not in done.stdout


def test_every_example_is_known_here() -> None:
    assert {path.stem[:2] for path in EXAMPLES} == set(SAYS)
