"""The checks as cases of pytest, one for each encoding and check."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lengthwise.testing.subject import Make, Subject
from lengthwise.testing.suite import Which, named_checks


def parametrize_with_checks(
    makes: Sequence[Make],
    *,
    checks: Which | Sequence[str] | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Callable[[Any], Any]:
    """Return a decorator that gives a test the arguments `make` and `check`, for every pair of them.

    A check that is expected to fail is marked as such, with its reason, and strictly: the test fails once it passes.

        @parametrize_with_checks([lambda: MyEncoding(heads=4)])
        def test_my_encoding_keeps_the_contract(make, check):
            check_encoding(make, checks=[check]).raise_if_failed()

    Args:
        makes: each returns a fresh module at each call.
        checks: as for `check_encoding`.
        expected_failures: names of checks, each with the reason.

    Raises:
        UnknownName: a check that there is not.
    """
    import pytest  # of tests, not of the package

    expected = dict(expected_failures or {})
    named_checks(list(expected))
    chosen = named_checks(checks)
    cases = [
        pytest.param(
            make,
            check.name,
            id=f"{_label(make, number)}-{check.name}",
            marks=[pytest.mark.xfail(reason=expected[check.name], strict=True)] if check.name in expected else [],
        )
        for number, make in enumerate(makes)
        for check in chosen
    ]
    return pytest.mark.parametrize(("make", "check"), cases)


def _label(make: Make, number: int) -> str:
    if isinstance(make, type):
        return make.__name__
    return getattr(make, "label", None) or f"{Subject(make).type.__name__}{number}"
