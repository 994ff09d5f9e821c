"""`lengthwise check`: the conformance kit from a shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

MINE = """
import torch
from torch import nn
import lengthwise as lw

class Right(nn.Module):
    claims = frozenset({"translation_invariant", "nonincreasing", "pairwise"})

    def __init__(self, heads):
        super().__init__()
        self.heads = heads

    def logit_bias(self, positions):
        return lw.DistanceBias(lambda d: -d.abs().float().expand(self.heads, *d.shape), positions)

class Wrong(Right):
    claims = frozenset({"norm_preserving", "translation_invariant", "nonincreasing"})

    def logit_bias(self, positions):
        return lw.DistanceBias(lambda d: d.abs().float().expand(self.heads, *d.shape), positions)

class Needs(Right):
    def __init__(self, heads, depth):
        super().__init__(heads)

class Trained(Right):
    def __init__(self, heads, trained, inner=None, **rest):
        super().__init__(heads)
        assert trained == 5 and inner is None or isinstance(inner, lw.ALiBi), (trained, inner)

class Fails(Right):
    def __init__(self, heads):
        raise RuntimeError("no luck")

class Raises(Right):
    def logit_bias(self, positions):
        return self.values(positions.distance())

    def values(self, distance):
        return distance @ torch.ones(3, 5, 7)

number = 3
"""


@pytest.fixture(autouse=True)
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_to_check.py").write_text(MINE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine_to_check", raising=False)


def test_a_name_or_a_spec_is_checked_with_a_line_for_each_check(cli: Cli) -> None:
    called = cli("check", "rotary(base=500)", "--heads", "2", "--dim", "16")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("rotary(base=500): 0 failed, ")
    assert "translation_invariant   passed" in called.out


def test_a_class_of_ones_own_is_checked_with_its_arguments_filled_from_sizes(cli: Cli) -> None:
    called = cli("check", "mine_to_check:Right", "--heads", "2")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("mine_to_check:Right: 0 failed, ")


@pytest.mark.parametrize("arguments", ["trained=5", "4, 5, inner=alibi(max_bias=4)"])
def test_a_class_of_ones_own_takes_arguments(cli: Cli, arguments: str) -> None:
    called = cli("check", f"mine_to_check:Trained({arguments})")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith(f"mine_to_check:Trained({arguments}): 0 failed, ")


@pytest.mark.parametrize(("name", "example"), [("randomized", "randomized(rotary"), ("dape", "dape(")])
def test_a_name_that_sizes_alone_do_not_make_stands_for_its_example(cli: Cli, name: str, example: str) -> None:
    called = cli("check", name)
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith(example)


def test_each_encoding_of_a_pattern_of_layers_is_checked_once(cli: Cli) -> None:
    called = cli("check", "smollm3")
    assert (called.code, called.err) == (0, "")
    heads = [line for line in called.out.splitlines() if line.startswith("smollm3, layer")]
    assert len(heads) == 2
    assert all(": 0 failed, " in line for line in heads)
    assert [one["failed"] for one in json.loads(cli("check", "smollm3", "--json").out)["encodings"]] == [False] * 2


def test_choices_are_what_makes_something(cli: Cli) -> None:
    called = cli("check", "mine_to_check:Xyzzy")
    assert "mine_to_check has no 'Xyzzy': choose one of Fails, Needs, Raises, Right, Trained, Wrong" in called.err


def test_a_failure_has_exit_code_1_and_says_why(cli: Cli) -> None:
    called = cli("check", "mine_to_check:Wrong")
    assert (called.code, called.err) == (1, "")
    assert "mine_to_check:Wrong: 1 failed, " in called.out
    assert "the bias of the last query falls by 1 from a key to a nearer one" in called.out


def test_the_line_that_raised_is_told_once_and_its_traceback_where_asked_for(cli: Cli) -> None:
    called = cli("check", "mine_to_check:Raises")
    line = 1 + MINE[: MINE.index("return distance @")].count("\n")
    assert called.code == 1
    assert called.out.count("failed  ") == 1
    assert f"mine_to_check.py:{line}, in values). Expected: shapes" in " ".join(called.out.split())
    assert "Traceback" not in called.out
    assert called.out.count("asked once shapes_fit holds") > 10
    told = cli("check", "mine_to_check:Raises", "-v").out
    assert "\nshapes_fit\nTraceback (most recent call last):\n" in told
    assert f'mine_to_check.py", line {line}, in values' in told


def test_a_class_of_ones_own_is_shown_too(cli: Cli) -> None:
    called = cli("show", "mine_to_check:Right", "--heads", "2")
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("mine_to_check:Right  (mine_to_check.Right)\n")
    assert "\n.\n" not in called.out  # it has no docstring
    assert "acts on    logits, by a bias" in called.out
    assert "nonincreasing: the bias never rises with distance" in called.out
    assert "mine_to_check has no 'Wright': did you mean 'Right'" in cli("show", "mine_to_check:Wright").err


def test_json_is_the_report_as_data(cli: Cli) -> None:
    called = cli("check", "mine_to_check:Wrong", "--json")
    assert called.code == 1
    values = json.loads(called.out)
    assert [one["check"] for one in values["checks"] if one["status"] == "failed"] == ["nonincreasing"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rotray",), "unknown encoding 'rotray': did you mean 'rotary'?"),
        (("mine_to_check:Wright",), "mine_to_check has no 'Wright': did you mean 'Right'"),
        (("no_such_module:Right",), "can't import 'no_such_module'"),
        (("mine_to_check:Needs",), "needs 'depth', which is no size of a model"),
        (("mine_to_check:Fails",), "can't be made from {'heads': 4}: RuntimeError: no luck"),
        (("mine_to_check:number",), "mine_to_check:number is 3: expected a class"),
        (("rotary", "--heads", "3"), "3 heads do not divide dim 32"),
        (("mine_to_check:Trained(trained=5, 3)",), "the spec does not parse here"),
        (("mine_to_check:Right(depht=5)",), "'Right' has no parameter 'depht'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_checked_is_told_in_a_line(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    called = cli("check", *arguments)
    assert called.code == 2
    assert message in called.err
    assert called.err.count("\n") == 1
    assert called.out == ""
