"""The kit is tested with wrong encodings: each is caught by the check it names, and by no others than it lists."""

from __future__ import annotations

from collections.abc import Callable

from lengthwise.testing import CHECKS
from lengthwise.testing.broken import BROKEN


def test_every_wrong_encoding_is_caught_by_the_check_it_names_and_by_none_that_it_does_not_list(
    kit: Callable[[str], dict[str, dict[str, str]]],
) -> None:
    found = kit("wrong")
    missed = {wrong.made.__name__: wrong.caught_by for wrong in BROKEN}
    missed = {name: check for name, check in missed.items() if check not in found[name]}
    assert missed == {}
    beside = {
        wrong.made.__name__: set(found[wrong.made.__name__]) - {wrong.caught_by, *wrong.also}
        for wrong in BROKEN
        if "*" not in wrong.also
    }
    assert {name: checks for name, checks in beside.items() if checks} == {}


def test_every_check_has_a_wrong_encoding_that_it_must_catch() -> None:
    assert {wrong.caught_by for wrong in BROKEN} == set(CHECKS)


def test_every_claim_has_a_check_of_its_name() -> None:
    from lengthwise.sites import CLAIMS

    assert {name for name, check in CHECKS.items() if check.claim == name} == set(CLAIMS)


def test_a_wrong_encoding_lists_checks_that_there_are() -> None:
    assert {name for wrong in BROKEN for name in wrong.also} <= {*CHECKS, "*"}
