"""Scores from one teacher-forced pass, against greedy decoding and against plain loops."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.lab.evaluate import by_position, evaluate, scored_bytes
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.run import make_model
from lengthwise.lab.train import Trainer
from lengthwise.models.decoder import Decoder
from lengthwise.tasks import Examples, Task, build_task

CPU = torch.device("cpu")
Tiny = Callable[..., Experiment]
SPECS = {name: f"{name}(symbols=3)" for name in ("copy", "reverse", "sort", "repeat")}


def trained(experiment: Experiment, task: Task) -> Decoder:
    trainer = Trainer(make_model(experiment, task), task, experiment, CPU)
    trainer.run(should_stop=lambda: False, on_step=lambda *_: None)
    return trainer.model


class Recorder(nn.Module):
    """Passes on what a model gives and keeps what it reads."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self.read: list[Tensor] = []

    def forward(self, tokens: Tensor) -> Tensor:
        self.read.append(tokens.clone())
        return self.inner(tokens)


class Bigrams(nn.Module):
    """Predicts from the last token alone."""

    def __init__(self, vocabulary: int, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = nn.Parameter(torch.randn(vocabulary, vocabulary, generator=generator))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table[tokens]


class Spied:
    """A task that keeps the examples it gave."""

    def __init__(self, task: Task, given: list[Examples] | None = None) -> None:
        self.task = task
        self.given: list[Examples] = [] if given is None else given

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)

    def sample(self, generator: torch.Generator, batch: int, length: int) -> Examples:
        self.given.append(self.task.sample(generator, batch, length))
        return self.given[-1]

    def held_out(self) -> Spied:
        return Spied(self.task.held_out(), self.given)


@pytest.fixture(scope="module")
def text(book: Path) -> Task:
    return build_task(f"text(paths=[{str(book)!r}])")


# --- tasks of symbols ------------------------------------------------------------


def possible(task: Task, length: int) -> bool:
    try:
        task.tokens_at(length)
    except InvalidArgument:
        return False
    return True


# Of each form: as many tokens in every example of a length, prompts or answers that differ, answers of one token.
@pytest.mark.parametrize(
    "name",
    ["copy", "reverse", "sort", "repeat", "addition", "parity", "scan", "uneven_addition", "lego", "dyck", "mode"],
)
def test_exact_match_from_one_pass_is_greedy_decoding_token_by_token(tiny: Tiny, name: str) -> None:
    task = Spied(build_task(SPECS.get(name, name)))
    lengths = [length for length in range(1, 30) if possible(task.task, length)][:4]
    settings = {"steps": 60, "batch": 32, "learning_rate": 0.01, "train_length": lengths[2], "test_lengths": lengths}
    experiment = tiny(task=SPECS.get(name, name), test_examples=40, **settings)
    model = trained(experiment, task.task).eval()
    scores, place = evaluate(model, cast("Task", task), experiment, CPU)
    assert place is None
    shares: list[float] = []
    for examples in task.given:
        rows: dict[tuple[int, int], list[int]] = {}  # that begin and end alike go side by side
        for row, answer in enumerate(examples.answer):
            rows.setdefault((int(answer.nonzero()[0]), int(answer.nonzero()[-1]) + 1), []).append(row)
        right = 0
        for (start, end), alike in rows.items():
            tokens = examples.tokens[alike]
            written = model.generate(tokens[:, :start], new=end - start)
            right += int((written[:, start:] == tokens[:, start:end]).all(dim=1).sum())
        shares.append(right / 40)
    assert scores["exact_match"] == tuple(shares)
    # Right and wrong answers were seen, so that the claim says something.
    assert max(shares) > 0
    assert min(shares) < 1


class Oracle(nn.Module):
    """Knows every next token of a task's last examples, and errs at places counted from the end."""

    def __init__(self, task: Spied, *errs_at: int) -> None:
        super().__init__()
        self.task, self.errs_at = task, errs_at

    def forward(self, tokens: Tensor) -> Tensor:
        following = self.task.given[-1].tokens[:, 1:].clone()
        for place in self.errs_at:
            following[:, -place] = (following[:, -place] + 1) % len(self.task.vocabulary)
        return nn.functional.one_hot(following, len(self.task.vocabulary)).float()


