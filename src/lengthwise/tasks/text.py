"""Byte-level language modelling of real text: predict each byte from those before it.

Bytes need no tokenizer, so any text will do, and bits per byte compare between models whatever they read.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from lengthwise.errors import DataError, InvalidArgument
from lengthwise.tasks.corpus import LEAST_BYTES, Corpus, read_corpus
from lengthwise.tasks.task import Examples, check_count, check_length, tasks


@tasks.register("text")
@dataclass(frozen=True)
class Text:
    """Windows of bytes from text files, or from the Python standard library's own sources where no paths are given.

    A window starts anywhere in the joined files of its part with the same chance, so it may run from the end of one
    file over a newline into the next. The task itself is the part to train on; `held_out()` is the other tenth. How
    files are chosen, ordered and split is told in `lengthwise.tasks.corpus`.

    Args:
        paths: files or folders; one may be given as plain text. Files named here must be UTF-8 text; folders are
            searched for it.
        max_bytes: most bytes to use of both parts together, at least 1,000; taken evenly from all files.
        leave_out: files and folders below `paths` that are passed over.

    Raises:
        InvalidArgument: paths that are not text, or a bad `max_bytes`.
        DataError: files that can't be used; says which and why.

    Example:
        >>> text = Text()
        >>> text.sample(torch.Generator().manual_seed(0), batch=4, length=128).tokens.shape
        torch.Size([4, 128])
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "predict each byte of real text from the bytes before it"
    length_counts: ClassVar[str] = "bytes of text"
    examples: ClassVar[Sequence[tuple[str, str]]] = (("i", "mport os\n"), ("d", "ef read(path):"))
    family: ClassVar[str] = "text"
    metric: ClassVar[Literal["exact_match", "bits_per_byte"]] = "bits_per_byte"
    min_length: ClassVar[int] = 2

    paths: tuple[str, ...] | list[str] | str = ()
    max_bytes: int = 8_000_000
    leave_out: tuple[str, ...] | list[str] | str = ()
    part: Literal["train", "held_out"] = field(default="train", init=False)
    fingerprint: str = field(default="", init=False, repr=False)
    """Sha256 of the bytes of both parts, in hexadecimal."""
    _corpus: Corpus = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_count("max_bytes of Text", self.max_bytes, LEAST_BYTES)
        paths = _as_paths(self.paths)
        leave_out = _as_paths(self.leave_out)
        corpus = read_corpus(paths, self.max_bytes, leave_out)
        object.__setattr__(self, "paths", paths)
        object.__setattr__(self, "leave_out", leave_out)
        object.__setattr__(self, "_corpus", corpus)
        object.__setattr__(self, "fingerprint", corpus.fingerprint)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        r"""Names of the 256 bytes: `a`, `\n`, `0xff`."""
        escapes = {ord("\n"): r"\n", ord("\r"): r"\r", ord("\t"): r"\t"}
        return tuple(escapes.get(byte, chr(byte) if 32 <= byte < 127 else f"0x{byte:02x}") for byte in range(256))

    @property
    def data(self) -> UInt8[Tensor, " bytes"]:
        """All bytes of this part."""
        return self._corpus.train if self.part == "train" else self._corpus.held_out

    def sample(self, generator: torch.Generator, batch: int, length: int) -> Examples:
        """Draw windows of `length` bytes; every byte but the first is to be predicted."""
        check_count("batch", batch, 1)
        starts = len(self.data) - self.tokens_at(length) + 1
        first = torch.randint(starts, (batch, 1), generator=generator, device=generator.device)
        place = first.to(self.data.device) + torch.arange(length)  # [batch, length]
        tokens = self.data[place].long().to(generator.device)
        return Examples(tokens, (torch.arange(length, device=tokens.device) > 0).expand(batch, -1))

    def tokens_at(self, length: int) -> int:
        """`length`: a token is a byte. More than this part holds is a `DataError`."""
        check_length(self, length)
        if length > len(self.data):
            part = "training" if self.part == "train" else "held-out"
            raise DataError(
                f"the {part} part of the text holds {len(self.data)} bytes and a length of {length} needs {length}: "
                "give more text or choose a shorter length"
            )
        return length

    def show(self, tokens: Int64[Tensor, " total"]) -> tuple[str, str]:
        """The first byte and the rest as text; bytes that are no UTF-8 are shown as escapes."""
        data = bytes(tokens.tolist())
        return data[:1].decode("utf-8", "backslashreplace"), data[1:].decode("utf-8", "backslashreplace")

    def held_out(self) -> Text:
        """The task over the held-out part, without reading the files again."""
        twin = copy.copy(self)
        object.__setattr__(twin, "part", "held_out")
        return twin


def _as_paths(given: object) -> tuple[str, ...]:
    """One path or several as a tuple of text."""
    several = given if isinstance(given, tuple | list) else (given,)
    paths: list[str] = []
    for path in several:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise InvalidArgument(
                f"paths of Text must be names of files or folders, such as ['book.txt'], not {given!r}"
            )
        paths.append(str(path))
    return tuple(paths)
