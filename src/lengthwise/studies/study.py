"""What a study is: a function that returns experiments, and the numbers that a publication found on the same tasks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from lengthwise.errors import InvalidArgument, StorageError
from lengthwise.files import write_whole
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.lab.store import read_json, read_result
from lengthwise.registry import Registry
from lengthwise.tasks.task import Dataset

Scale = Literal["small", "medium", "paper"]
SCALES: tuple[Scale, ...] = ("small", "medium", "paper")


@dataclass(frozen=True)
class Trial:
    """One model of a study.

    Args:
        dataset: what it is trained and tested on.
        arm: what the study calls its encoding.
        experiment: the settings.
    """

    dataset: Dataset
    arm: str
    experiment: Experiment


@dataclass(frozen=True)
class Study:
    """All trials of a study at one scale.

    Args:
        name: in the registry.
        title: of the page.
        scale: which sizes.
        arms: names of the encodings in the publication's order, then further ones, with their specs.
        ranked: the arms that the publication ranks.
        trials: datasets by turns, so that a broken-off study has some of each.
        published: what the publication found; see the study's own module.
    """

    name: str
    title: str
    scale: Scale
    arms: Mapping[str, str]
    ranked: tuple[str, ...]
    trials: tuple[Trial, ...]
    published: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def datasets(self) -> list[Dataset]:
        """The datasets, each once, in the order of the trials."""
        return list(dict.fromkeys(trial.dataset for trial in self.trials))


@dataclass(frozen=True)
class Choice:
    """What a study may be asked to leave out or to add.

    Args:
        scale: which sizes.
        tasks: names of datasets, parts of them, or their tasks; all where empty.
        encodings: arms of the publication by name, or specs of further ones; the publication's where empty.
        seeds: models of each encoding and dataset.
        settings: for a dataset, what a search found; what is missing has the first rung of the search.
        scratchpads: formats, by name or by their letters: datasets whose answers follow a scratchpad come in addition,
            with the setting of the same one without.
    """

    scale: Scale = "small"
    tasks: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()
    seeds: int = 3
    settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    scratchpads: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise InvalidArgument(f"unknown scale {self.scale!r}: a study has {', '.join(SCALES)}")
        if self.seeds < 1:
            raise InvalidArgument(f"seeds must be at least 1, not {self.seeds}")


studies: Registry[Callable[[Choice], Study]] = Registry("study", "lengthwise.studies")


class ResultFiles:
    """The results of a study, a few KB a trial: enough to go on with it on another machine.

    Args:
        folder: holds one JSON file a trial, named as its run.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, trials: Sequence[Trial]) -> dict[Trial, Result]:
        """The stored results of these trials; whatever else lies there is left alone.

        Raises:
            StorageError: a file that can't be read, or holds another experiment's result.
        """
        found: dict[Trial, Result] = {}
        for trial in trials:
            path = self._path(trial)
            if path.exists():
                result = read_result(path, "delete this file, and the same command runs the trial again")
                if result.experiment != trial.experiment:
                    raise StorageError(f"{path} holds the result of another experiment: move it away")
                found[trial] = result
        return found

    def write(self, trial: Trial, result: Result) -> None:
        """Keep a result, with every tenth of the logged losses."""
        path = self._path(trial)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, replace(result, steps=result.steps[9::10], losses=result.losses[9::10]).to_json().encode())

    def settings(self) -> dict[str, dict[str, float]]:
        """What a search found: for each dataset its settings; empty where there was none."""
        path = self.folder / "settings.json"
        return read_json(path)["chosen"] if path.exists() else {}

    def write_search(self, chosen: Mapping[str, Mapping[str, float]], tried: Sequence[Mapping[str, Any]]) -> None:
        """Keep what a search chose, and all that it tried; of datasets that it left out, what an earlier one found."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "settings.json"
        before: dict[str, Any] = read_json(path) if path.exists() else {"chosen": {}, "tried": []}
        rows = [row for row in before["tried"] if row["dataset"] not in chosen]
        text = json.dumps({"chosen": before["chosen"] | dict(chosen), "tried": [*rows, *tried]}, indent=1)
        write_whole(self.folder / "settings.json", text.encode())

    def _path(self, trial: Trial) -> Path:
        return self.folder / "trials" / f"{trial.experiment.address}.json"
