"""The kit is tested with wrong encodings: each is caught by the check it names, and by no others than it lists."""

from __future__ import annotations

import pytest

from lengthwise.attention import backends
from lengthwise.testing import CHECKS, check_encoding
from lengthwise.testing.broken import BROKEN, DIMS, Wrong
from lengthwise.testing.broken import state as state_faults

FAST = [name for name, check in CHECKS.items() if check.speed == "fast"]


@pytest.mark.parametrize("wrong", BROKEN, ids=lambda wrong: wrong.made.__name__)
def test_a_wrong_encoding_is_caught_by_the_check_it_names_and_by_none_that_it_does_not_list(
    wrong: Wrong, monkeypatch: pytest.MonkeyPatch
) -> None:
    state_faults.forget()
    if wrong.backend is not None:
        monkeypatch.setitem(backends._things, "wrong", wrong.backend)
    chosen = FAST if wrong.caught_by in FAST else [*FAST, wrong.caught_by]
    failures = check_encoding(wrong.made, dims=DIMS, checks=chosen).failures
    assert wrong.caught_by in failures
    allowed = set(CHECKS) if "*" in wrong.also else {wrong.caught_by, *wrong.also}
    assert set(failures) <= allowed


def test_every_check_has_a_wrong_encoding_that_it_must_catch() -> None:
    assert {wrong.caught_by for wrong in BROKEN} == set(CHECKS)


def test_every_claim_has_a_check_of_its_name() -> None:
    from lengthwise.sites import CLAIMS

    assert {name for name, check in CHECKS.items() if check.claim == name} == set(CLAIMS)


def test_a_wrong_encoding_lists_checks_that_there_are() -> None:
    assert {name for wrong in BROKEN for name in wrong.also} <= {*CHECKS, "*"}
