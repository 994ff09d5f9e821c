"""Whose attention resembles NoPE's, and how far heads look, over the trained models of a study (2305.19466, section 5).

Every model of an arm is held against the NoPE model of its own seed, which began with the same weights elsewhere; the
control is NoPE against the NoPE of the next seed. Examples are read whole, prompt and answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from lengthwise.analysis.reach import attended_distance, histogram
from lengthwise.analysis.record import record
from lengthwise.analysis.similarity import attention_distance
from lengthwise.files import write_whole
from lengthwise.lab.run import load_model
from lengthwise.lab.store import read_json
from lengthwise.studies.study import Study, Trial
from lengthwise.tasks.task import build_task

CONTROL = "NoPE (another seed)"
BASE = "NoPE"

LOOKED_AT = ("Addition, full scratchpad", "Addition, minimal scratchpad", "Addition")
"""Where it is measured how far heads look: the first that there are models of is shown; the paper has the first."""

Series = dict[str, dict[int, list[float]]]
"""By arm and length one distance a seed."""
Reach = dict[str, dict[str, list[list[float]]]]
"""By dataset and arm one histogram a seed."""


def attention_to_nope(study: Study, runs: Path, *, dataset: str = "SCAN", examples: int = 10) -> dict[str, Series]:
    """Distances by variant of the divergence (`"true"`, `"authors"`), arm and length, for seeds that have models.

    Args:
        study: its trials on `dataset` are compared.
        runs: the folder with their trained models.
        dataset: the study compared attention on SCAN.
        examples: of each length.
    """
    trials = [trial for trial in study.trials if trial.dataset.name == dataset and _trained(runs, trial)]
    found: dict[str, Series] = {"true": {}, "authors": {}}
    seeds = sorted({trial.experiment.seed for trial in trials})
    by_place = {(trial.arm, trial.experiment.seed): trial for trial in trials}
    pairs = [(arm, (arm, seed), (BASE, seed)) for arm in study.ranked if arm != BASE for seed in seeds]
    pairs += [(CONTROL, (BASE, a), (BASE, b)) for a, b in zip(seeds, seeds[1:] + seeds[:1], strict=True) if a != b]
    for name, mine, base in pairs:
        if mine not in by_place or base not in by_place:
            continue
        first, _ = load_model(runs / by_place[mine].experiment.address)
        second, _ = load_model(runs / by_place[base].experiment.address)
        one = by_place[mine].experiment
        task = build_task(one.task)
        for length in one.test_lengths:
            generator = torch.Generator().manual_seed(2**41 + length)  # the same examples for every pair
            tokens = task.sample(generator, examples, length).tokens
            weights = record(first, tokens).weights, record(second, tokens).weights
            for variant, series in found.items():
                distance = attention_distance(*weights, "authors" if variant == "authors" else "true").mean()
                series.setdefault(name, {}).setdefault(length, []).append(float(distance))
    return found


def attended(study: Study, runs: Path, *, examples: int = 10, bins: int = 20) -> Reach:
    """How far each arm's heads look, on the datasets in `LOOKED_AT`, for models that are there.

    Shares of the normalized distance of the key attended to most, in even bins from 0 to 1, over all tested lengths,
    layers, heads, queries and `examples` of each length (2305.19466, section 5.1: on addition with a scratchpad).
    """
    found: Reach = {}
    for trial in study.trials:
        if trial.dataset.name not in LOOKED_AT or not _trained(runs, trial):
            continue
        model, _ = load_model(runs / trial.experiment.address)
        task = build_task(trial.experiment.task)
        far: list[Tensor] = []
        for length in trial.experiment.test_lengths:
            generator = torch.Generator().manual_seed(2**41 + length)  # the same examples for every arm
            tokens = task.sample(generator, examples, length).tokens
            far.append(attended_distance(record(model, tokens).weights).flatten())
        shares = histogram(torch.cat(far), bins).tolist()
        found.setdefault(trial.dataset.name, {}).setdefault(trial.arm, []).append(shares)
    return found


@dataclass(frozen=True)
class AttentionFiles:
    """What was read off the attention of a study's models, beside its results: models need not be there again.

    Args:
        folder: of results.
    """

    folder: Path

    def keep(self, study: Study, runs: Path) -> None:
        """Measure the models that are there; an arm with more seeds in the files than here is left as it is."""
        for path, found in ((self._distances, attention_to_nope(study, runs)), (self._reach, attended(study, runs))):
            before = read_json(path) if path.exists() else {}
            merged = _merged(before, json.loads(json.dumps(found)))
            if merged not in (before, {}):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, json.dumps(merged, indent=1).encode())

    def distances(self) -> dict[str, Series]:
        """What `attention_to_nope` found; empty where there is no file."""
        if not self._distances.exists():
            return {}
        data = cast("dict[str, dict[str, dict[str, list[float]]]]", cast(Any, read_json(self._distances)))
        return {
            variant: {arm: {int(length): values for length, values in rows.items()} for arm, rows in series.items()}
            for variant, series in data.items()
        }

    def reach(self) -> Reach:
        """What `attended` found; empty where there is no file."""
        return cast(Reach, cast(Any, read_json(self._reach))) if self._reach.exists() else {}

    @property
    def _distances(self) -> Path:
        return self.folder / "attention.json"

    @property
    def _reach(self) -> Path:
        return self.folder / "attended.json"


def _merged(before: Any, found: Any) -> Any:
    """Lists, one entry a seed, take the place of shorter ones; what only one has stays."""
    if isinstance(before, dict):
        return before | {key: _merged(before[key], new) if key in before else new for key, new in found.items()}
    return found if len(found) >= len(before) else before


def order_of_arms(series: Series) -> list[tuple[str, float]]:
    """Arms by their mean distance over lengths and seeds, the nearest first."""
    means = {arm: _mean([value for values in rows.values() for value in values]) for arm, rows in series.items()}
    return sorted(means.items(), key=lambda item: item[1])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _trained(runs: Path, trial: Trial) -> bool:
    return (runs / trial.experiment.address / "model.safetensors").exists()
