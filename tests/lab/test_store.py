"""Runs on disk: who holds a folder, what is left of a crash, and what is found again."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from lengthwise.errors import StorageError
from lengthwise.lab import Experiment, Result, find_results, run
from lengthwise.lab.store import RunFolder, read_json, read_weights

Tiny = Callable[..., Experiment]


@contextmanager
def held(folder: Path) -> Generator[None]:
    """The lock of a folder, held through a file of our own as another process would."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, tiny: Tiny) -> tuple[Path, Result]:
    runs = tmp_path_factory.mktemp("runs")
    return runs, run(tiny(), runs=runs, device="cpu")


def copy_of(done: tuple[Path, Result], place: Path) -> Path:
    """The folder of the done run, copied into `place`."""
    (source,) = done[0].iterdir()
    folder = place / source.name
    folder.mkdir(parents=True)
    for file in source.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


# --- one process a folder ------------------------------------------------------------


def test_a_folder_that_another_process_holds_is_told_and_free_once_it_ends(tmp_path: Path, tiny: Tiny) -> None:
    folder = RunFolder(tmp_path, tiny())
    with held(folder.path):
        with pytest.raises(StorageError) as caught, folder.locked():
            pass
        assert str(caught.value) == (
            f"another process is training {folder.path.name}: wait for it, or choose another folder with --runs"
        )
    with folder.locked():
        assert (folder.path / "lock").exists()


def test_a_run_that_is_done_is_read_while_another_process_holds_its_folder(
    tmp_path: Path, tiny: Tiny, done: tuple[Path, Result]
) -> None:
    folder = copy_of(done, tmp_path)
    with held(folder):
        assert run(tiny(), runs=tmp_path, device="cpu") == done[1]


def test_the_lock_is_free_after_an_error(tmp_path: Path, tiny: Tiny) -> None:
    folder = RunFolder(tmp_path, tiny())
    with pytest.raises(KeyError), folder.locked():
        raise KeyError
    with folder.locked():
        pass


def test_two_runs_of_different_experiments_do_not_wait_for_each_other(tmp_path: Path, tiny: Tiny) -> None:
    with RunFolder(tmp_path, tiny()).locked(), RunFolder(tmp_path, tiny(seed=1)).locked():
        pass


def test_a_file_system_that_cannot_lock_is_told(tmp_path: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StorageError, match=r"can't lock .*: No locks available"), RunFolder(tmp_path, tiny()).locked():
        pass


def test_what_a_killed_process_half_wrote_is_removed_and_nothing_else(tmp_path: Path, tiny: Tiny) -> None:
    folder = RunFolder(tmp_path, tiny())
    folder.path.mkdir()
    (folder.path / ".checkpoint.safetensors.4242.partial").write_bytes(b"half")
    (folder.path / ".result.json.1.partial").write_bytes(b"half")
    (folder.path / "notes.partial").write_bytes(b"of the user")
    with folder.locked():
        assert sorted(os.listdir(folder.path)) == ["lock", "notes.partial"]


def test_a_process_that_is_refused_removes_nothing(tmp_path: Path, tiny: Tiny) -> None:
    folder = RunFolder(tmp_path, tiny())
    with held(folder.path):
        (folder.path / ".result.json.1.partial").write_bytes(b"being written")
        with pytest.raises(StorageError), folder.locked():
            pass
        assert (folder.path / ".result.json.1.partial").exists()


# --- what is written and read ------------------------------------------------------------


def test_a_checkpoint_comes_back_bit_for_bit(tmp_path: Path, tiny: Tiny) -> None:
    folder = RunFolder(tmp_path, tiny())
    assert folder.checkpoint() is None
    tensors = {
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "empty": torch.zeros(2, 0, dtype=torch.float64),
        "number": torch.tensor(3.0),
        "state": torch.get_rng_state(),
        "odd": torch.tensor([float("nan"), float("inf"), -0.0]),
    }
    folder.write_checkpoint(tensors)
    back = folder.checkpoint()
    assert back is not None
    assert back.keys() == tensors.keys()
    for name, value in tensors.items():
        assert back[name].dtype == value.dtype
        assert back[name].shape == value.shape
        assert torch.equal(back[name].reshape(-1).view(torch.uint8), value.reshape(-1).view(torch.uint8))


