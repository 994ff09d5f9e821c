"""One setting a dataset, the same for all encodings, found on trained lengths alone.

Rungs of settings, cheapest first. A dataset takes the first rung at which every encoding reaches the exact match that
counts as trained, on trained lengths and with a seed that the study does not use; where no rung does that, the one
whose worst encoding is best. Longer lengths are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.studies.kazemnejad2023 import RUNGS, chosen_arms, chosen_datasets, experiment
from lengthwise.studies.outcome import METRIC, TRAINED
from lengthwise.studies.study import Choice
from lengthwise.tasks.task import Dataset

SEARCH_SEED = 1000
"""Of the search's models, which are none of the study's."""

Chosen = dict[str, dict[str, float]]
Tried = list[dict[str, Any]]


def search(choice: Choice, run: Callable[[Sequence[Experiment]], Sequence[Result]]) -> tuple[Chosen, Tried]:
    """Find the setting of each dataset.

    Args:
        choice: which datasets and encodings.
        run: trains and tests models, in the order given.

    Returns:
        The setting of each dataset by name, and for each one tried what every encoding reached.
    """
    left, arms = chosen_datasets(choice), chosen_arms(choice)
    tried: Tried = []
    worst: dict[str, list[tuple[float, Mapping[str, float]]]] = {one.name: [] for one in left}
    chosen: Chosen = {}
    for rung in RUNGS:
        wanted = [
            (dataset, arm, _on_trained(dataset, spec, rung, choice)) for dataset in left for arm, spec in arms.items()
        ]
        results = run([experiment for _, _, experiment in wanted])
        reached: dict[str, dict[str, float]] = {}
        for (dataset, arm, _), result in zip(wanted, results, strict=True):
            values = result.scores[METRIC]
            reached.setdefault(dataset.name, {})[arm] = sum(values) / len(values)
        for dataset in left:
            tried.append({"dataset": dataset.name, "setting": dict(rung), "reached": reached[dataset.name]})
            worst[dataset.name].append((min(reached[dataset.name].values()), rung))
            if worst[dataset.name][-1][0] >= TRAINED:
                chosen[dataset.name] = dict(rung)
        left = [dataset for dataset in left if dataset.name not in chosen]
    for dataset in left:
        chosen[dataset.name] = dict(max(worst[dataset.name], key=lambda pair: pair[0])[1])
    return chosen, tried


def _on_trained(dataset: Dataset, spec: str, rung: Mapping[str, float], choice: Choice) -> Experiment:
    at_rung = replace(choice, settings={dataset.name: rung})
    one = experiment(dataset, spec, SEARCH_SEED, at_rung)
    return replace(one, test_lengths=tuple(length for length in one.test_lengths if length <= one.train_length))
