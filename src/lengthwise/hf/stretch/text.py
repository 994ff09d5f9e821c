"""The text to measure on: windows of one long text, as tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from lengthwise.errors import DataError


def read_text(paths: Sequence[Path]) -> tuple[str, str]:
    """The text of files, joined in the order given, and a name for it; Python's language reference where none is given.

    Raises:
        DataError: a file that can't be read, or is not UTF-8 text; no language reference in this Python.
    """
    if not paths:
        return _reference(), "Python's language reference (pydoc_data.topics)"
    parts: list[str] = []
    for path in paths:
        try:
            parts.append(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise DataError(f"the file {str(path)!r} is not UTF-8 text: {error.reason}") from error
        except OSError as error:
            raise DataError(f"the file {str(path)!r} can't be read: {error.strerror or error}") from error
    return "\n\n".join(parts), ", ".join(path.name for path in paths)


def windows(tokenizer: Any, text: str, *, length: int, count: int) -> Int64[Tensor, "count length"]:
    """Windows spread evenly over the text, none of which overlap; each begins as the tokenizer begins a text.

    Raises:
        DataError: the text is too short for them.
    """
    prefix = first_tokens(tokenizer)
    each = length - len(prefix)
    tokens: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    if len(tokens) < count * each:
        most = len(tokens) // each
        fewer = f"--windows {most}, or " if most else ""
        raise DataError(
            f"{count} windows of {length} tokens need {count * each} tokens of text, and this one has {len(tokens)}: "
            f"use {fewer}a longer text with --data"
        )
    gap = (len(tokens) - count * each) // max(1, count - 1) if count > 1 else 0
    starts = [number * (each + gap) for number in range(count)]
    return torch.tensor([[*prefix, *tokens[start : start + each]] for start in starts], dtype=torch.int64)


def first_tokens(tokenizer: Any) -> list[int]:
    """The special tokens that the tokenizer puts before a text."""
    bare: list[int] = tokenizer("a", add_special_tokens=False)["input_ids"]
    full: list[int] = tokenizer("a")["input_ids"]
    return full[: full.index(bare[0])] if bare and bare[0] in full else []


def _reference() -> str:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:  # some systems split it off
        raise DataError("this Python has no language reference to measure on: give a text with --data FILE") from error
    return "\n\n".join(topics.values())