@pytest.mark.parametrize(
    ("errs_at", "exact", "told", "symbols"),
    [
        ((), 1.0, 1.0, (1.0, 1.0)),
        ((1,), 0.0, 1.0, (3 / 4, 7 / 8)),  # the answers are of 3 + 1 and 7 + 1 tokens, <eos> among them
        ((2, 3), 0.0, 0.0, (2 / 4, 6 / 8)),
        ((9,), 1.0, 1.0, (1.0, 1.0)),  # <sep> stands there in the longer examples, and only answers are scored
    ],
)
def test_one_wrong_token_of_an_answer_loses_the_example_and_none_of_the_prompt_does(
    tiny: Tiny, errs_at: tuple[int, ...], exact: float, told: float, symbols: tuple[float, ...]
) -> None:
    task = Spied(build_task("reverse(symbols=4)"))
    lengths = (7,) if 9 in errs_at else (3, 7)
    scores, _ = evaluate(Oracle(task, *errs_at), cast("Task", task), tiny(test_lengths=lengths), CPU)
    assert scores == {
        "exact_match": (exact,) * len(lengths),
        "symbol_accuracy": symbols[: len(lengths)],
        "exact_match_told_end": (told,) * len(lengths),
    }


def test_symbol_accuracy_is_counted_over_all_tokens_of_all_answers(tiny: Tiny) -> None:
    task = Spied(build_task("sort(symbols=4)"))
    experiment = tiny(test_lengths=(2, 5), test_examples=9)
    model = Bigrams(len(task.vocabulary))
    scores, _ = evaluate(model, cast("Task", task), experiment, CPU)
    for score, length, examples in zip(scores["symbol_accuracy"], (2, 5), task.given, strict=True):
        hits = [
            int(model.table[row[place - 1]].argmax()) == int(row[place])
            for row, wanted in zip(examples.tokens, examples.answer, strict=True)
            for place in range(1, len(row))
            if wanted[place]
        ]
        assert len(hits) == 9 * (length + 1)
        assert score == sum(hits) / len(hits)


# --- text ------------------------------------------------------------


def test_bits_per_byte_are_those_of_a_plain_loop_over_windows_and_positions(tiny: Tiny, text: Task) -> None:
    experiment = tiny(encoding="alibi", task="text", train_length=16, test_lengths=(16, 24, 40), test_examples=3)
    model = make_model(experiment, text).eval()
    task = Spied(text)
    scores, place = evaluate(model, cast("Task", task), experiment, CPU)
    (windows,) = (examples.tokens for examples in task.given)

    @torch.no_grad()
    def bits(window: Tensor, at: int) -> float:
        """Of one byte, read alone after those before it."""
        logits = model(window[None, :at])[0, -1].double()
        return float(logits.exp().sum().log() - logits[window[at]]) / math.log(2)

    for index, length in enumerate(experiment.test_lengths):
        taken = [bits(window[-length:], at) for window in windows for at in range(length - 4, length)]
        assert scores["bits_per_byte"][index] == pytest.approx(sum(taken) / len(taken), rel=1e-5)
    assert place is not None
    assert place.edges == tuple(range(0, 41, 4))
    for (low, high), mean in zip(pairwise(place.edges), place.bits_per_byte, strict=True):
        taken = [bits(window, at) for window in windows for at in range(max(low, 1), high)]
        assert mean == pytest.approx(sum(taken) / len(taken), rel=1e-5)


def test_the_same_bytes_are_scored_at_every_length(tiny: Tiny, text: Task) -> None:
    # A model of the last byte alone can't tell one length from another.
    experiment = tiny(task="text", train_length=16, test_lengths=(5, 16, 32, 300), test_examples=7)
    scores, _ = evaluate(Bigrams(256), text, experiment, CPU)
    assert scores["bits_per_byte"] == pytest.approx([scores["bits_per_byte"][0]] * 4, rel=1e-9)


def test_tests_on_text_read_what_training_never_sees(tiny: Tiny, text: Task) -> None:
    experiment = tiny(task="text", train_length=16, test_lengths=(16, 64), test_examples=20)
    recorder = Recorder(Bigrams(256))
    evaluate(recorder, text, experiment, CPU)
    train, held = (bytes(part.data.tolist()) for part in (text, text.held_out()))
    for row in torch.cat([read for read in recorder.read if read.shape[1] == 63]):
        assert bytes(row.tolist()) in held
        assert bytes(row.tolist()) not in train


@pytest.mark.parametrize(
    ("train_length", "tests", "scored"),
    [(128, (128, 256), 32), (16, (16,), 4), (16, (3, 16), 2), (16, (2,), 1), (3, (3,), 1), (2, (2, 9), 1)],
)
def test_a_quarter_of_the_trained_length_is_scored_where_the_shortest_test_has_so_many_bytes(
    tiny: Tiny, train_length: int, tests: tuple[int, ...], scored: int
) -> None:
    assert scored_bytes(tiny(train_length=train_length, test_lengths=tests)) == scored


