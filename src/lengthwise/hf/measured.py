"""What is measured on a loaded model with small inputs: a cache, padding and shifts must not change what it says."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LENGTH = 24
LIMITS = {torch.float64: 1e-6, torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.4}
"""Largest difference of two logits, in standard deviations of all logits, that rounding explains."""


@dataclass(frozen=True)
class Measurement:
    """Two ways to the same logits.

    Args:
        code: short name that stays the same between releases.
        what: the two ways.
        error: largest difference of two logits, in standard deviations of all logits; None where it was skipped.
        limit: what rounding explains in the dtype of the model.
        skipped: why it was not measured.
    """

    code: str
    what: str
    error: float | None
    limit: float
    skipped: str = ""

    @property
    def ok(self) -> bool:
        """Whether rounding explains the difference; True for what was skipped."""
        return self.error is None or self.error <= self.limit

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "code": self.code,
            "what": self.what,
            "error": self.error,
            "limit": self.limit,
            "ok": self.ok,
            "skipped": self.skipped or None,
        }


def measure(model: Any, boundary: int | None) -> list[Measurement]:
    """All measurements of a causal language model, in its own dtype, with some 24 random tokens.

    Args:
        model: a loaded model.
        boundary: the trained length, across which a cache is tried too; None where positions have no such place.
    """
    takes = inspect.signature(model.forward).parameters
    limit = LIMITS.get(model.dtype, 1e-3)
    run = _Runner(model, takes)
    placed, cached = "position_ids" in takes, run.cache_name is not None
    tries: list[tuple[str, str, str, Callable[[], tuple[Tensor, Tensor]]]] = [
        ("cached", "logits with a cache and without", "" if cached else "the model takes no cache", run.cached),
        ("padded-left", "a row padded on the left and alone", "", lambda: run.padded(left=5)),
        ("padded-right", "a row padded on the right and alone", "", lambda: run.padded(right=5)),
    ]
    if boundary is not None:
        no_place = "" if placed else "the model takes no position_ids"
        start, middle = max(0, boundary - LENGTH), max(0, boundary - LENGTH // 2)
        tries += [
            ("shifted", f"tokens at positions from 0 and up to {boundary}", no_place, lambda: run.shifted(start)),
            (
                "cached-across",
                f"logits with a cache and without, across position {boundary}",
                no_place or ("" if cached else "the model takes no cache"),
                lambda: run.cached(middle),
            ),
        ]
    made: list[Measurement] = []
    with torch.no_grad():
        for code, what, skip, both in tries:
            if skip:
                made.append(Measurement(code, what, None, limit, skip))
                continue
            try:
                one, other = both()
            except (IndexError, RuntimeError, ValueError, TypeError, NotImplementedError) as error:
                reason = str(error).strip().splitlines()
                made.append(
                    Measurement(code, what, None, limit, f"the model refused: {reason[0] if reason else type(error)}")
                )
                continue
            one, other = one.double(), other.double()
            made.append(Measurement(code, what, float((one - other).abs().max() / one.std()), limit))
    return made


class _Runner:
    """The same tokens in several ways."""

    def __init__(self, model: Any, takes: Any) -> None:
        self.model, self.placed = model, "position_ids" in takes
        self.cache_name = next((name for name in ("cache", "past_key_values") if name in takes), None)
        config = getattr(model.config, "get_text_config", lambda: model.config)()
        generator = torch.Generator().manual_seed(0)
        self.ids = torch.randint(0, int(config.vocab_size), (1, LENGTH), generator=generator).to(model.device)

    def at(self, start: int, ids: Tensor, **more: Any) -> Any:
        if self.placed and (start or more):
            more["position_ids"] = torch.arange(start, start + ids.shape[1], device=ids.device)[None]
        return self.model(ids, **more)

    def cached(self, start: int = 0) -> tuple[Tensor, Tensor]:
        half = LENGTH // 2
        out = self.at(start, self.ids[:, :half], use_cache=True)
        parts = [out.logits]
        for index in range(half, LENGTH):
            kept = getattr(out, "cache", None)
            kept = kept if kept is not None else out.past_key_values
            out = self.at(start + index, self.ids[:, index : index + 1], **{str(self.cache_name): kept})
            parts.append(out.logits)
        return self.at(start, self.ids).logits, torch.cat(parts, dim=1)

    def padded(self, left: int = 0, right: int = 0) -> tuple[Tensor, Tensor]:
        ids = torch.nn.functional.pad(self.ids, (left, right))
        mask = torch.nn.functional.pad(torch.ones_like(self.ids), (left, right))
        more: dict[str, Any] = {"attention_mask": mask}
        if self.placed:  # as `generate` counts them
            more["position_ids"] = (mask.cumsum(1) - 1).masked_fill(mask == 0, 1)
        logits = self.model(ids, **more).logits
        return self.at(0, self.ids).logits, logits[:, left : left + LENGTH]

    def shifted(self, start: int) -> tuple[Tensor, Tensor]:
        return self.at(0, self.ids).logits, self.at(start, self.ids).logits
