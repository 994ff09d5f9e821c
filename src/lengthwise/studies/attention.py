"""Whose attention resembles NoPE's, over the trained models of a study (2305.19466, section 5.2).

Every model of an arm is held against the NoPE model of its own seed, which began with the same weights elsewhere; the
control is NoPE against the NoPE of the next seed. Examples are read whole, prompt and answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch

from lengthwise.analysis.record import record
from lengthwise.analysis.similarity import attention_distance
from lengthwise.files import write_whole
from lengthwise.lab.run import load_model
from lengthwise.lab.store import read_json
from lengthwise.studies.study import Study, Trial
from lengthwise.tasks.task import build_task

CONTROL = "NoPE (another seed)"
BASE = "NoPE"

Series = dict[str, dict[int, list[float]]]
"""By arm and length one distance a seed."""


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


def write_distances(path: Path, found: dict[str, Series]) -> None:
    """Keep distances beside the results of a study."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(found, indent=1).encode())


def read_distances(path: Path) -> dict[str, Series]:
    """The inverse of `write_distances`; empty where there is no file."""
    if not path.exists():
        return {}
    data = cast("dict[str, dict[str, dict[str, list[float]]]]", cast(Any, read_json(path)))
    return {
        variant: {arm: {int(length): values for length, values in rows.items()} for arm, rows in series.items()}
        for variant, series in data.items()
    }


def order_of_arms(series: Series) -> list[tuple[str, float]]:
    """Arms by their mean distance over lengths and seeds, the nearest first."""
    means = {arm: _mean([value for values in rows.values() for value in values]) for arm, rows in series.items()}
    return sorted(means.items(), key=lambda item: item[1])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _trained(runs: Path, trial: Trial) -> bool:
    return (runs / trial.experiment.address / "model.safetensors").exists()
