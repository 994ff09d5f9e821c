"""One training run with its tests, written down whole: the same experiment gives the same numbers."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast, get_args

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.models.config import ModelConfig

Precision = Literal["auto", "float32", "bfloat16"]


@dataclass(frozen=True)
class Training:
    """How a model is trained: AdamW, linear warm-up, linear decay to zero, clipped gradients.

    Args:
        steps: number of updates.
        batch: sequences in an update.
        learning_rate: at the end of the warm-up.
        warmup: part of the steps over which the rate rises from zero.
        weight_decay: of matrices; vectors and tables of positions are not decayed.
        clip: largest norm of the whole gradient.
        precision: `"float32"`, `"bfloat16"` (autocast), or `"auto"`: bfloat16 on a GPU that has it, else float32.
        patience: stop once the smoothed loss has not improved for so many steps; 0 never stops early.
    """

    steps: int = 1000
    batch: int = 32
    learning_rate: float = 2e-3
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip: float = 1.0
    precision: Precision = "auto"
    patience: int = 0

    def __post_init__(self) -> None:
        for name, least in (("steps", 1), ("batch", 1), ("patience", 0)):
            _check_count(name, getattr(self, name), least)
        for name in ("learning_rate", "warmup", "weight_decay", "clip"):
            # One number has one address, whether it was written 1 or 1.0.
            object.__setattr__(self, name, _as_float(name, getattr(self, name)))
        if not 0 < self.learning_rate < math.inf:
            raise InvalidArgument(f"learning_rate must be above 0 and finite, not {self.learning_rate}")
        if not 0 <= self.warmup <= 1:
            raise InvalidArgument(f"warmup is a part of the steps, from 0 to 1, not {self.warmup}")
        if not 0 <= self.weight_decay < math.inf:
            raise InvalidArgument(f"weight_decay must be at least 0 and finite, not {self.weight_decay}")
        if not self.clip > 0:
            raise InvalidArgument(f"clip must be above 0, not {self.clip}; inf never clips")
        if self.precision not in get_args(Precision):
            raise InvalidArgument(
                f"unknown precision {self.precision!r}: {nearest(self.precision, get_args(Precision))}"
            )


@dataclass(frozen=True)
class Experiment:
    """Model, encoding, task, lengths, training and seed.

    Args:
        encoding: spec string of the encoding, for example `"rotary(base=500000)"`.
        task: spec string of the task, for example `"sort"`.
        train_length: longest length in training, in what the task counts (symbols, digits, bytes).
        test_lengths: lengths of the tests, rising.
        seed: decides the first weights, the training data and the tests' examples; from 0 to 2**32 - 1.
        model: sizes of the model.
        training: how it is trained.
        test_examples: examples for each test length.
        train_from: shortest length in training; 0 for the task's own.
        data: version of the task and fingerprint of its data, since they decide the numbers too; filled in by `lab.run`
            where it is empty.
    """

    encoding: str
    task: str
    train_length: int
    test_lengths: tuple[int, ...]
    seed: int = 0
    model: ModelConfig = field(default_factory=ModelConfig)
    training: Training = field(default_factory=Training)
    test_examples: int = 256
    data: str = ""
    train_from: int = 0

    def __post_init__(self) -> None:
        for name, least in (("train_length", 1), ("test_examples", 1), ("seed", 0), ("train_from", 0)):
            _check_count(name, getattr(self, name), least)
        if self.train_from > self.train_length:
            raise InvalidArgument(
                f"train_from {self.train_from} is past train_length {self.train_length}: no length is left to train on"
            )
        if self.seed >= 2**32:
            raise InvalidArgument(f"seed must be below 2**32, not {self.seed}")
        object.__setattr__(self, "test_lengths", _as_lengths(self.test_lengths))
        if list(self.test_lengths) != sorted(set(self.test_lengths)):
            raise InvalidArgument(f"test_lengths must rise without repeats, not {self.test_lengths}")

    def as_dict(self) -> dict[str, object]:
        """As plain JSON data; `experiment_from_dict` gives the experiment back."""
        data = asdict(self)
        if not self.train_from:  # experiments from before there was this choice keep their addresses
            del data["train_from"]
        return json.loads(json.dumps(data))

    @property
    def address(self) -> str:
        """Folder name `<task>-<encoding>-s<seed>-<hash>`, the same for the same experiment everywhere."""
        digest = hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()[:10]
        words = [re.sub(r"[^A-Za-z0-9.]+", "_", text).strip("_")[:40] for text in (self.task, self.encoding)]
        return f"{words[0]}-{words[1]}-s{self.seed}-{digest}"


def experiment_from_dict(data: dict[str, object]) -> Experiment:
    """The inverse of `Experiment.as_dict`; unknown or missing keys raise `InvalidArgument`."""
    try:
        values: dict[str, Any] = dict(data)
        model = ModelConfig(**values.pop("model"))
        training = Training(**values.pop("training"))
        lengths = tuple(values.pop("test_lengths"))
        return Experiment(**values, test_lengths=lengths, model=model, training=training)
    except InvalidArgument:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgument(f"not the settings of an experiment: {error}") from None


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check_count(name: str, value: object, least: int) -> None:
    if not _is_count(value, least):
        raise InvalidArgument(f"{name} must be a whole number of at least {least}, not {value!r}")


def _as_float(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(f"{name} must be a number, not {value!r}")
    return float(value)


def _as_lengths(value: object) -> tuple[int, ...]:
    lengths = tuple(cast("Sequence[int]", value)) if isinstance(value, tuple | list) else ()
    if not lengths or not all(_is_count(length, 1) for length in lengths):
        raise InvalidArgument(f"test_lengths must be positive whole numbers, at least one; not {value!r}")
    return lengths
