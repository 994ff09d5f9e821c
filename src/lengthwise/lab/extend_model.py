"""A trained model with its encoding extended, and its scores: nothing is trained, weights are shared and not copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.extension import Method, extend
from lengthwise.extension.extend import refusal
from lengthwise.lab.evaluate import evaluate
from lengthwise.lab.experiment import Experiment
from lengthwise.models.decoder import Decoder
from lengthwise.positions import Positions
from lengthwise.tasks.task import Task

Scores = dict[str, float]


def encodings_of(model: Decoder) -> list[nn.Module]:
    """The encodings of a model, one a layer; a shared one stands there several times."""
    distinct = list(model.stack.encodings)
    return [distinct[place] for place in model.stack.encoding_of_layer] if distinct else []


def why_not(model: Decoder, method: Method) -> str | None:
    """Why a method extends no encoding of a model, or None."""
    reasons = [refusal(one, type(method), method) for one in encodings_of(model)]
    return None if None in reasons else next((reason for reason in reasons if reason), "the model has no encoding")


def extended_model(model: Decoder, method: Method | None, trained_rows: int, rows: int) -> tuple[Decoder, bool]:
    """The model with the encoding of each layer extended by `method`, and whether it still reads untrained rows.

    The laboratory makes learned tables as long as the longest test, and training reaches their first rows only. A
    method that stretches a table is given these alone. One that does not, such as a temperature, is given all.

    Args:
        model: what was trained; left as it is, and shares its weights with the result.
        method: None for the model itself.
        trained_rows: positions met in training.
        rows: positions to come.

    Raises:
        InvalidArgument: no encoding of the model can take the method.
    """
    if method is None:
        return model, rows > trained_rows and any(_limit(one) is not None for one in encodings_of(model))
    reason = why_not(model, method)
    if reason is not None:
        raise InvalidArgument(f"{type(method).__name__} can't extend this model: {reason}")
    layers = encodings_of(model)
    cut = _extended(layers, method, trained_rows)
    if [_limit(one) for one in cut] != [_limit(_cut(one, trained_rows)) for one in layers] or not _short(cut, rows):
        return _with_encodings(model, cut), False
    return _with_encodings(model, _extended(layers, method, None)), True


def reaches(model: Decoder, rows: int) -> bool:
    """Whether no table of the model ends before so many positions."""
    return not _short(encodings_of(model), rows)


def measure(
    models: Mapping[int, Decoder], task: Task, experiment: Experiment, device: torch.device
) -> dict[int, Scores]:
    """Scores at some of the test lengths, by the examples of `lengthwise.lab.evaluate`.

    A method that follows the length is fixed to that of the whole example.

    Args:
        models: which model reads the examples of which length.
        task: of the experiment.
        experiment: all its test lengths decide the examples of text.
        device: where the models are.
    """
    size = len(task.vocabulary)
    if task.metric == "bits_per_byte":
        at_tokens = {task.tokens_at(length): model for length, model in models.items()}

        def by_tokens(tokens: int) -> tuple[Decoder, int] | None:
            return (at_tokens[tokens], tokens) if tokens in at_tokens else None

        scores, _ = evaluate(_AtLength(size, by_tokens), task, experiment, device)
        place = {length: number for number, length in enumerate(experiment.test_lengths)}
        return {length: {name: values[place[length]] for name, values in scores.items()} for length in models}
    found: dict[int, Scores] = {}
    for length, model in models.items():
        chosen = (model, task.tokens_at(length))
        reader = _AtLength(size, lambda _, chosen=chosen: chosen)
        scores, _ = evaluate(reader, task, replace(experiment, test_lengths=(length,)), device)
        found[length] = {name: values[0] for name, values in scores.items()}
    return found


class _AtLength(nn.Module):
    """The model for the length at hand, told that length; zeros where none is asked for."""

    def __init__(self, vocabulary: int, choose: Callable[[int], tuple[Decoder, int] | None]) -> None:
        super().__init__()
        self.vocabulary, self.choose = vocabulary, choose

    def forward(self, tokens: Tensor) -> Tensor:
        rows, read = tokens.shape
        chosen = self.choose(read + 1)
        if chosen is None:
            return torch.zeros(rows, read, 1, device=tokens.device).expand(-1, -1, self.vocabulary)
        model, target = chosen
        return model(tokens, Positions.sequence(read, device=tokens.device).with_target(target))


def _extended(layers: Sequence[nn.Module], method: Method, trained_rows: int | None) -> list[nn.Module]:
    made: dict[nn.Module, nn.Module] = {}
    for one in layers:
        if one not in made:
            able = refusal(one, type(method), method) is None
            made[one] = extend(_cut(one, trained_rows), method) if able else one
    return [made[one] for one in layers]


def _cut(encoding: nn.Module, rows: int | None) -> nn.Module:
    """An encoding with the first rows of its table, where it has one of a row a position."""
    table = cast("Tensor | None", getattr(encoding, "table", None))
    most = _limit(encoding)
    if rows is None or table is None or most is None or most != len(table) or rows >= most:
        return encoding
    if not hasattr(encoding, "with_table"):
        return encoding
    return cast("nn.Module", encoding.with_table(table.detach()[:rows]))  # pyright: ignore[reportCallIssue]


def _limit(encoding: nn.Module) -> int | None:
    return getattr(encoding, "max_position", None)


def _short(layers: Sequence[nn.Module], rows: int) -> bool:
    return any((limit := _limit(one)) is not None and limit < rows for one in layers)


def _with_encodings(model: Decoder, layers: Sequence[nn.Module]) -> Decoder:
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        made = Decoder(model.config, layers)
    made.embedding, made.head = model.embedding, model.head
    made.stack.blocks, made.stack.norm = model.stack.blocks, model.stack.norm
    return made.eval()
