"""What the checks found, as data and as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lengthwise.errors import LengthwiseError

Status = Literal["passed", "failed", "skipped", "not claimed", "fails as expected"]
_WIDTH = 118


class ConformanceError(LengthwiseError, AssertionError):
    """An encoding that does not keep the contract, with every check that it fails."""


@dataclass(frozen=True)
class Result:
    """What one check found.

    Args:
        check: its name.
        status: how it ended.
        message: the fault, or the reason why it did not apply; empty where it passed.
        seconds: how long it took.
        traceback: of what the encoding raised; empty where it raised nothing.
    """

    check: str
    status: Status
    message: str = ""
    seconds: float = 0.0
    traceback: str = ""


@dataclass(frozen=True)
class Report:
    """All results of one encoding; printing it gives a table.

    Args:
        name: of the encoding.
        results: one for each check that was asked for.
    """

    name: str
    results: Sequence[Result]

    @property
    def failures(self) -> dict[str, str]:
        """Message of each check that found a fault."""
        return self._messages("failed")

    @property
    def passed(self) -> list[str]:
        """Names of the checks whose property holds."""
        return [result.check for result in self.results if result.status == "passed"]

    @property
    def not_claimed(self) -> list[str]:
        """Claims that seem to hold and that the encoding does not make; no fault."""
        return [result.check for result in self.results if result.status == "not claimed"]

    @property
    def skipped(self) -> dict[str, str]:
        """Why each of the checks that did not apply did not."""
        return self._messages("skipped")

    @property
    def expected(self) -> dict[str, str]:
        """Message of each check that was expected to fail, and does."""
        return self._messages("fails as expected")

    @property
    def seconds(self) -> float:
        """Time of all checks."""
        return sum(result.seconds for result in self.results)

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        return {
            "name": self.name,
            "failed": bool(self.failures),
            "seconds": round(self.seconds, 3),
            "checks": [asdict(result) | {"seconds": round(result.seconds, 3)} for result in self.results],
        }

    def raise_if_failed(self) -> None:
        """Raise `ConformanceError` with all faults, if there are any."""
        if self.failures:
            raise ConformanceError(f"{self.name} fails {len(self.failures)} of {len(self.results)} checks\n{self}")

    def __str__(self) -> str:
        width = max((len(result.check) for result in self.results), default=0)
        lines = [f"{self.name}: {self._summary()}"]
        for result in self.results:
            first = f"  {result.check:<{width}}  {result.status:<7}  "
            text = f"{first}{result.message}".rstrip()
            lines += textwrap.wrap(text, _WIDTH, subsequent_indent=" " * (width + 4), break_on_hyphens=False)
        return "\n".join(lines)

    def _messages(self, status: Status) -> dict[str, str]:
        return {result.check: result.message for result in self.results if result.status == status}

    def _summary(self) -> str:
        kinds: tuple[Status, ...] = ("failed", "fails as expected", "passed", "not claimed", "skipped")
        counts = {kind: sum(result.status == kind for result in self.results) for kind in kinds}
        shown = [f"{count} {kind}" for kind, count in counts.items() if count or kind in ("failed", "passed")]
        return f"{', '.join(shown)}, in {self.seconds:.1f} s"
