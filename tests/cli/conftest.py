"""The command line, called in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from lengthwise.cli import main


@dataclass(frozen=True)
class Called:
    """What a command left: its exit code and both streams."""

    code: int
    out: str
    err: str


Cli = Callable[..., Called]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """`cli("show", "rotary")` calls the command in an empty folder, with 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def call(*arguments: str | Path) -> Called:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        streams = capsys.readouterr()
        code = left.value.code
        return Called(code if isinstance(code, int) else 0 if code is None else 1, streams.out, streams.err)

    return call
