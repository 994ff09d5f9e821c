"""What one run found, as plain data: written by `lab.run`, read by the report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from lengthwise.errors import InvalidArgument
from lengthwise.lab.experiment import Experiment, experiment_from_dict

FORMAT = 1


@dataclass(frozen=True)
class ByPosition:
    """Bits per byte by place in the sequence, from the longest test.

    Args:
        edges: rising positions; bin `i` holds positions `edges[i] <= p < edges[i + 1]`.
        bits_per_byte: mean of each bin, one fewer than edges.
    """

    edges: tuple[int, ...]
    bits_per_byte: tuple[float, ...]


@dataclass(frozen=True)
class Result:
    """Scores of one trained model by test length, and how it was trained.

    Args:
        experiment: the settings.
        metric: the score reported first: `"exact_match"` (0 to 1, more is better) or `"bits_per_byte"`
            (0 and up, less is better).
        scores: for each metric one value a test length, in the order of `experiment.test_lengths`. Symbol tasks have
            `"exact_match"`, `"symbol_accuracy"` (teacher-forced: right tokens before each scored one) and, where
            answers end in a mark, `"exact_match_told_end"` (the mark is neither asked for nor allowed before); text has
            `"bits_per_byte"` of the same bytes, read after more and more context.
        length_counts: what a length counts, for an axis: `"symbols to sort"`.
        by_position: bits per byte by position in the longest test; only for text.
        table_rows: rows of a learned table of positions, none where the encoding has none.
        trained_rows: how many of these were trained; the others hold their first random values.
        steps: step numbers at which `losses` were taken.
        losses: training loss in nats a token, the mean since the entry before.
        parameters: number of trained parameters.
        train_seconds: time of training.
        test_seconds: time of the tests.
        tokens_per_second: in training.
        stopped_early: whether `patience` ended training.
        environment: versions, device, threads, and when the run ended (UTC, ISO 8601, key `"finished"`).
    """

    experiment: Experiment
    metric: str
    scores: dict[str, tuple[float, ...]]
    length_counts: str
    by_position: ByPosition | None
    table_rows: int | None
    trained_rows: int | None
    steps: tuple[int, ...]
    losses: tuple[float, ...]
    parameters: int
    train_seconds: float
    test_seconds: float
    tokens_per_second: float
    stopped_early: bool
    environment: dict[str, str]

    def to_json(self) -> str:
        """As JSON text, with the format's number."""
        data = {**asdict(self), "experiment": self.experiment.as_dict(), "format": FORMAT}
        return json.dumps(data, indent=1)


def result_from_json(text: str) -> Result:
    """The inverse of `Result.to_json`.

    Raises:
        InvalidArgument: not JSON, another format, or keys missing; says which.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        if data.pop("format") != FORMAT:
            raise InvalidArgument(f"a result of another format than {FORMAT}: run the experiment again")
        experiment = experiment_from_dict(data.pop("experiment"))
        place = data.pop("by_position")
        steps, losses = tuple(map(int, data.pop("steps"))), tuple(map(float, data.pop("losses")))
        if len(steps) != len(losses):
            raise InvalidArgument(f"not a stored result: {len(steps)} steps with {len(losses)} losses")
        return Result(
            experiment=experiment,
            scores={name: tuple(map(float, values)) for name, values in data.pop("scores").items()},
            by_position=ByPosition(tuple(place["edges"]), tuple(place["bits_per_byte"])) if place else None,
            steps=steps,
            losses=losses,
            environment=dict(data.pop("environment")),
            **data,
        )
    except InvalidArgument:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidArgument(f"not a stored result: {type(error).__name__}: {error}") from None
