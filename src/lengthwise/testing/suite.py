"""Run the checks on an encoding.

report = lengthwise.testing.check_encoding(lambda: MyEncoding(heads=4))
print(report)
report.raise_if_failed()
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch

from lengthwise.dims import Dims
from lengthwise.errors import UnknownName, nearest
from lengthwise.testing.checks import CHECKS, Check
from lengthwise.testing.report import Report, Result, Status
from lengthwise.testing.subject import Case, Make, Subject
from lengthwise.testing.verdict import Broken, IsNaN, NotApplicable
from lengthwise.testing.where import where

Which = Literal["fast", "slow", "all"]
_WAITS = "asked once shapes_fit holds"
_CLAIM = "it holds on these inputs; claim it if it always does"
_NAN = "a root, a power or a logarithm of the distance of keys ahead, which is negative"


def check_encoding(
    make: Make,
    *,
    dims: Dims | None = None,
    cases: Sequence[Case] | None = None,
    checks: Which | Sequence[str] | None = None,
    expected_failures: Mapping[str, str] | None = None,
) -> Report:
    """Hold an encoding to the contract, and to what it claims of itself.

    Args:
        make: returns a fresh module at each call, always with the same settings.
        dims: sizes of the inputs, those that the module was made for; dim 32, 4 heads where None.
        cases: shapes of the inputs; grouped queries, and lengths from 0 on, where None.
        checks: `"fast"` (None), `"slow"` (they compile), `"all"`, or names from `CHECKS`.
        expected_failures: checks that are known to fail, each with the reason; one that passes is a failure.

    Raises:
        UnknownName: a check that there is not.
        InvalidArgument: a maker that makes no module.

    Example:
        >>> import lengthwise as lw
        >>> from lengthwise.testing import check_encoding
        >>> check_encoding(lambda: lw.ALiBi(heads=4), checks=["shapes_fit", "cache_equals_one_pass"]).failures
        {}
    """
    expected = dict(expected_failures or {})
    chosen = named_checks(checks)
    for name in expected:
        _named(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # an encoding that draws from it does the same each time
        subject = Subject(make, dims, cases)
        return Report(subject.name, _all(subject, chosen, expected))


def named_checks(checks: Which | Sequence[str] | None) -> list[Check]:
    """The checks that an argument `checks` of `check_encoding` means.

    Raises:
        UnknownName: a check that there is not.
    """
    if checks == "all":
        return list(CHECKS.values())
    if checks is None or checks in ("fast", "slow"):
        return [check for check in CHECKS.values() if check.speed == (checks or "fast")]
    return [_named(name) for name in ([checks] if isinstance(checks, str) else checks)]


def _run(subject: Subject, check: Check, expected: str | None) -> Result:
    start = time.perf_counter()
    status, message, trace = _found(subject, check)
    if expected is not None and status == "failed":
        status, message = "fails as expected", f"{expected}: {message}"
    elif expected is not None:
        status, message = "failed", f"it was expected to fail ({expected}), and is {status}: expect it no more"
    return Result(check.name, status, message, time.perf_counter() - start, trace)


def _found(subject: Subject, check: Check) -> tuple[Status, str, str]:
    """How it ended, what it found, and the traceback of what the encoding raised."""
    unclaimed = check.claim is not None and check.claim not in subject.claims
    if not check.concerns(subject):
        return "skipped", f"it does not act at {' or '.join(sorted(check.sites))}", ""
    if unclaimed and check.name != check.claim:
        return "skipped", f"it does not claim {check.claim!r}", ""
    try:
        check.run(subject)
    except NotApplicable as reason:
        return "skipped", str(reason), ""
    except Broken as fault:
        if unclaimed:
            return "skipped", "not claimed, and it does not hold", ""
        cause = _NAN if isinstance(fault, IsNaN) and "bias" in subject.sites else check.cause
        return "failed", f"{fault}. Expected: {check.sentence}. Usual cause: {cause}.", ""
    except Exception as error:  # whatever an encoding under test raises is what is reported
        if unclaimed:
            return "skipped", f"not claimed, and asking raised {type(error).__name__}", ""
        text = " ".join(str(error).split())
        text = text if len(text) < 400 else text[:400] + " ..."
        place = where(error, subject)
        at = f" (at {place})" if place else ""
        trace = "".join(traceback.format_exception(error))
        return "failed", f"raised {type(error).__name__}: {text}{at}. Expected: {check.sentence}.", trace
    return ("not claimed", "it holds on these inputs", "") if unclaimed else ("passed", "", "")


def _all(subject: Subject, checks: Sequence[Check], expected: Mapping[str, str]) -> list[Result]:
    """A wrong shape would fail nearly all checks: it is told once, and the others wait. Advice is for what passes."""
    results: list[Result] = []
    misshapen = False
    for check in checks:
        results.append(
            Result(check.name, "skipped", _WAITS) if misshapen else _run(subject, check, expected.get(check.name))
        )
        misshapen |= check.name == "shapes_fit" and results[-1].status == "failed" and check.name not in expected
    if misshapen:  # what was asked before, and could not be
        results = [
            replace(one, status="skipped", message=_WAITS)
            if one.status == "failed" and one.traceback and one.check != "shapes_fit"
            else one
            for one in results
        ]
    if all(one.status != "failed" for one in results):
        results = [replace(one, message=_CLAIM) if one.status == "not claimed" else one for one in results]
    return results


def _named(name: str) -> Check:
    if name not in CHECKS:
        raise UnknownName(f"unknown check {name!r}: {nearest(name, CHECKS)}")
    return CHECKS[name]
