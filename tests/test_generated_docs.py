"""The pages that `make docs` writes say what the registry says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lengthwise as lw
from lengthwise.cli.show import parameters
from lengthwise.encodings.registry import encodings, example
from lengthwise.patterns import patterns
from lengthwise.sites import CLAIMS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "encodings"
sys.path.insert(0, str(ROOT / "tools"))
import write_docs  # noqa: E402


def test_no_page_is_out_of_date_and_none_is_without_an_encoding() -> None:
    assert write_docs.stale() == []


@pytest.mark.parametrize("name", write_docs.own())
def test_the_page_of_every_encoding_states_formula_paper_parameters_claims_and_how_to_build_it(name: str) -> None:
    page, made = (PAGES / f"{name}.md").read_text(), encodings[name]
    assert page.startswith(f"# {name}\n")
    assert str(made.formula) in page
    assert str(made.paper) in page
    assert parameters(made) in page
    encoding = write_docs.built(name)
    for claim, meaning in CLAIMS.items():
        assert (f"- {claim.replace('_', ' ')}: {meaning}" in page) == (claim in lw.claims(encoding))
    code = page.split("```py\n")[1].split("```")[0]
    found: dict[str, object] = {}
    exec(code.replace("lw.build", "built = lw.build"), found)
    assert type(found["built"]) is type(encoding)
    assert example(name) in code
    assert f"![{name}]({name}.png)" in page


def test_every_picture_is_small() -> None:
    large = {path.name: path.stat().st_size for path in PAGES.glob("*.png") if path.stat().st_size > 40_000}
    assert large == {}


def test_the_index_links_to_every_encoding_and_names_every_pattern() -> None:
    index = (PAGES / "README.md").read_text()
    assert all(index.count(f"]({name}.md)") == 1 for name in write_docs.own())
    assert all(f"`{name}(" in index for name in patterns)


def test_every_disagreement_that_was_measured_is_explained_and_none_failed() -> None:
    measured = (PAGES.parent / "agreement.md").read_text()
    numbers, told = measured.split("## Where they do not agree")
    assert numbers.count("* |") > 10
    assert told.count("\n\n**") > 5
    assert "why is open" not in measured
    assert "Error: " not in measured
    assert "failed |" not in measured
    assert "missing |" not in measured


def test_a_page_that_is_missing_changed_or_too_many_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "encodings"
    folder.mkdir()
    for path in PAGES.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (tmp_path / "agreement.md").write_text((PAGES.parent / "agreement.md").read_text())
    monkeypatch.setattr(write_docs, "DOCS", tmp_path)
    assert write_docs.stale() == []
    (folder / "rotary.md").write_text((folder / "rotary.md").read_text().replace("eq. 15", "eq. 51"))
    (folder / "alibi.png").unlink()
    (folder / "gone.md").write_text("# gone")
    assert write_docs.stale() == ["alibi.png is missing", "rotary.md is out of date", "gone.md has no encoding"]