@pytest.mark.parametrize("length", [2, 3, 7, 8, 9, 10])
@pytest.mark.parametrize("width", [1, 2, 3, 8, 20])
def test_bins_of_positions_hold_every_predicted_byte_once(length: int, width: int) -> None:
    # The byte at position p has p bits, in one window, and 3 p in another.
    bits = torch.arange(1, length).double() * torch.tensor([[1.0], [3.0]])
    place = by_position(bits, width)
    assert place.edges[-1] == length
    assert len(place.bits_per_byte) == len(place.edges) - 1
    seen: list[int] = []
    for (low, high), mean in zip(pairwise(place.edges), place.bits_per_byte, strict=True):
        inside = [p for p in range(1, length) if low <= p < high]
        assert mean == pytest.approx(2 * sum(inside) / len(inside))
        assert high - low <= width
        seen += inside
    assert seen == list(range(1, length))


def test_means_by_position_are_those_done_by_hand() -> None:
    bits = torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3.0, 2.0, 1.0, 0.0, 1.0, 2.0]])
    place = by_position(bits, 3)
    assert place.edges == (0, 3, 6, 7)
    assert place.bits_per_byte == pytest.approx((2.0, (3 + 4 + 5 + 1 + 0 + 1) / 6, 4.0))


# --- all ------------------------------------------------------------


@pytest.mark.parametrize("name", ["sort(symbols=4)", "text"])
def test_the_examples_depend_on_seed_and_length_and_not_on_the_model(tiny: Tiny, text: Task, name: str) -> None:
    task = text if name == "text" else build_task(name)

    def read(**changes: object) -> list[Tensor]:
        recorder = Recorder(Bigrams(len(task.vocabulary)))
        settings = {"task": name, "train_length": 8, "test_lengths": (8, 12)}
        evaluate(recorder, task, tiny(**{**settings, **changes}), CPU)
        return recorder.read

    base = read()
    for same in ({"encoding": "t5"}, {"dim": 64}, {"steps": 99}, {"train_length": 9}):
        torch.manual_seed(len(same))
        assert all(torch.equal(a, b) for a, b in zip(base, read(**same), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(base, read(seed=1), strict=True))
    if name != "text":  # a length's examples do not depend on which others are tested
        assert torch.equal(read(test_lengths=(12,))[0], base[1])


@pytest.mark.parametrize("tokens", [1, 40, 10**9])
@pytest.mark.parametrize("name", ["sort(symbols=4)", "text"])
def test_how_many_examples_go_through_at_once_changes_nothing(
    tiny: Tiny, text: Task, name: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = text if name == "text" else build_task(name)
    experiment = tiny(task=name, train_length=8, test_lengths=(8, 12), encoding="t5")
    model = Recorder(make_model(experiment, task))
    expected, place = evaluate(model, task, experiment, CPU)
    model.read.clear()
    monkeypatch.setattr(sys.modules[evaluate.__module__], "TOKENS_AT_ONCE", tokens)
    scores, other_place = evaluate(model, task, experiment, CPU)
    for metric, values in expected.items():
        assert scores[metric] == pytest.approx(values, rel=1e-6)
    if place is not None:
        assert other_place is not None
        assert other_place.bits_per_byte == pytest.approx(place.bits_per_byte, rel=1e-5)
    assert len(model.read) == {1: 16, 10**9: 2}.get(tokens, len(model.read))
    assert max(read.numel() for read in model.read) <= max(tokens, 30)


@pytest.mark.parametrize("training", [True, False])
def test_a_model_is_tested_in_evaluation_mode_and_left_in_the_mode_it_was_in(tiny: Tiny, training: bool) -> None:
    experiment = tiny(dropout=0.5)
    task = build_task(experiment.task)
    model = make_model(experiment, task).train(training)
    modes: set[bool] = set()
    model.register_forward_pre_hook(lambda module, _: modes.add(module.training))
    first, second = (evaluate(model, task, experiment, CPU) for _ in range(2))
    assert first == second
    assert modes == {False}
    assert model.training is training
    assert not any(parameter.grad is not None for parameter in model.parameters())


def test_the_mode_is_restored_after_an_error(tiny: Tiny) -> None:
    class Breaks(nn.Module):
        def forward(self, tokens: Tensor) -> Tensor:
            raise RuntimeError("out of memory")

    model = Breaks()
    with pytest.raises(RuntimeError, match="out of memory"):
        evaluate(model, build_task("sort(symbols=4)"), tiny(), CPU)
    assert model.training


def test_a_model_that_diverged_has_no_score_rather_than_a_score_of_zero(tiny: Tiny) -> None:
    experiment = tiny(task="copy")
    task = build_task("copy")
    model = make_model(experiment, task)
    with torch.no_grad():
        model.head.weight.fill_(float("nan"))
    scores, _ = evaluate(model, task, experiment, torch.device("cpu"))
    assert all(math.isnan(score) for values in scores.values() for score in values)
