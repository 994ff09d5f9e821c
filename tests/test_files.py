"""A file appears whole or not at all, whatever breaks while it is written."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lengthwise.errors import StorageError
from lengthwise.files import check_file, check_folder, write_whole


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def test_what_is_written_is_read_back_and_missing_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "file"
    write_whole(path, b"first")
    write_whole(path, b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("step", ["os.open", "os.fsync", "os.replace", "Path.open"])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EACCES])
def test_an_error_at_any_step_leaves_the_old_file_or_the_new_one_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, number: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    owner, name = (os, step[3:]) if step.startswith("os.") else (Path, "open")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, failing(number))
        with pytest.raises(StorageError, match=r"can't write .*file: " + os.strerror(number)):
            write_whole(path, b"new")
    assert os.listdir(tmp_path) == ["file"]
    # Only the flush of the folder comes after the new file has its name.
    assert path.read_bytes() == (b"new" if step == "os.open" else b"old")


def test_a_disk_that_fills_half_way_leaves_the_old_file_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    opened = Path.open

    class Full:
        def __init__(self, file: Any) -> None:
            self.file = file

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, data: bytes) -> int:
            self.file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda self, mode="r", **rest: Full(opened(self, mode, **rest)))
        with pytest.raises(StorageError, match="No space left on device; free space, or choose another place"):
            write_whole(path, b"new and longer")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_ctrl_c_while_writing_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def stop(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_data_is_on_the_disk_before_it_has_its_name_and_the_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, rename = os.fsync, os.replace

    def fsync(handle: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        sync(handle)

    def replace(old: Path, new: Path) -> None:
        steps.append("rename")
        rename(old, new)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    write_whole(tmp_path / "file", b"data")
    assert steps == ["file", "rename", "folder"]


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "inside").write_text("kept")
    for check in (check_file, lambda path: write_whole(path, b"new")):
        with pytest.raises(StorageError, match=r"can't write .*: Is a directory"):
            check(tmp_path)
    assert os.listdir(tmp_path) == ["inside"]
    assert not list(tmp_path.parent.glob(".*.partial"))


@pytest.mark.parametrize("path", [".", "", "/", ".."])
def test_a_path_without_a_name_is_told(path: str) -> None:
    for check in (check_file, lambda path: write_whole(path, b"new")):
        with pytest.raises(StorageError, match="can't write"):
            check(Path(path))


def test_a_path_below_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept")
    below = tmp_path / "file" / "below" / "it"
    for check in (check_file, check_folder, lambda path: write_whole(path, b"new")):
        with pytest.raises(StorageError, match=r"can't write .*: Not a directory"):
            check(below)
    for check in (check_folder, lambda path: check_file(path / "page.html")):
        with pytest.raises(StorageError, match=r"can't write .*: Not a directory"):
            check(tmp_path / "file")


def test_a_device_is_written_to_and_not_replaced() -> None:
    before = os.stat(os.devnull)
    write_whole(Path(os.devnull), b"gone")
    check_file(Path(os.devnull))
    after = os.stat(os.devnull)
    assert stat.S_ISCHR(after.st_mode)
    assert after.st_ino == before.st_ino


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_checks_leave_nothing_behind_but_the_folder(tmp_path: Path) -> None:
    check_file(tmp_path / "a" / "page.html")
    check_folder(tmp_path / "b")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert not os.listdir(tmp_path / "a")
    assert not os.listdir(tmp_path / "b")
