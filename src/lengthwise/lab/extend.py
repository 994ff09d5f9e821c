"""Trained models taken past their length by every extension that applies, without training again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from lengthwise.build import build_method
from lengthwise.errors import StorageError
from lengthwise.extension import Method, extensions
from lengthwise.lab.evaluate import scored_bytes
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.extend_model import encodings_of, extended_model, measure, reaches, why_not
from lengthwise.lab.extend_settings import forms, spec_of
from lengthwise.lab.extend_store import UNTOUCHED, Key, Measured, Measurements
from lengthwise.lab.result import Result
from lengthwise.lab.run import load_model
from lengthwise.lab.store import find_results, read_weights
from lengthwise.models.decoder import Decoder
from lengthwise.tasks.task import Task, build_task

SHORT = ("original_length",)
"""Settings that labels leave out: they are the trained length."""


@dataclass(frozen=True)
class Run:
    """A trained model on disk and what it scored when it was trained."""

    folder: Path
    result: Result


@dataclass(frozen=True)
class Way:
    """One row of a table: a method by its label, with its settings at each length.

    Args:
        label: `"yarn(factor=8)"`, `"yarn at each length"`, `"untouched"`.
        methods: by tested length; None leaves the model as it is.
    """

    label: str
    methods: Mapping[int, Method | None]


@dataclass(frozen=True)
class Extended:
    """What one trained model scored by each way.

    Args:
        run: the model.
        lengths: tested, rising.
        measured: by label of the way, one entry a length; the untouched model first.
        left_out: kinds and specs that say nothing here, with the reason.
    """

    run: Run
    lengths: tuple[int, ...]
    measured: Mapping[str, tuple[Measured, ...]]
    left_out: Mapping[str, str]


def find_runs(places: Sequence[Path]) -> tuple[list[Run], list[Path]]:
    """Trained models in run folders or folders of them, each once; and the folders of runs that are not done.

    Raises:
        StorageError: a place does not exist or holds no runs, or a run has no weights.
    """
    find_results(list(places))  # for its errors
    runs: dict[str, Run] = {}
    unfinished: dict[Path, None] = {}
    for folder in sorted({file.parent for place in places for file in place.glob("**/experiment.json")}):
        done, _ = find_results([folder])
        if not done:
            unfinished[folder] = None
            continue
        if not (folder / "model.safetensors").exists():
            read_weights(folder)  # says what is missing
        runs.setdefault(done[0].experiment.address, Run(folder, done[0]))
    if not runs:
        raise StorageError(
            f"no run in {', '.join(map(str, places))} is done: finish them with 'lengthwise compare' first"
        )
    return list(runs.values()), list(unfinished)


def extend_run(
    run: Run,
    store: Measurements,
    *,
    specs: Sequence[str] = (),
    lengths: Sequence[int] = (),
    each: bool = False,
    device: torch.device | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Extended:
    """Test one trained model untouched and by each way; what is in the store is not measured again.

    Args:
        run: the trained model.
        store: of measurements; written after each way.
        specs: methods; every registered extension that applies where empty.
        lengths: to test; those of the experiment where empty.
        each: also take settings for each length by itself, where they differ from those for the longest.
        device: where to compute, the CPU where None.
        on_progress: called with the label of each way before it is measured.

    Raises:
        InvalidArgument: an unknown method or settings out of range; lengths that a task can't have.
        StorageError: weights that can't be read, a store that can't be written.
    """
    device = device or torch.device("cpu")
    model, experiment = load_model(run.folder)
    model.to(device)
    task = build_task(experiment.task)
    tested = replace(experiment, test_lengths=tuple(sorted(set(lengths or experiment.test_lengths))))
    every, left_out = _ways(model, task, tested, specs, each)
    # The same bytes at all lengths: cut from windows of the longest, as many at the end as the shortest allows.
    text = task.metric == "bits_per_byte"
    examples = f"{scored_bytes(tested)} of {tested.test_lengths[-1]}" if text else ""
    found: dict[str, tuple[Measured, ...]] = {}
    for way in every:
        keys = {
            length: Key(experiment.address, UNTOUCHED if method is None else spec_of(method), length, examples)
            for length, method in way.methods.items()
        }
        missing = {length: method for length, method in way.methods.items() if keys[length] not in store.found}
        if missing:
            if on_progress is not None:
                on_progress(way.label)
            made = _measured(model, missing, task, tested, device)
            store.write({keys[length]: value for length, value in made.items()})
        found[way.label] = tuple(store.found[keys[length]] for length in tested.test_lengths)
    return Extended(run, tested.test_lengths, found, left_out)


def _measured(
    model: Decoder, methods: Mapping[int, Method | None], task: Task, experiment: Experiment, device: torch.device
) -> dict[int, Measured]:
    trained = max(1, task.tokens_at(experiment.train_length) - 1)
    models: dict[int, Decoder] = {}
    untrained: dict[int, bool] = {}
    for length, method in methods.items():
        need = max(1, task.tokens_at(length) - 1)
        made, untrained[length] = extended_model(model, method, trained, need)
        if reaches(made, need):
            models[length] = made.to(device)
    scores = measure(models, task, experiment, device) if models else {}
    # Where a table ends before a length there is no score.
    none = dict.fromkeys(next(iter(scores.values()), {task.metric: 0.0}), math.nan)
    return {length: Measured(scores.get(length, none), untrained[length]) for length in methods}


def _ways(
    model: Decoder, task: Task, experiment: Experiment, specs: Sequence[str], each: bool
) -> tuple[list[Way], dict[str, str]]:
    lengths = experiment.test_lengths
    trained, longest = task.tokens_at(experiment.train_length), task.tokens_at(lengths[-1])
    ways = [Way(UNTOUCHED, dict.fromkeys(lengths))]
    left_out: dict[str, str] = {}
    if specs:
        dims = experiment.model.for_vocabulary(len(task.vocabulary)).dims(longest, trained)
        for spec in specs:
            method = build_method(spec, dims)
            reason = why_not(model, method)
            if reason is not None:
                left_out[spec] = reason
            else:
                ways.append(Way(spec_of(method, SHORT), dict.fromkeys(lengths, method)))
        return ways, left_out
    base = next((found for one in encodings_of(model) if (found := _base(one)) is not None), 10000.0)
    for name, kind in extensions.items():
        made = [_fitting(model, one) for one in forms(kind, trained, longest, base=base)]
        if not made:
            left_out[name] = "it acts in training or on images, and lengths alone give it no settings"
        for number, method in enumerate(made):
            if why_not(model, method) is not None:
                continue  # made for another kind of encoding
            ways.append(Way(spec_of(method, SHORT), dict.fromkeys(lengths, method)))
            if each:
                by_length = {
                    length: _fitting(model, forms(kind, trained, task.tokens_at(length), base=base)[number])
                    for length in lengths
                }
                if any(one != method for length, one in by_length.items() if length > experiment.train_length):
                    ways.append(Way(f"{_form(method)} at each length", by_length))
    return ways, left_out


def _fitting(model: Decoder, method: Method) -> Method:
    """The method without its factor of cosines and sines, where an encoding adds these to embeddings."""
    if why_not(model, method) is not None and hasattr(method, "attention_factor"):
        return replace(method, attention_factor=1.0)  # pyright: ignore[reportCallIssue]
    return method


def _form(method: Method) -> str:
    """The name of a method with the settings that are words."""
    name, _, rest = spec_of(method, SHORT).partition("(")
    words = [part for part in rest.rstrip(")").split(", ") if "'" in part]
    return f"{name}({', '.join(words)})" if words else name


def _base(encoding: nn.Module) -> float | None:
    spectrum = getattr(encoding, "spectrum", None)
    return None if spectrum is None else float(spectrum.base)
