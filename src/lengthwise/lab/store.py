"""Runs on disk: one folder each, named by what the experiment is.

    runs/<task>-<encoding>-s<seed>-<hash>/
        experiment.json     the settings, written first
        checkpoint.safetensors   weights, optimizer and random state while training runs; removed at the end
        model.safetensors   trained weights
        result.json         scores and losses, written last: a run with it is done
        lock                held by the process that trains

A file appears whole or not at all: it is written under another name, flushed to the disk, and renamed.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from lengthwise.errors import InvalidArgument, StorageError
from lengthwise.files import remove_partials, write_whole
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result, result_from_json


class RunFolder:
    """The folder of one experiment.

    Args:
        root: folder of all runs; made where it is missing.
        experiment: decides the folder's name.
    """

    def __init__(self, root: Path, experiment: Experiment) -> None:
        self.experiment = experiment
        self.path = Path(root) / experiment.address

    def result(self) -> Result | None:
        """The stored result, or None where the run is not done.

        Raises:
            StorageError: there is one that can't be read, or of another experiment.
        """
        path = self.path / "result.json"
        if not path.exists():
            return None
        result = read_result(path)
        if result.experiment != self.experiment:
            raise StorageError(f"{path} holds the result of another experiment: delete its folder to run this one")
        return result

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the folder for this process alone.

        Raises:
            StorageError: it can't be made or written, or another process holds it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(
                f"can't write {self.path}: {error.strerror or error}; choose another folder with --runs"
            ) from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StorageError(
                    f"another process is training {self.path.name}: wait for it, or choose another folder with --runs"
                ) from None
            except OSError as error:  # some network file systems
                raise StorageError(
                    f"can't lock {self.path}: {error.strerror or error}; choose another folder with --runs"
                ) from error
            remove_partials(self.path)
            yield
        finally:
            os.close(handle)

    def write_experiment(self) -> None:
        """Write the settings."""
        text = json.dumps(self.experiment.as_dict(), indent=1)
        write_whole(self.path / "experiment.json", text.encode())

    def write_checkpoint(self, tensors: dict[str, torch.Tensor]) -> None:
        """Write the state of training."""
        write_whole(self.path / "checkpoint.safetensors", save(tensors))

    def checkpoint(self) -> dict[str, torch.Tensor] | None:
        """The state of training that was written last, or None."""
        path = self.path / "checkpoint.safetensors"
        if not path.exists():
            return None
        try:
            return load_file(path)
        except (SafetensorError, OSError) as error:
            raise StorageError(f"the checkpoint {path} can't be read ({error}): delete it to train anew") from error

    def finish(self, weights: dict[str, torch.Tensor], result: Result) -> None:
        """Write the trained weights and the result, then drop the checkpoint."""
        write_whole(self.path / "model.safetensors", save(weights))
        write_whole(self.path / "result.json", result.to_json().encode())
        (self.path / "checkpoint.safetensors").unlink(missing_ok=True)


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """The trained weights in a run folder.

    Raises:
        StorageError: the run is not done, or the file can't be read.
    """
    path = folder / "model.safetensors"
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise StorageError(
            f"no trained weights at {path} ({error}): run the experiment, or delete its folder and run it again"
        ) from error


def read_result(path: Path, cure: str = "delete its folder to run the experiment again") -> Result:
    """The result in a `result.json`, or in a file like it.

    Args:
        path: of the file.
        cure: what an error says to do.

    Raises:
        StorageError: it can't be read, or is not a result.
    """
    try:
        return result_from_json(path.read_text())
    except (OSError, UnicodeDecodeError, InvalidArgument) as error:
        raise StorageError(f"{path} holds no result ({error}): {cure}") from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        StorageError: it can't be read.
    """
    try:
        data = json.loads(path.read_text())
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise StorageError(f"{path} can't be read ({error})") from error
    if not isinstance(data, dict):
        raise StorageError(f"{path} holds no JSON object")
    return cast("dict[str, Any]", data)


def find_results(places: list[Path]) -> tuple[list[Result], list[Path]]:
    """Results in run folders, or in folders of them; and the folders of runs that are not done. Each counts once.

    Raises:
        StorageError: a place does not exist, or holds neither.
    """
    done: list[Result] = []
    unfinished: list[Path] = []
    seen: set[Path] = set()
    for place in places:
        if not place.exists():
            raise StorageError(f"{place} does not exist: give a run folder, or the folder that holds them")
        folders = sorted({file.parent for file in place.glob("**/experiment.json")})
        if not folders:
            raise StorageError(f"{place} holds no runs: make some with 'lengthwise compare'")
        for folder in folders:
            if folder.resolve() in seen:
                continue
            seen.add(folder.resolve())
            if (folder / "result.json").exists():
                done.append(read_result(folder / "result.json"))
            else:
                unfinished.append(folder)
    return done, unfinished
