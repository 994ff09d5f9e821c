"""Building tasks by spec string, and registering more of them."""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass

import pytest
import torch

import lengthwise.tasks as package
from lengthwise.errors import InvalidArgument, SpecError, UnknownName
from lengthwise.tasks import Task, build_task, tasks
from lengthwise.tasks.frame import Framed


def test_every_module_of_the_package_is_imported_so_that_a_task_needs_no_other_edit() -> None:
    for module in pkgutil.iter_modules(package.__path__):
        assert hasattr(package, module.name)


def test_arguments_of_a_spec_reach_the_task() -> None:
    assert build_task("sort(symbols=5)").vocabulary == ("<bos>", "<sep>", "<eos>", "a", "b", "c", "d", "e")
    assert build_task("sort(5)") == build_task("sort(symbols=5)") != build_task("sort")


def test_an_unknown_task_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(UnknownName, match="unknown task 'sorting': did you mean 'sort'"):
        build_task("sorting")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("sort(symbol=4)", "no parameter 'symbol': did you mean 'symbols'"),
        ("parity('', 3)", "too many positional arguments"),
        ("sort(symbols=1)", "symbols of Sort must be a whole number of at least 2, not 1"),
        ("copy(symbols=0)", "symbols of Copy must be a whole number of at least 2, not 0"),
        ("reverse(symbols=2.0)", "symbols of Reverse must be a whole number of at least 2, not 2.0"),
        ("repeat(symbols=0)", "symbols of Repeat must be a whole number of at least 1, not 0"),
        ("sort(symbols=True)", "at least 2, not True"),
        ("sort(symbols=many)", "symbols=many of 'sort' must be a number, True, False or quoted text"),
        ("addition(reverse='yes')", "reverse of Addition must be True or False, not 'yes'"),
        ("addition(reverse=true)", "must be a number, True, False or quoted text, not a name"),
    ],
)
def test_a_bad_argument_is_named_with_what_is_expected(spec, message) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build_task(spec)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["", "sort(", "sort + copy", "text(paths=[book.txt])"])
def test_a_spec_that_does_not_parse_says_so(spec) -> None:
    with pytest.raises(SpecError):
        build_task(spec)


def test_a_task_registered_from_outside_is_found_and_built(monkeypatch) -> None:
    monkeypatch.setattr(tasks, "_things", dict(tasks._things))  # so that no other test meets it

    @tasks.register("first")
    @dataclass(frozen=True)
    class First(Framed):
        version = 1
        summary = "write the first digit"
        length_counts = "digits"
        examples = (("1 0", "1"), ("0 1", "0"))
        ones: bool = False

        @property
        def symbol_names(self):
            return "0", "1"

        def sizes(self, length):
            return length, 1

        def draw(self, generator, batch, length):
            digits = torch.randint(2, (batch, length), generator=generator)
            return digits, digits[:, :1]

        def solve(self, prompt):
            return prompt.split()[0]

    task = build_task("first(ones=True)")
    assert task == First(ones=True)
    assert isinstance(task, Task)
    assert "first" in tasks
    prompt, answer = task.show(task.sample(torch.Generator().manual_seed(0), 1, 8).tokens[0])
    assert answer == prompt[0]
