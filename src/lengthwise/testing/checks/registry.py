"""What a check is, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from lengthwise.errors import InvalidArgument
from lengthwise.testing.subject import Subject

Speed = Literal["fast", "slow"]


@dataclass(frozen=True)
class Check:
    """One property.

    Args:
        name: its name.
        sentence: what holds.
        cause: the usual cause where it does not.
        run: raises `Broken` where it does not hold, and `NotApplicable` where it can't be asked.
        sites: it concerns encodings that act at one of these; all where empty.
        claim: it is asked of those that claim it; of the others the report says whether they could.
        speed: `"slow"` compiles something.
        once: in a run over many encodings, one of each structure stands for all of it.
    """

    name: str
    sentence: str
    cause: str
    run: Callable[[Subject], None]
    sites: frozenset[str] = frozenset()
    claim: str | None = None
    speed: Speed = "fast"
    once: bool = False

    def concerns(self, subject: Subject) -> bool:
        """Whether the encoding acts where the check looks."""
        return not self.sites or bool(self.sites & subject.sites)


CHECKS: dict[str, Check] = {}
"""All checks by name, in the order in which they run."""


def check(
    sentence: str,
    *,
    cause: str,
    sites: tuple[str, ...] = (),
    claim: str | None = None,
    speed: Speed = "fast",
    once: bool = False,
) -> Callable[[Callable[[Subject], None]], Callable[[Subject], None]]:
    """Return a decorator that enters a function under its own name."""

    def enter(run: Callable[[Subject], None]) -> Callable[[Subject], None]:
        name = run.__name__
        if name in CHECKS:
            raise InvalidArgument(f"there is a check {name!r} already: choose another name")
        CHECKS[name] = Check(name, sentence, cause, run, frozenset(sites), claim, speed, once)
        return run

    return enter
