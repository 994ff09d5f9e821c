"""The command where only the core is installed."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
sys.modules["tyro"] = None  # as if it were not installed
from lengthwise.cli import main
main(["list"])
"""


def test_without_the_lab_extra_the_command_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "'tyro'" in done.stderr
    assert "lengthwise[lab]" in done.stderr
