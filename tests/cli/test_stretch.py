"""`lengthwise stretch`: from a model folder to a table, a page and a model."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

spec = importlib.util.spec_from_file_location("hf_test_tiny", Path(__file__).parents[1] / "hf/tiny.py")
assert spec
assert spec.loader
tiny = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tiny)

Cli = Callable[..., Any]
TEXT = "Whoever reads this far has read a long text, and number 23 of its lines is this one. " * 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tiny.make_folder(tmp_path_factory.mktemp("model") / "tiny", 256)
    (made.parent / "text.txt").write_text(TEXT)
    return made


@pytest.fixture
def stretch(cli: Cli, folder: Path) -> Cli:
    """The command on the small model and its text; later options take the place of these."""

    def call(*arguments: str | Path) -> Any:
        return cli("stretch", folder, "--data", folder.parent / "text.txt", "--windows", "2", "--keys", "2", *arguments)

    return call


def test_help_fits_a_screen_of_80_columns(cli: Cli) -> None:
    called = cli("stretch", "--help")
    assert called.code == 0
    lines = called.out.rstrip().splitlines()[1:]
    assert len(lines) < 48
    assert max(map(len, lines)) <= 80


def test_a_stretch_prints_a_table_and_writes_a_page_and_a_model_and_knows_them_again(
    stretch: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    methods = ("--to", "512", "--methods", "yarn(2); self_extend(group=4, window=128)")
    first = stretch(*methods)
    assert first.code == 0, first.err
    assert "tiny from 256 to 512 tokens" in first.out
    assert "against the untouched model up to 256 tokens" in first.out.replace("\n", " ")
    assert "Use " in first.out
    assert "window 1 of 2 · yarn(2)" in first.err
    out = tmp_path / "stretch-tiny"
    page = (out / "report.html").read_text()
    assert "http-equiv" in page
    assert "src=" not in page.split("<script>")[0]
    assert "self_extend" in page
    rows = {row["method"]: row for row in json.loads((out / "stretch.json").read_text())["methods"]}
    assert {*rows} == {"untouched", "yarn(2)", "self_extend(group=4, window=128)"}
    assert rows["yarn(2)"]["config"]
    assert rows["self_extend(group=4, window=128)"]["why_not"]
    plain = AutoModelForCausalLM.from_pretrained(out / "model")
    assert plain.config.rope_parameters["factor"] == 2
    assert plain(torch.arange(8)[None]).logits.isfinite().all()

    again = stretch(*methods, "--json")
    assert again.code == 0
    assert again.err == ""
    assert json.loads(again.out)["methods"] == json.loads((out / "stretch.json").read_text())["methods"]
    assert {row["method"]: row for row in json.loads(again.out)["methods"]} == rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "256"), "trained to 256 tokens, and --to 256 is no longer"),
        (("--to", "500"), "500 is not: use 512"),
        (("--to", "512", "--methods", "yarm(2)"), "did you mean 'yarn'"),
        (("--to", "512", "--methods", "yarn(0.5)"), "factor"),
        (("--to", "16384"), "use a longer text with --data"),
        (("--to", "512", "--data", "no.txt"), "no.txt' can't be read"),
        (("--to", "512", "--keys", "32"), "use fewer with --keys"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_what_can_not_be_done_is_told_in_one_line(stretch: Cli, arguments: tuple[str, ...], message: str) -> None:
    called = stretch(*arguments)
    assert called.code == 2
    assert called.out == ""
    assert message in called.err
    assert called.err.count("\n") == 1


def test_a_model_that_is_not_there_or_not_whole_is_told_in_one_line(cli: Cli, folder: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "config.json").write_text((folder / "config.json").read_text())
    (tmp_path / "model.txt").write_text("no model")
    for path, message in (
        ("nowhere/model", "nothing is fetched from a network"),
        (empty, "has no config.json"),
        (bare, "holds no weights"),
        ("model.txt", "is no model"),
    ):
        called = cli("stretch", path, "--to", "512")
        assert called.code == 2
        assert message in called.err
        assert called.err.count("\n") == 1


def test_another_trained_length_may_be_given(stretch: Cli) -> None:
    called = stretch("--to", "256", "--trained", "128", "--methods", "yarn(2)", "--keys", "0", "--json", "--all")
    assert called.code == 0, called.err
    assert json.loads(called.out)["lengths"] == [64, 128, 192, 256]
