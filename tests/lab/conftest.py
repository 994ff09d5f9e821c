"""Experiments that take a tenth of a second."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from lengthwise.lab.experiment import Experiment, Training
from lengthwise.models.config import ModelConfig

MODEL = ModelConfig(dim=16, layers=1, heads=2)
SORT = Experiment("rotary", "sort(symbols=4)", 4, (4, 6), model=MODEL, training=Training(12, 4), test_examples=8)


@pytest.fixture(autouse=True)
def _keep_the_random_state() -> Generator[None]:
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture(scope="session")
def tiny() -> Callable[..., Experiment]:
    """`tiny(**changes)`: a small experiment; a setting of the model or of the training can be changed by its name."""

    def make(**changes: Any) -> Experiment:
        model = {name: changes.pop(name) for name in list(changes) if hasattr(MODEL, name)}
        training = {name: changes.pop(name) for name in list(changes) if hasattr(SORT.training, name)}
        return replace(SORT, model=replace(MODEL, **model), training=replace(SORT.training, **training), **changes)

    return make


@pytest.fixture(scope="session")
def book(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text file of some 4,000 bytes with letters, digits and a few bytes past ASCII."""
    path = tmp_path_factory.mktemp("data") / "book.txt"
    path.write_text("".join(f"line {number}: {number * number} and naïve {number % 7}\n" for number in range(130)))
    return path
