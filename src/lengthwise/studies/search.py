"""One setting a dataset, the same for all encodings, found on trained lengths alone.

Rungs of settings, cheapest first. A dataset takes the first rung at which every encoding reaches the exact match that
counts as trained, on trained lengths and with a seed that the study does not use. The first encoding that does not
reach it ends a rung; the last rung is for what is left, and is not tried. Longer lengths are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.studies.kazemnejad2023 import RUNGS, chosen_arms, chosen_datasets, experiment
from lengthwise.studies.outcome import TRAINED, on_trained
from lengthwise.studies.study import Choice
from lengthwise.tasks.task import Dataset

SEARCH_SEED = 1000
"""Of the search's models, which are none of the study's."""

Chosen = dict[str, dict[str, float]]
Tried = list[dict[str, Any]]


def search(choice: Choice, run: Callable[[Sequence[Experiment]], Sequence[Result]]) -> tuple[Chosen, Tried]:
    """Find the setting of each dataset.

    Args:
        choice: which datasets and encodings; those with a scratchpad take the setting of the plain ones, and wait.
        run: trains and tests models, in the order given.

    Returns:
        The setting of each dataset by name, and for each one tried what the encodings reached, up to the first that
        did not reach enough.
    """
    choice = replace(choice, scratchpads=())
    left, arms = chosen_datasets(choice), chosen_arms(choice)
    chosen, tried = Chosen(), Tried()
    for rung in RUNGS[:-1]:
        reached: dict[str, dict[str, float]] = {dataset.name: {} for dataset in left}
        good = left
        for arm, spec in arms.items():
            results = run([_on_trained(dataset, spec, rung, choice) for dataset in good])
            for dataset, result in zip(good, results, strict=True):
                reached[dataset.name][arm] = on_trained(result)
            good = [dataset for dataset in good if reached[dataset.name][arm] >= TRAINED]
        tried += [
            {"dataset": dataset.name, "setting": dict(rung), "reached": reached[dataset.name]} for dataset in left
        ]
        chosen |= {dataset.name: dict(rung) for dataset in good}
        left = [dataset for dataset in left if dataset not in good]
    return chosen | {dataset.name: dict(RUNGS[-1]) for dataset in left}, tried


def _on_trained(dataset: Dataset, spec: str, rung: Mapping[str, float], choice: Choice) -> Experiment:
    at_rung = replace(choice, settings={dataset.name: rung})
    one = experiment(dataset, spec, SEARCH_SEED, at_rung)
    return replace(one, test_lengths=tuple(length for length in one.test_lengths if length <= one.train_length))
