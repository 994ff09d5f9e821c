"""The kit is tested with wrong encodings: each is caught by the check it names, and by no others than it lists.

Every second one here, the rest in test_broken_others.py, so that two processes share the work.
"""

from __future__ import annotations

from collections.abc import Callable

from lengthwise.testing import CHECKS
from lengthwise.testing.broken import BROKEN


def test_every_wrong_encoding_is_caught_by_the_check_it_names_and_by_none_that_it_does_not_list(
    not_as_listed: Callable[[str], dict[str, set[str]]],
) -> None:
    assert not_as_listed("wrong") == {}


def test_every_check_has_a_wrong_encoding_that_it_must_catch() -> None:
    assert {wrong.caught_by for wrong in BROKEN} == set(CHECKS)


def test_every_claim_has_a_check_of_its_name() -> None:
    from lengthwise.sites import CLAIMS

    assert {name for name, check in CHECKS.items() if check.claim == name} == set(CLAIMS)


def test_a_wrong_encoding_lists_checks_that_there_are() -> None:
    assert {name for wrong in BROKEN for name in wrong.also} <= {*CHECKS, "*"}
