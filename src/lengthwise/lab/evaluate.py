"""Scores by length from one teacher-forced pass.

For a symbol task an example is right if every token of its answer is the most likely one, given the right tokens before
it; that is so if and only if greedy decoding writes the whole answer. Told where to stop, a model can't write the end
mark inside of an answer, and need not write it at its end: what is left is whether it knows the symbols.

For text the same bytes are read at the end of longer and longer windows, so that between two lengths only the context
differs.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import ByPosition
from lengthwise.lab.train import predict
from lengthwise.tasks.task import Task

TOKENS_AT_ONCE = 16384
"""Tokens in one forward, about, so that long tests fit in memory."""

Scores = dict[str, tuple[float, ...]]


def evaluate(
    model: nn.Module, task: Task, experiment: Experiment, device: torch.device
) -> tuple[Scores, ByPosition | None]:
    """Test a model at every test length; the examples depend on the experiment's seed and lengths only.

    Returns:
        For each metric one score a test length, and for text the bits per byte by position at the longest.
    """
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            held_out = task.held_out()
            if task.metric == "bits_per_byte":
                return _text(model, held_out, experiment, device)
            rows = [_symbols(model, held_out, length, experiment, device) for length in experiment.test_lengths]
    finally:
        model.train(was_training)
    return {name: tuple(row[name] for row in rows) for name in rows[0]}, None


def _symbols(
    model: nn.Module, task: Task, length: int, experiment: Experiment, device: torch.device
) -> dict[str, float]:
    examples = task.sample(_generator(experiment, length), experiment.test_examples, length)
    names = list(task.vocabulary)
    end = names.index("<eos>") if "<eos>" in names else None
    exact, told, right, scored = 0, 0, 0, 0
    batch = max(1, TOKENS_AT_ONCE // examples.tokens.shape[1])
    for some in examples.split(batch):
        tokens, wanted = some.tokens.to(device), some.answer[:, 1:].to(device)
        logits = predict(model, some, device)
        if not bool(logits.isfinite().all()):  # training diverged: that is no wrong answer, it is none
            exact = told = right = float("nan")
            break
        correct = logits.argmax(-1) == tokens[:, 1:]  # [batch, total - 1]
        exact += int((correct | ~wanted).all(dim=1).sum())
        right += int((correct & wanted).sum())
        scored += int(wanted.sum())
        if end is not None:
            logits[..., end] = float("-inf")
            symbol = wanted & (tokens[:, 1:] != end)
            told += int(((logits.argmax(-1) == tokens[:, 1:]) | ~symbol).all(dim=1).sum())
    scores = {"exact_match": exact / experiment.test_examples, "symbol_accuracy": right / max(1, scored)}
    return scores if end is None else scores | {"exact_match_told_end": told / experiment.test_examples}


def _text(model: nn.Module, task: Task, experiment: Experiment, device: torch.device) -> tuple[Scores, ByPosition]:
    longest = experiment.test_lengths[-1]
    tokens = task.sample(_generator(experiment, 0), experiment.test_examples, longest).tokens
    last = scored_bytes(experiment)
    bits = {length: _bits(model, tokens[:, -length:], device) for length in experiment.test_lengths}
    scores = tuple(bits[length][:, -last:].mean().item() for length in experiment.test_lengths)
    return {"bits_per_byte": scores}, by_position(bits[longest], last)


def scored_bytes(experiment: Experiment) -> int:
    """How many bytes at the end of each window of text are scored: a quarter of the trained length."""
    return max(1, min(experiment.train_length // 4, experiment.test_lengths[0] - 1))


def by_position(bits: Tensor, width: int) -> ByPosition:
    """Mean over windows of `bits [windows, length - 1]` in bins of `width` positions.

    Position 0 is never predicted: the first bin holds one byte less, and is left out where it would hold none.
    """
    length = bits.shape[1] + 1
    edges = [*range(0 if width > 1 else 1, length, width), length]
    means = [bits[:, max(low - 1, 0) : high - 1].mean().item() for low, high in pairwise(edges)]
    return ByPosition(tuple(edges), tuple(means))


def _bits(model: nn.Module, tokens: Tensor, device: torch.device) -> Tensor:
    """Bits of each byte after the first, `[windows, length - 1]`."""
    rows: list[Tensor] = []
    for part in tokens.split(max(1, TOKENS_AT_ONCE // tokens.shape[1])):
        part = part.to(device)
        logits = model(part[:, :-1])  # [windows, length - 1, vocabulary]
        nats = cross_entropy(logits.transpose(1, 2).float(), part[:, 1:], reduction="none")
        rows.append(nats.double().cpu() / math.log(2))
    return torch.cat(rows)


def _generator(experiment: Experiment, length: int) -> torch.Generator:
    # Far from the seeds of training, which are small numbers, and the same for every encoding.
    return torch.Generator().manual_seed(2**40 + experiment.seed * 2**20 + length)
