"""Synthetic results: the means are those of the trial tables in the design, with made-up noise for seeds."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from lengthwise.lab.experiment import Experiment, Training
from lengthwise.lab.result import ByPosition, Result

SORT = {
    "none": (1, 0.999, 0.82, 0.60, 0.05),
    "t5": (1, 1, 0.96, 0.90, 0.47),
    "alibi": (1, 1, 1, 1, 0.89),
    "rotary": (0.93, 0.73, 0.07, 0.004, 0),
    "sinusoidal": (0.86, 0.02, 0, 0, 0),
    "learned": (0.9, 0.01, 0, 0, 0),
}
TEXT = {
    "none": (3.50, 3.42, 3.26, 3.48, 3.56),
    "learned": (3.34, 4.37, 4.19, 4.35, 4.22),
    "sinusoidal": (2.96, 4.87, 4.83, 4.97, 5.16),
    "rotary": (2.50, 2.72, 3.64, 4.27, 4.80),
    "t5": (3.05, 3.10, 3.01, 3.49, 3.63),
    "alibi": (2.67, 2.58, 2.38, 2.58, 2.53),
}
EDGES = (64, 128, 192, 256, 512, 1024)


def synthetic_sort(
    encodings: Sequence[str] = tuple(SORT),
    seeds: int = 2,
    lengths: Sequence[int] = (10, 11, 13, 15, 20),
    noise: float = 0.03,
    **changes: object,
) -> list[Result]:
    return [_sort(name, seed, tuple(lengths), noise, changes) for name in encodings for seed in range(seeds)]


def synthetic_text(encodings: Sequence[str] = tuple(TEXT), seeds: int = 2, **changes: object) -> list[Result]:
    return [_text(name, seed, changes) for name in encodings for seed in range(seeds)]


def _sort(encoding: str, seed: int, lengths: tuple[int, ...], noise: float, changes: dict[str, object]) -> Result:
    draw = _draw(encoding, seed)
    name = encoding.split("(")[0]
    means = np.interp(lengths, (10, 11, 13, 15, 20), SORT.get(name, SORT["none"]))
    scores = np.clip(means + noise * draw.normal(size=len(lengths)) * (means > 0) * (means < 1), 0, 1)
    symbols = 1 - (1 - scores) * 0.45
    experiment = Experiment(encoding, "sort", 10, lengths, seed, training=Training(steps=2000))
    found = {"exact_match": tuple(map(float, scores)), "symbol_accuracy": tuple(map(float, symbols))}
    rows = (40, 20) if name == "learned" else (None, None)
    result = _result(experiment, "exact_match", found, "symbols to sort", None, rows, floor=0.002, draw=draw)
    return replace(result, **changes)


def _text(encoding: str, seed: int, changes: dict[str, object]) -> Result:
    draw = _draw(encoding, seed)
    lengths = (128, 256, 512, 1024)
    bins = np.array(TEXT[encoding]) + 0.04 * draw.normal(size=5)
    scores = [bins[0], bins[1:3].mean(), bins[3], bins[4]]
    training = Training(steps=800, batch=16, learning_rate=3e-3)
    experiment = Experiment(encoding, "text", 128, lengths, seed, training=training)
    rows = (1024, 128) if encoding == "learned" else (None, None)
    place = ByPosition(EDGES, tuple(map(float, bins)))
    found = {"bits_per_byte": tuple(map(float, scores))}
    result = _result(experiment, "bits_per_byte", found, "bytes of context", place, rows, floor=1.6, draw=draw)
    return replace(result, **changes)


def _result(
    experiment: Experiment,
    metric: str,
    scores: dict[str, tuple[float, ...]],
    counts: str,
    place: ByPosition | None,
    rows: tuple[int | None, int | None],
    *,
    floor: float,
    draw: np.random.Generator,
) -> Result:
    steps = np.linspace(0, experiment.training.steps, 41, dtype=int)[1:]
    losses = floor + 2.8 * np.exp(-steps / experiment.training.steps * 7) * np.exp(0.12 * draw.normal(size=len(steps)))
    environment = {
        "finished": f"2025-03-01T10:{experiment.seed:02d}:00+00:00",
        "python": "3.11.2",
        "torch": "2.13.0",
        "lengthwise": "0.1.0",
        "device": "cpu",
        "threads": "1",
    }
    return Result(
        experiment=experiment,
        metric=metric,
        scores=scores,
        length_counts=counts,
        by_position=place,
        table_rows=rows[0],
        trained_rows=rows[1],
        steps=tuple(map(int, steps)),
        losses=tuple(map(float, losses)),
        parameters=103_424,
        train_seconds=15.2,
        test_seconds=1.4,
        tokens_per_second=91_000.0,
        stopped_early=False,
        environment=environment,
    )


def _draw(encoding: str, seed: int) -> np.random.Generator:
    return np.random.default_rng([zlib.crc32(encoding.encode()), seed])


@pytest.fixture(scope="session")
def sort_results() -> Callable[..., list[Result]]:
    return synthetic_sort


@pytest.fixture(scope="session")
def text_results() -> Callable[..., list[Result]]:
    return synthetic_text
