"""The conformance kit: hold any encoding to the contract, and to what it claims of itself.

    from lengthwise.testing import check_encoding
    check_encoding(lambda: MyEncoding(heads=4)).raise_if_failed()

`CHECKS` lists all properties. `lengthwise.testing.broken` holds wrong encodings, at least one for each check.
"""

from lengthwise.testing.checks import CHECKS, Check
from lengthwise.testing.makers import maker, makers, registered
from lengthwise.testing.parametrize import parametrize_with_checks
from lengthwise.testing.report import ConformanceError, Report, Result
from lengthwise.testing.subject import Case
from lengthwise.testing.suite import check_encoding, named_checks

__all__ = [
    "CHECKS",
    "Case",
    "Check",
    "ConformanceError",
    "Report",
    "Result",
    "check_encoding",
    "maker",
    "makers",
    "named_checks",
    "parametrize_with_checks",
    "registered",
]
