"""One training run with its tests, written down whole: the same experiment gives the same numbers."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from typing import Literal

from lengthwise.errors import InvalidArgument
from lengthwise.models.config import ModelConfig


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
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    patience: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} must be at least 1, not {getattr(self, name)}")
        if not self.learning_rate > 0:
            raise InvalidArgument(f"learning_rate must be above 0, not {self.learning_rate}")
        if not 0 <= self.warmup <= 1:
            raise InvalidArgument(f"warmup is a part of the steps, from 0 to 1, not {self.warmup}")
        if not self.clip > 0:
            raise InvalidArgument(f"clip must be above 0, not {self.clip}")
        if self.patience < 0:
            raise InvalidArgument(f"patience must not be negative, and is {self.patience}")


@dataclass(frozen=True)
class Experiment:
    """Model, encoding, task, lengths, training and seed.

    Args:
        encoding: spec string of the encoding, for example `"rotary(base=500000)"`.
        task: spec string of the task, for example `"sort"`.
        train_length: longest length in training, in what the task counts (symbols, digits, bytes).
        test_lengths: lengths of the tests, rising.
        seed: decides the first weights, the training data and the tests' examples.
        model: sizes of the model.
        training: how it is trained.
        test_examples: examples for each test length.
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

    def __post_init__(self) -> None:
        if self.train_length < 1:
            raise InvalidArgument(f"train_length must be at least 1, not {self.train_length}")
        if not self.test_lengths or any(length < 1 for length in self.test_lengths):
            raise InvalidArgument(f"test_lengths must be positive whole numbers, at least one; not {self.test_lengths}")
        if list(self.test_lengths) != sorted(set(self.test_lengths)):
            raise InvalidArgument(f"test_lengths must rise without repeats, not {self.test_lengths}")
        if self.test_examples < 1:
            raise InvalidArgument(f"test_examples must be at least 1, not {self.test_examples}")

    def as_dict(self) -> dict[str, object]:
        """As plain JSON data; `experiment_from_dict` gives the experiment back."""
        return json.loads(json.dumps(asdict(self)))

    @property
    def address(self) -> str:
        """Folder name `<task>-<encoding>-s<seed>-<hash>`, the same for the same experiment everywhere."""
        digest = hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()[:10]
        words = [re.sub(r"[^A-Za-z0-9.]+", "_", text).strip("_")[:40] for text in (self.task, self.encoding)]
        return f"{words[0]}-{words[1]}-s{self.seed}-{digest}"


def experiment_from_dict(data: dict[str, object]) -> Experiment:
    """The inverse of `Experiment.as_dict`; unknown or missing keys raise `InvalidArgument`."""
    try:
        values = dict(data)
        model = ModelConfig(**values.pop("model"))  # type: ignore[arg-type]
        training = Training(**values.pop("training"))  # type: ignore[arg-type]
        lengths = tuple(values.pop("test_lengths"))  # type: ignore[arg-type]
        return Experiment(**values, test_lengths=lengths, model=model, training=training)  # type: ignore[arg-type]
    except (KeyError, TypeError) as error:
        raise InvalidArgument(f"not the settings of an experiment: {error}") from None
