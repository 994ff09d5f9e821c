"""The pages that `make docs` writes say what the registry says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import lengthwise as lw
from lengthwise.cli.show import parameters
from lengthwise.encodings.registry import encodings, example
from lengthwise.extension.registry import example as extension_example
from lengthwise.extension.registry import extensions
from lengthwise.patterns import patterns
from lengthwise.sites import CLAIMS

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "encodings"
EXTENSIONS = ROOT / "docs" / "extensions" / "README.md"
sys.path.insert(0, str(ROOT / "tools"))
import doc_parts  # noqa: E402
import extension_page  # noqa: E402
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


@pytest.mark.parametrize("name", extensions)
def test_the_page_of_extensions_states_what_each_is_and_shows_a_spec_that_builds(name: str) -> None:
    kind = extensions[name]
    part = EXTENSIONS.read_text().split(f"\n### {name}\n")[1].split("\n##")[0]
    assert kind.formula in part
    assert kind.paper.replace("|", "\\|") in part
    assert parameters(kind) in part
    code = part.split('lw.build("')[1].split('"')[0]
    assert code == f"{code.split(' + ')[0]} + {extension_example(name)}"
    dims = lw.Dims(dim=64, heads=4, max_length=64)
    assert lw.claims(lw.build(code, dims)) == lw.claims(doc_parts.built_from(code))
    able = extension_page.takers(name)
    assert code.split(" + ")[0] in {example(one) for one in able}
    said = part.split("| encodings | ")[1].split(" |")[0]
    listed = set(said.removeprefix("all but ").split(", "))
    own = set(write_docs.own())
    assert (set() if said == "all" else listed) == (own - set(able) if said.startswith("all") else set(able))


def test_the_page_of_extensions_tells_claims_that_are_lost_and_the_rule_for_a_cache() -> None:
    def rows(name: str) -> str:
        return EXTENSIONS.read_text().split(f"\n### {name}\n")[1].split("\n##")[0]

    assert "| claims lost | norm preserving |" in rows("yarn")
    assert "claims lost" not in rows("ntk")
    assert "at one target length for all" in rows("dynamic_ntk")
    assert "at one target length for all" not in rows("ntk")
    assert "| beside | transformers:" in rows("llama3")


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
    (tmp_path / "extensions").mkdir()
    (tmp_path / "extensions" / "README.md").write_text(EXTENSIONS.read_text())
    (tmp_path / "agreement.md").write_text((PAGES.parent / "agreement.md").read_text())
    monkeypatch.setattr(write_docs, "DOCS", tmp_path)
    assert write_docs.stale() == []
    (folder / "rotary.md").write_text((folder / "rotary.md").read_text().replace("eq. 15", "eq. 51"))
    (folder / "alibi.png").unlink()
    (folder / "gone.md").write_text("# gone")
    (tmp_path / "extensions" / "README.md").write_text(EXTENSIONS.read_text().replace("eq. 4", "eq. 5"))
    assert write_docs.stale() == [
        "alibi.png is missing",
        "rotary.md is out of date",
        "extensions/README.md is out of date",
        "gone.md has no encoding",
    ]