def test_a_checkpoint_that_was_read_is_not_changed_by_training_on(tmp_path: Path, tiny: Tiny) -> None:
    folder = RunFolder(tmp_path, tiny())
    folder.write_checkpoint({"moment": torch.ones(1000)})
    before = (folder.path / "checkpoint.safetensors").read_bytes()
    back = folder.checkpoint()
    assert back is not None
    back["moment"].mul_(0)
    assert (folder.path / "checkpoint.safetensors").read_bytes() == before


@pytest.mark.parametrize("last", ["model.safetensors", "result.json"])
def test_a_run_that_ends_without_its_result_is_not_done(
    tmp_path: Path, done: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    folder = RunFolder(tmp_path, done[1].experiment)
    folder.write_experiment()
    folder.write_checkpoint({"a": torch.ones(2)})
    rename = os.replace

    def fail(old: Path, new: Path) -> None:
        if Path(new).name == last:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        rename(old, new)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match="Input/output error"):
        folder.finish({"w": torch.ones(2)}, done[1])
    assert folder.result() is None
    assert folder.checkpoint() is not None  # kept until the result is there


def test_weights_that_are_missing_or_damaged_are_told(tmp_path: Path, done: tuple[Path, Result]) -> None:
    folder = copy_of(done, tmp_path)
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(StorageError, match=r"no trained weights at .*model"):
        read_weights(folder)
    with pytest.raises(StorageError, match="no trained weights at"):
        read_weights(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"3", b"\xff\x00", b'"text"'])
def test_settings_that_cannot_be_read_are_told(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "experiment.json"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"experiment.json") as caught:
        read_json(path)
    assert "\n" not in str(caught.value)


# --- finding ------------------------------------------------------------


def test_results_are_found_in_a_run_folder_in_a_folder_of_runs_and_below_it(
    tmp_path: Path, done: tuple[Path, Result]
) -> None:
    folder = copy_of(done, tmp_path / "deep" / "er")
    for place in (folder, tmp_path / "deep" / "er", tmp_path):
        assert find_results([place]) == ([done[1]], [])


def test_a_run_that_is_found_twice_counts_once(tmp_path: Path, done: tuple[Path, Result]) -> None:
    folder = copy_of(done, tmp_path)
    assert find_results([tmp_path, folder, tmp_path / "." / folder.name]) == ([done[1]], [])


def test_runs_that_are_not_done_are_listed(tmp_path: Path, tiny: Tiny, done: tuple[Path, Result]) -> None:
    copy_of(done, tmp_path)
    half = RunFolder(tmp_path, tiny(seed=5))
    half.write_experiment()
    assert find_results([tmp_path]) == ([done[1]], [half.path])


def test_a_place_without_runs_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere does not exist: give a run folder, or the folder that holds them"):
        find_results([tmp_path / "nowhere"])
    with pytest.raises(StorageError, match="holds no runs: make some with 'lengthwise compare'"):
        find_results([tmp_path])
    (tmp_path / "file").write_text("kept")
    with pytest.raises(StorageError, match="holds no runs"):
        find_results([tmp_path / "file"])


def test_a_damaged_result_among_others_is_named(tmp_path: Path, tiny: Tiny, done: tuple[Path, Result]) -> None:
    copy_of(done, tmp_path)
    bad = RunFolder(tmp_path, tiny(seed=5))
    bad.write_experiment()
    (bad.path / "result.json").write_text("{}")
    with pytest.raises(StorageError, match=bad.path.name):
        find_results([tmp_path])


def test_an_unwritable_folder_is_told(tmp_path: Path, tiny: Tiny) -> None:
    (tmp_path / "file").write_text("kept")
    folder = RunFolder(tmp_path / "file", tiny())
    with pytest.raises(StorageError, match="Not a directory"):
        folder.write_checkpoint({"a": torch.ones(1)})
    with pytest.raises(StorageError, match="Not a directory; choose another folder with --runs"), folder.locked():
        pass
