"""A new encoding is one file: what CONTRIBUTING shows, in a package of its own, reaches everything by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def shown() -> str:
    """The file that CONTRIBUTING shows."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    start = text.index('    """A learned penalty in proportion to distance."""\n')
    return textwrap.dedent(text[start : text.index("`heads` is filled in", start)])


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one installed package: the file from CONTRIBUTING and its entry point, and nothing else."""
    source = shown().replace('@encodings.register("decay")\n', "")  # an entry point names it instead
    folder = tmp_path_factory.mktemp("packages")
    (folder / "decaying.py").write_text(source)
    info = folder / "decaying-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: decaying\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lengthwise.encodings]\ndecay = decaying:Decay\n")
    return folder


def call(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(folder), str(ROOT / "src")))
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "COLUMNS": "100"}
    command = [sys.executable, "-c", "from lengthwise.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_it_is_listed_and_shown(elsewhere: Path) -> None:
    listed = call(elsewhere, "list")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert any(line.startswith("decay ") for line in listed.stdout.splitlines())
    shown = call(elsewhere, "show", "decay")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "acts on    logits, by a bias" in shown.stdout
    assert "nonincreasing: the bias never rises with distance" in shown.stdout


def test_it_is_trained_beside_the_others_and_reported(elsewhere: Path) -> None:
    sizes = ("--steps", "3", "--batch", "2", "--seeds", "1", "--dim", "16", "--layers", "1", "--heads", "2")
    lengths = ("--train-length", "4", "--test-lengths", "4", "8", "--jobs", "1")
    done = call(elsewhere, "compare", "--encodings", "decay", "none", "--tasks", "sort(symbols=3)", *lengths, *sizes)
    assert done.returncode == 0, done.stderr
    assert "decay" in done.stdout
    assert "decay" in (elsewhere / "report.html").read_text()


def test_the_kit_finds_it_right(elsewhere: Path) -> None:
    done = call(elsewhere, "check", "decay", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert not report["failed"]
    assert {"nonincreasing", "cache_equals_one_pass"} <= {one["check"] for one in report["checks"]}
    named = call(elsewhere, "check", "decaying:Decay")
    assert named.returncode == 0, named.stdout + named.stderr


def test_what_is_shown_passes_the_style_of_this_repository(tmp_path: Path) -> None:
    file = tmp_path / "decay.py"
    file.write_text(shown().rstrip() + "\n")
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--config", ROOT / "pyproject.toml"], ["format", "--check", "--line-length", "120"]):
        done = subprocess.run([*ruff, *command, file], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
