"""The whole of a stretch: every method on every window, passkeys for the best, an outcome."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from jaxtyping import Int64
from torch import Tensor

from lengthwise.errors import DataError
from lengthwise.hf.stretch.candidate import UNTOUCHED, Candidate, same_at
from lengthwise.hf.stretch.export import why_not
from lengthwise.hf.stretch.measure import Tell, answers, digest, losses, work
from lengthwise.hf.stretch.outcome import Answer, Losses, Outcome, conclude
from lengthwise.hf.stretch.passkey import Haystack, hide
from lengthwise.hf.stretch.perplexity import BLOCK, check_head
from lengthwise.hf.stretch.plan import Plan
from lengthwise.hf.stretch.store import Store

Progress = Callable[[str, float, float], None]
"""Told what is measured, how much work is done, and how much there is in all, in the units of `work`."""
VERSION = 1
"""Of measurements: another one makes stored ones unread."""


@dataclass
class Stretch:
    """One model under several methods.

    Args:
        model: in float32, ready to be asked.
        tokenizer: its own.
        fingerprint: what tells its weights from others.
        candidates: the methods, the untouched model first.
        tokens: `[windows, target]`.
        plan: what to measure.
        store: where to keep it.
        progress: told how far it is.
    """

    model: Any
    tokenizer: Any
    fingerprint: str
    candidates: Sequence[Candidate]
    tokens: Int64[Tensor, "windows target"]
    plan: Plan
    store: Store
    progress: Progress

    def run(self, facts: dict[str, str]) -> Outcome:
        """Measure what is not stored, and conclude."""
        check_head(self.model, self.tokens[0])
        stacks = self._hide()
        self._done, self._left, self._seconds = 0.0, self._work(), 0.0
        found = Losses(self.plan)
        alive = list(self.candidates)
        for window in range(self.plan.windows):
            for candidate in list(alive):
                found.add(candidate.label, window, self._window(candidate, window))
            alive = self._race(found, alive, window)
        reasons = {one.label: why_not(one.encoding, self.model.config) for one in self.candidates}
        if self.plan.keys:
            for candidate in self._finalists(found, reasons):
                found.answers[candidate.label] = [
                    answer for length, stack in stacks for answer in self._haystack(candidate, length, stack)
                ]
        about = {
            "seconds of measuring": f"{self._seconds:.0f}",
            "threads": str(torch.get_num_threads()),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "python": platform.python_version(),
        }
        return conclude(found, reasons, facts | about)

    def _window(self, candidate: Candidate, window: int) -> list[float]:
        """Losses of one window; of a method that follows the length, each range from the pass that ends it."""
        if not candidate.follows_length:
            return self._pass(candidate, window, self._end(candidate, window))
        untouched = self.candidates[0]
        parts: list[float] = []
        for length in self.plan.lengths:
            longest = self._end(untouched, window)
            same = length <= longest and not untouched.follows_length
            same = same and same_at(candidate.encoding, untouched.encoding, length)
            whole = self._pass(untouched, window, longest) if same else self._pass(candidate, window, length)
            parts += whole[len(parts) : length // BLOCK]
        return parts

    def _end(self, candidate: Candidate, window: int) -> int:
        """How far one pass goes. Past the trained length the untouched model is out of the race after one window."""
        base = candidate is self.candidates[0] and not candidate.follows_length
        return self.plan.trained if base and self.plan.race and window else self.plan.target

    def _pass(self, candidate: Candidate, window: int, length: int) -> list[float]:
        text = self.tokens[window, :length]
        settings = self._settings(candidate, length) | {"text": digest(text)}

        def measure() -> dict[str, Any]:
            what = f"window {window + 1} of {self.plan.windows} · {candidate.label}"
            return losses(self.model, candidate, text, self._tell(what, work(length)))

        result = self._measured(f"loss {candidate.label}", settings, measure, work(length))
        return result["losses"]

    def _hide(self) -> list[tuple[int, Haystack]]:
        """Texts with passkeys, before anything is measured; lengths that these would fill by half are left out.

        Raises:
            DataError: not even the longest has room.
        """
        found: list[tuple[int, Haystack]] = []
        for length in self.plan.lengths if self.plan.keys else ():
            for number in range(self.plan.haystacks):
                try:
                    stack = hide(self.tokenizer, self.tokens[number], length=length, keys=self.plan.keys, seed=number)
                except DataError:
                    if length == self.plan.target:
                        raise
                else:
                    found.append((length, stack))
        return found

    def _haystack(self, candidate: Candidate, length: int, stack: Haystack) -> list[Answer]:
        asked = torch.cat((stack.tokens, *stack.questions))
        settings = self._settings(candidate, length) | {"passkeys": digest(asked)}

        def measure() -> dict[str, Any]:
            what = f"{self.plan.keys} passkeys in {length} · {candidate.label}"
            return answers(self.model, candidate, stack, length, self._tell(what, work(length)))

        result = self._measured(f"passkeys {candidate.label} {length}", settings, measure, work(length))
        return [Answer(length, depth, exact, loss) for depth, exact, loss in result["found"]]

    def _measured(
        self, what: str, settings: dict[str, Any], measure: Callable[[], dict[str, Any]], amount: float
    ) -> dict[str, Any]:
        result, stored = self.store.measured(what, settings, measure)
        self._seconds += result["seconds"]
        if stored:
            self._left -= amount
        else:
            self._done += amount
        self.progress("", self._done, self._left)
        return result

    def _settings(self, candidate: Candidate, length: int) -> dict[str, Any]:
        kind = {"version": VERSION, "model": self.fingerprint, "length": length}
        return kind | {"method": candidate.label} | candidate.settings(length)

    def _tell(self, what: str, amount: float) -> Tell:
        def tell(part: float) -> None:
            self.progress(what, self._done + part * amount, self._left)

        tell(0.0)
        return tell

    def _race(self, found: Losses, alive: list[Candidate], window: int) -> list[Candidate]:
        """Those worth another window."""
        if not self.plan.race or len(alive) <= 3:
            return alive
        best = found.best([one.label for one in alive if one.label != UNTOUCHED])
        kept = [one for one in alive if one.label == UNTOUCHED or not found.clearly_worse(one.label, best)]
        gone = len(alive) - len(kept)
        self._left -= gone * (self.plan.windows - 1 - window) * work(self.plan.target)
        return kept

    def _finalists(self, found: Losses, reasons: dict[str, str]) -> list[Candidate]:
        """The untouched model, the best two, and the best that a config can say."""
        order = [label for label in found.order() if label != UNTOUCHED]
        able = [label for label in order if not reasons[label]][:1]
        wanted = {UNTOUCHED, *order[:2], *able}
        return [one for one in self.candidates if one.label in wanted]

    def _work(self) -> float:
        """An estimate of all there is to do."""
        passes = sum(
            sum(map(work, self.plan.lengths)) if one.follows_length else work(self._end(one, window))
            for one in self.candidates
            for window in range(self.plan.windows)
        )
        asked = 4 * self.plan.haystacks * sum(map(work, self.plan.lengths)) if self.plan.keys else 0.0
        return passes + asked
