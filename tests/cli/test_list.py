"""`lengthwise list` and `lengthwise show`: everything that is registered, told in a screen."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lengthwise as lw
from lengthwise.attention import backends
from lengthwise.encodings.registry import encodings, example
from lengthwise.extension.registry import extensions
from lengthwise.patterns import patterns
from lengthwise.sites import CLAIMS
from lengthwise.tasks import build_task, tasks

Cli = Callable[..., Any]
OWN = [name for name in encodings if name not in encodings.others]


def test_list_names_everything_that_is_registered_in_80_columns(cli: Cli) -> None:
    called = cli("list")
    assert (called.code, called.err) == (0, "")
    lines = called.out.splitlines()
    assert max(map(len, lines)) <= 80
    first = {line.split()[0] for line in lines if line and line[0] != " "}
    assert {*encodings, *extensions, *tasks, *backends} <= first
    for _, task in tasks.items():
        title = f"tasks of {getattr(task, 'family', 'others')}, measured by {task.metric.replace('_', ' ')}"
        assert lines.count(title) == 1
    assert all(str(encodings[name].paper).split(",")[0].split(" et al")[0] in called.out for name in OWN)
    assert "\x1b" not in called.out


@pytest.mark.parametrize("name", OWN)
def test_show_tells_the_formula_parameters_source_claims_and_a_picture_of_every_encoding(cli: Cli, name: str) -> None:
    called = cli("show", name)
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith(name)
    made = encodings[name]
    encoding = lw.build(example(name), lw.Dims(64, 4, max_length=64))
    assert str(made.formula) in called.out
    assert str(made.paper) in called.out
    for claim in lw.claims(encoding):
        assert f"{claim.replace('_', ' ')}: {CLAIMS[claim]}" in called.out
    lines = called.out.splitlines()
    for field in ("formula", "acts on", "parameters", "trained", "source", "direction", "claims"):
        assert sum(line.startswith(field) for line in lines) == 1
    assert any(line.startswith("cache") for line in lines) == hasattr(encoding, "rotation")
    assert ("before any training" in called.out) == any(p.requires_grad for p in encoding.parameters())
    assert "across: " in called.out
    assert "\x1b" not in called.out
    assert len(called.out.splitlines()) < 40


@pytest.mark.parametrize("name", sorted(patterns))
def test_show_tells_the_encoding_of_each_layer_of_every_pattern(cli: Cli, name: str) -> None:
    called = cli("show", "alternate(alibi, none, every=3)" if name == "alternate" else name)
    assert (called.code, called.err) == (0, "")
    assert sum(line.startswith("layer ") for line in called.out.splitlines()) == 12


def test_show_tells_of_each_part_of_a_sum(cli: Cli) -> None:
    called = cli("show", "rotary + alibi")
    assert (called.code, called.err) == (0, "")
    lines = called.out.splitlines()
    assert sum(line.startswith("formula") for line in lines) == 2
    assert "acts on    queries and keys, logits, by a bias" in lines


@pytest.mark.parametrize("name", sorted(tasks))
def test_show_tells_what_every_task_is_with_examples_that_are_right(cli: Cli, name: str) -> None:
    called = cli("show", name)
    assert (called.code, called.err) == (0, "")
    task = build_task(name)
    assert task.summary in called.out
    assert task.length_counts in called.out
    for dataset in getattr(task, "datasets", ()):
        assert f"{dataset.name} of {dataset.study}: {dataset.spec}, trained {dataset.trained[0]} to" in called.out
    shown = [line.split(None, 1)[1] for line in called.out.splitlines() if line.startswith("example")]
    assert shown == ([] if name == "text" else [f"{prompt}  ->  {answer}" for prompt, answer in task.examples])


def test_show_takes_a_spec(cli: Cli) -> None:
    called = cli("show", "rotary(base=500000, fraction=0.5)", "--dim", "32", "--heads", "2")
    assert called.code == 0
    assert "dim 32, 2 heads" in called.out
    assert "down: pair of dims 0 to 3" in called.out


def test_show_tells_what_a_study_runs(cli: Cli) -> None:
    called = cli("show", "kazemnejad2023")
    assert called.code == 0
    assert "trials     255: 17 datasets, 5 encodings, each with 3 seeds" in called.out
    assert "encoding   Rotary: rotary(fraction=0.25, layout='interleaved')" in called.out
    assert (
        "dataset    Parity: parity, trained 4 to 8, tested 9 to 16; as published parity, 4 to 8 and 9 to 16"
        in called.out
    )


@pytest.mark.parametrize("kind", ["png", "svg", "html"])
def test_show_writes_a_picture(cli: Cli, tmp_path: Path, kind: str) -> None:
    called = cli("show", "alibi", "--plot", f"new/picture.{kind}")
    assert (called.code, called.err) == (0, "")
    assert f"picture: new/picture.{kind}" in called.out
    assert "across" not in called.out
    content = (tmp_path / "new" / f"picture.{kind}").read_bytes()
    assert len(content) > 2000
    if kind == "png":
        assert content.startswith(b"\x89PNG\r\n\x1a\n")
        width, height = struct.unpack(">II", content[16:24])
        assert width > 600
        assert height > 200
    if kind == "svg":
        assert content.startswith(b"<svg")
        assert b"distance" in content
    if kind == "html":
        assert b"</html>" in content
        assert b"https://cdn" not in content


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rotray",), "unknown encoding, extension, pattern, task or study 'rotray': did you mean 'rotary'?"),
        (("srot",), "did you mean 'sort'"),
        (("rotary(bas=3)",), "'rotary' has no parameter 'bas': did you mean 'base'?"),
        (("rotary(base=",), "the spec does not parse here: rotary»(base="),
        (("",), "the spec is empty"),
        (("rotary + srt",), "unknown encoding, extension, pattern, task or study 'srt'"),
        (("rotary", "--length", "1"), "--length must be at least 2, not 1"),
        (("rotary", "--length", "0"), "--length must be at least 2, not 0"),
        (("rotary", "--heads", "3"), "3 heads do not divide dim 64"),
        (("rotary", "--dim", "12", "--heads", "4"), "even"),
        (("rotary", "--dim", "0"), "dim must be a positive whole number, not 0"),
        (("rotary", "--plot", "x.txt"), "a figure is written to .html, .png or .svg, not to 'x.txt'"),
        (("rotary", "--plot", "/dev/null/x.png"), "can't write /dev/null/x.png: Not a directory"),
        (("interpolate", "--plot", "x.png"), "'interpolate' is an extension: --plot draws an encoding with it"),
        (("rotary + sort",), "'+' joins encodings, and extensions behind one; 'sort' can't stand there"),
        (("sort", "--plot", "x.png"), "'sort' is a task: --plot draws encodings"),
        (("kazemnejad2023", "--plot", "x.png"), "'kazemnejad2023' is a study: --plot draws encodings"),
        (("sort(symbols=1)",), "symbols of Sort must be a whole number of at least 2, not 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_shown_is_told_before_anything_is_printed(
    cli: Cli, arguments: tuple[str, ...], message: str
) -> None:
    called = cli("show", *arguments)
    assert called.code == 2
    assert message in called.err
    assert called.err.count("\n") == 1
    assert called.out == ""


@pytest.mark.parametrize("name", sorted(extensions))
def test_each_extension_is_listed_under_what_it_changes_and_can_be_shown(cli: Cli, name: str) -> None:
    listed = cli("list").out
    assert listed.index("extensions that change") < listed.index(f"\n{name} ")
    shown = cli("show", name).out
    assert extensions[name].formula in shown
    assert extensions[name].paper in shown


def test_an_encoding_with_an_extension_is_shown_with_the_sources_of_both(cli: Cli) -> None:
    shown = cli("show", "rotary + interpolate(4)").out
    assert "2104.09864" in shown
    assert "2306.15595" in shown
