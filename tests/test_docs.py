"""What README, docs and docstrings show is run, and what they say comes out is compared."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lengthwise

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
MODULES = sorted(module.name for module in pkgutil.walk_packages(lengthwise.__path__, "lengthwise."))


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", MODULES)
def test_every_example_in_a_docstring_gives_what_it_shows(name: str) -> None:
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_of_a_page_runs_without_a_warning_and_prints_what_it_shows(
    page: Path, tmp_path: Path
) -> None:
    for code in blocks(page, "python"):
        command = [sys.executable, "-W", "error", "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        for shown in re.findall(r"print\(.*\)  # (.+)", code):
            assert shown in done.stdout


def test_the_readme_has_python_to_run() -> None:
    assert len(blocks(ROOT / "README.md", "python")) >= 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_of_the_repository_leads_to_one(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert missing == []
