"""One measurement at a time: losses of a method on a window, answers of a method to the passkeys of a text."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from lengthwise.hf.apply import apply_to
from lengthwise.hf.stretch.candidate import UNTOUCHED, Candidate
from lengthwise.hf.stretch.passkey import Haystack, retrieve
from lengthwise.hf.stretch.perplexity import block_losses

Tell = Callable[[float], None]
"""Told how much of a pass has been done, from 0 to 1."""


def losses(model: Any, candidate: Candidate, tokens: Int64[Tensor, " length"], tell: Tell) -> dict[str, Any]:
    """Losses by block of one text under one method."""
    start = time.monotonic()
    with _under(model, candidate, len(tokens)), _watched(model, tell):
        found = block_losses(model, tokens)
    return {"losses": [round(loss, 6) for loss in found.tolist()], "seconds": round(time.monotonic() - start, 2)}


def answers(model: Any, candidate: Candidate, haystack: Haystack, length: int, tell: Tell) -> dict[str, Any]:
    """What one method finds of the passkeys in one text."""
    start = time.monotonic()
    with _under(model, candidate, length), _watched(model, tell):
        found = retrieve(model, haystack)
    return {
        "found": [[round(one.depth, 4), one.exact, round(one.loss, 5)] for one in found],
        "seconds": round(time.monotonic() - start, 2),
    }


def digest(tokens: Int64[Tensor, " tokens"]) -> str:
    """What tells one text from another."""
    return hashlib.sha256(tokens.numpy().tobytes()).hexdigest()[:16]


@contextmanager
def _under(model: Any, candidate: Candidate, length: int) -> Generator[None]:
    """The model under a method; a method that follows the length is fixed to that of the whole text."""
    if candidate.label == UNTOUCHED:
        yield
        return
    with apply_to(model, candidate.encoding, target_length=length if candidate.follows_length else None):
        yield


@contextmanager
def _watched(model: Any, tell: Tell) -> Generator[None]:
    """Tell after each layer; a pass over a long text takes minutes."""
    count: int = model.config.num_hidden_layers
    stacks = [part for part in model.modules() if isinstance(part, nn.ModuleList) and len(part) == count]
    layers = list(stacks[0]) if stacks else []
    seen = 0

    def after(*_: object) -> None:
        nonlocal seen
        seen += 1
        tell(min(1.0, seen / count))

    hooks = [layer.register_forward_hook(after) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        tell(1.0)


def work(length: int) -> float:
    """About how much a pass over a text costs, in units of one token without attention (a small model's, 8192 wide)."""
    return length * (1 + length / 8192)


def threads() -> int:
    """Threads that torch computes with."""
    return torch.get_num_threads()
