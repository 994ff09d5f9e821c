"""The second half of the wrong encodings: see test_broken.py."""

from __future__ import annotations

from collections.abc import Callable


def test_the_other_wrong_encodings_are_caught_by_the_check_they_name_and_by_none_that_they_do_not_list(
    not_as_listed: Callable[[str], dict[str, set[str]]],
) -> None:
    assert not_as_listed("others") == {}
