"""Text files as two rows of bytes: one to train on, one that training never sees.

Files are ordered by a hash of their path below the root that was given, which mixes them the same way on every
machine. In that order they are read until `max_bytes` are had, so that a part of a large collection is an even part.
What was read is joined, in the order of listing, by newlines.

The split: where there are at least 10 files, whole files are held out, in the order of the hash until they hold
10 % of the bytes, leaving out any that would make it more than 12.5 %. Where there are fewer files, or the files are so
uneven that less than 5 % can be had that way, the last 10 % of the bytes are held out.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import stat
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from lengthwise.errors import DataError

LEAST_BYTES = 1000
LEAST_FILES = 10
HEAD = 8192
NOT_LIBRARY = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"})


@dataclass(frozen=True, eq=False)
class Corpus:
    """The bytes of both parts, and the sha256 of them that tells one corpus from another."""

    train: UInt8[Tensor, " train"]
    held_out: UInt8[Tensor, " held_out"]
    fingerprint: str


@dataclass(frozen=True)
class _File:
    path: Path
    name: str  # below the root that was given, with "/" on every system
    named: bool  # by the user, so that it may not be passed over

    @property
    def rank(self) -> bytes:
        return hashlib.sha256(self.name.encode("utf-8", "surrogateescape")).digest()


def read_corpus(paths: Sequence[str], max_bytes: int, leave_out: Sequence[str] = ()) -> Corpus:
    """Read files and folders, or the Python standard library's own `.py` files where `paths` is empty.

    Folders are searched to their ends for text files; hidden files and folders, links to folders, empty files and
    binary files in them are passed over, and so are the files and folders in `leave_out`.

    Raises:
        DataError: a path that does not exist or can't be read, a file named by itself that is empty or binary,
            a folder without text, fewer than 1,000 bytes in all.
    """
    library = sysconfig.get_path("stdlib")
    listed = [file for path in paths for file in _list(path)] if paths else _python_files(library)
    if leave_out:
        unwanted = [Path(os.path.realpath(path)) for path in leave_out]
        listed = [file for file in listed if file.named or not _is_below(file.path, unwanted)]
    once: dict[str, _File] = {}
    for file in listed:  # a file that two paths lead to could stand on both sides of the split
        once.setdefault(os.path.realpath(file.path), file)
    files = list(once.values())
    order = sorted(range(len(files)), key=lambda place: files[place].rank)

    texts: dict[int, bytes] = {}
    room = max_bytes
    for place in order:
        if room < 1:
            break
        text = _read(files[place], room)
        if text:
            texts[place] = text
            room -= len(text) + 1  # the newline that joins it to the next

    total = max(0, sum(map(len, texts.values())) + len(texts) - 1)
    if total < LEAST_BYTES:
        source = ", ".join(map(repr, paths)) or f"the Python library in {library!r}"
        raise DataError(f"{source} gives {total} bytes of text, and at least {LEAST_BYTES} are needed: give more files")
    return _corpus(*_split(texts, [place for place in order if place in texts]))


def _split(texts: dict[int, bytes], order: list[int]) -> tuple[bytes, bytes]:
    total = sum(map(len, texts.values()))
    held: set[int] = set()
    size = 0
    for place in order if len(order) >= LEAST_FILES else []:
        if size < total / 10 and size + len(texts[place]) <= total / 8:
            held.add(place)
            size += len(texts[place])
    if size >= total / 20:
        parts = ([texts[place] for place in sorted(texts) if (place in held) == side] for side in (False, True))
        train, held_out = (b"\n".join(part) for part in parts)
        return train, held_out
    whole = b"\n".join(texts[place] for place in sorted(texts))
    cut = len(whole) - len(whole) // 10
    return whole[:cut], whole[cut:]


def _corpus(train: bytes, held_out: bytes) -> Corpus:
    digest = hashlib.sha256(f"{len(train)}\n".encode())
    digest.update(train)
    digest.update(held_out)
    # Through a bytearray, since torch warns of memory that it must not write.
    rows = [torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in (train, held_out)]
    return Corpus(rows[0], rows[1], digest.hexdigest())


def _list(path: str) -> list[_File]:
    """The files that one path of the user stands for."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise DataError(f"there is no file or folder {path!r}") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if stat.S_ISREG(mode):
        return [_File(Path(path), Path(path).name, named=True)]
    if not stat.S_ISDIR(mode):
        raise DataError(f"{path!r} is neither a regular file nor a folder")
    files = [_File(file, file.relative_to(path).as_posix(), named=False) for file in _walk(path, frozenset())]
    if not files:
        raise DataError(f"the folder {path!r} holds no files (hidden ones are passed over)")
    return files


def _is_below(path: Path, folders: Sequence[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(folder) for folder in folders)


def _python_files(library: str) -> list[_File]:
    if not os.path.isdir(library):
        raise DataError(f"this Python has no library sources in {library!r}: name text files with paths=[...]")
    found = [file for file in _walk(library, NOT_LIBRARY) if file.suffix == ".py"]
    return [_File(file, file.relative_to(library).as_posix(), named=False) for file in found]


def _walk(root: str, left_out: frozenset[str]) -> Iterator[Path]:
    """All regular files below `root` that are not hidden, sorted."""

    def refuse(error: OSError) -> None:
        raise _unreadable(str(error.filename), error) from None

    for folder, folders, names in os.walk(root, onerror=refuse):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in left_out)
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and path.is_file():
                yield path


def _read(file: _File, limit: int) -> bytes:
    """Up to `limit` bytes of a text file; none where it is empty or binary and was not named by itself."""
    try:
        with file.path.open("rb") as stream:
            text = stream.read(limit)
    except OSError as error:
        raise _unreadable(str(file.path), error) from None
    fault = "is empty" if not text else "is binary, not UTF-8 text" if not _is_text(text) else ""
    if fault and file.named:
        raise DataError(f"the file {str(file.path)!r} {fault}")
    return b"" if fault else text


def _is_text(data: bytes) -> bool:
    head = data[:HEAD]
    if 0 in head:
        return False
    try:
        # Not final: the last character of the head may go on behind it.
        codecs.getincrementaldecoder("utf-8")().decode(head, final=False)
    except UnicodeDecodeError:
        return False
    return True


def _unreadable(path: str, error: Exception) -> DataError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return DataError(f"{path!r} can't be read: {reason}")
