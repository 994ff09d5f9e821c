"""The training loop: what it does in each update, and that it can be broken off anywhere."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings, example
from lengthwise.errors import StorageError
from lengthwise.lab.experiment import Experiment, Training
from lengthwise.lab.run import make_model
from lengthwise.lab.train import Trainer, answer_loss, draw, load_weights, make_optimizer, schedule, weights
from lengthwise.models.decoder import Decoder
from lengthwise.tasks import Examples, build_task, tasks

CPU = torch.device("cpu")
Tiny = Callable[..., Experiment]


def trainer_of(experiment: Experiment) -> Trainer:
    task = build_task(experiment.task)
    return Trainer(make_model(experiment, task), task, experiment, CPU)


def train(trainer: Trainer, updates: int = 10**9) -> list[float]:
    """Train for so many updates, or to the end; the loss of each."""
    losses: list[float] = []
    trainer.run(should_stop=lambda: len(losses) >= updates, on_step=lambda _, loss: losses.append(loss))
    return losses


def same_tensors(a: dict[str, Tensor], b: dict[str, Tensor], but: set[str] = frozenset()) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a if name not in but)


# --- the same numbers ------------------------------------------------------------


@pytest.mark.parametrize("changes", [{}, {"dropout": 0.2}, {"tied": True, "encoding": "t5"}, {"precision": "bfloat16"}])
@pytest.mark.parametrize("stop", [0, 5, 12])
def test_training_broken_off_and_resumed_is_training_uninterrupted_bit_for_bit(
    tiny: Tiny, changes: dict[str, Any], stop: int
) -> None:
    experiment = tiny(**changes)
    whole = trainer_of(experiment)
    losses = train(whole)
    first = trainer_of(experiment)
    before = train(first, stop)
    state = {name: value.clone() for name, value in first.state().items()}
    torch.manual_seed(999)  # another process has another random state
    second = trainer_of(experiment)
    second.load(state)
    assert before + train(second) == losses
    assert same_tensors(weights(whole.model), weights(second.model))
    assert (second.history.steps, second.history.losses) == (whole.history.steps, whole.history.losses)
    assert second.history.tokens == whole.history.tokens
    # Seconds are the only part of a state that may differ.
    numbers = whole.state()["numbers"], second.state()["numbers"]
    assert torch.equal(numbers[0][[0, 2, 3, 4, 5, 7, 8]], numbers[1][[0, 2, 3, 4, 5, 7, 8]])
    assert same_tensors(whole.state(), second.state(), but={"numbers"})


def test_a_state_is_not_changed_by_training_on(tiny: Tiny) -> None:
    trainer = trainer_of(tiny(dropout=0.1))
    train(trainer, 4)
    state = trainer.state()
    copy = {name: value.clone() for name, value in state.items()}
    # What is stored is written at once, so only the random states have to be copies.
    train(trainer, 2)
    assert torch.equal(state["generator"], copy["generator"])
    assert torch.equal(state["random"], copy["random"])


def test_another_seed_gives_other_weights_and_other_examples(tiny: Tiny) -> None:
    one, other = trainer_of(tiny()), trainer_of(tiny(seed=1))
    assert not torch.equal(one.model.embedding.weight, other.model.embedding.weight)
    assert train(one) != train(other)


@pytest.mark.parametrize("name", sorted(encodings))
@pytest.mark.parametrize("layers", [1, 3])
def test_two_encodings_with_the_same_seed_begin_with_the_same_weights_elsewhere(
    tiny: Tiny, name: str, layers: int
) -> None:
    def elsewhere(encoding: str) -> dict[str, Tensor]:
        experiment = tiny(encoding=encoding, layers=layers)
        state = make_model(experiment, build_task(experiment.task)).state_dict()
        return {name: value for name, value in state.items() if ".encodings." not in name}

    assert same_tensors(elsewhere(example(name)), elsewhere("none"))


def test_two_encodings_with_the_same_seed_are_trained_on_the_same_examples(tiny: Tiny) -> None:
    def seen(encoding: str) -> list[Tensor]:
        trainer = trainer_of(tiny(encoding=encoding))
        read: list[Tensor] = []
        trainer.model.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].clone()))
        train(trainer)
        return read

    one, other = seen("t5"), seen("sinusoidal")
    assert len(one) == 12
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# --- one update ------------------------------------------------------------


def test_the_rate_rises_over_the_warm_up_and_falls_to_zero_in_equal_steps() -> None:
    shape = [schedule(step, Training(steps=10, warmup=0.2)) for step in range(11)]
    assert shape == pytest.approx([1 / 2, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8, 0])


@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.5, 1.0])
@pytest.mark.parametrize("steps", [1, 2, 7, 100])
def test_every_schedule_stays_above_zero_reaches_one_and_has_no_jump(steps: int, warmup: float) -> None:
    shape = [schedule(step, Training(steps=steps, warmup=warmup)) for step in range(steps)]
    assert max(shape) == 1
    assert min(shape) > 0
    peak = shape.index(1)
    assert shape[: peak + 1] == sorted(shape[: peak + 1])
    assert shape[peak:] == sorted(shape[peak:], reverse=True)


def test_every_update_is_made_at_the_rate_of_the_schedule(tiny: Tiny) -> None:
    trainer = trainer_of(tiny(steps=5, warmup=0.4, learning_rate=0.01))
    rates: list[list[float]] = []
    trainer.optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append([group["lr"] for group in optimizer.param_groups])
    )
    train(trainer)
    expected = [0.005, 0.01, 0.01, 0.01 * 2 / 3, 0.01 / 3]
    assert rates == [pytest.approx([rate, rate]) for rate in expected]


def test_the_whole_gradient_is_clipped_to_the_norm_that_is_asked_for(tiny: Tiny) -> None:
    def norms(clip: float) -> list[float]:
        trainer = trainer_of(tiny(clip=clip))
        seen: list[float] = []

        def look(*_: object) -> None:
            seen.append(math.sqrt(sum(float(p.grad.square().sum()) for p in trainer.parameters if p.grad is not None)))

        trainer.optimizer.register_step_pre_hook(look)
        train(trainer)
        return seen

    assert min(norms(math.inf)) > 0.1
    assert norms(0.01) == pytest.approx([0.01] * 12, rel=1e-3)


@pytest.mark.parametrize("name", sorted(encodings))
def test_matrices_decay_but_vectors_and_the_parameters_of_encodings_do_not(tiny: Tiny, name: str) -> None:
    experiment = tiny(encoding=example(name), layers=2, norm="layer")
    model = make_model(experiment, build_task(experiment.task))
    groups = make_optimizer(model, Training(weight_decay=0.3)).param_groups
    decay = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    named = dict(model.named_parameters())
    assert len(decay) == len(named)  # each in one group
    own = {id(parameter) for encoding in model.stack.encodings for parameter in encoding.parameters()}
    for parameter in named.values():
        expected = 0.0 if parameter.dim() < 2 or id(parameter) in own else 0.3
        assert decay[id(parameter)] == expected


class Fixed(nn.Module):
    """Gives the logits that it was made with, whatever it reads."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.logits[:, : tokens.shape[1]]


@pytest.mark.parametrize("name", sorted(tasks))
def test_the_loss_is_the_mean_over_the_tokens_of_the_answers_and_no_others(name: str) -> None:
    task = build_task(name)
    examples = task.sample(torch.Generator().manual_seed(0), 3, 5)
    total = examples.tokens.shape[1]
    generator = torch.Generator().manual_seed(1)
    model = Fixed(torch.randn(3, total - 1, len(task.vocabulary), generator=generator))
    loss = answer_loss(model, examples, CPU)
    nats: list[float] = []
    for row in range(3):
        for place in range(1, total):
            if examples.answer[row, place]:
                logits = model.logits.detach()[row, place - 1].double()
                nats.append(float(logits.exp().sum().log() - logits[examples.tokens[row, place]]))
    assert loss.item() == pytest.approx(sum(nats) / len(nats), rel=1e-5)
    loss.backward()
    assert model.logits.grad is not None
    touched = model.logits.grad.abs().sum(-1) > 0
    assert torch.equal(touched, examples.answer[:, 1:])


def test_lengths_in_training_are_all_from_the_shortest_to_the_longest(tiny: Tiny) -> None:
    generator = torch.Generator().manual_seed(0)
    task = build_task("sort(symbols=4)")
    totals = {draw(task, tiny(), generator).tokens.shape[1] for _ in range(100)}
    assert totals == {task.tokens_at(length) for length in (1, 2, 3, 4)}


def test_running_text_is_always_of_the_trained_length(tiny: Tiny, book: Path) -> None:
    task = build_task(f"text(paths=[{str(book)!r}])")
    experiment = tiny(train_length=24, batch=3)
    shapes = {draw(task, experiment, torch.Generator().manual_seed(seed)).tokens.shape for seed in range(9)}
    assert shapes == {(3, 24)}


# --- a whole training ------------------------------------------------------------


def test_training_learns(tiny: Tiny) -> None:
    losses = train(trainer_of(tiny(task="repeat(symbols=2)", steps=80, batch=16, learning_rate=0.01)))
    assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


def test_the_history_holds_the_mean_loss_since_the_entry_before(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lengthwise.lab.train.LOG_POINTS", 4)
    trainer = trainer_of(tiny(steps=14))
    losses = train(trainer)
    assert trainer.history.steps == [3, 6, 9, 12, 14]
    means = [sum(losses[low:high]) / (high - low) for low, high in ((0, 3), (3, 6), (6, 9), (9, 12), (12, 14))]
    assert trainer.history.losses == pytest.approx(means)


class Scripted(Trainer):
    """Updates nothing; its losses are given."""

    script: list[float]

    def _update(self) -> float:
        return self.script[self.step]


def scripted(experiment: Experiment, losses: list[float]) -> Scripted:
    task = build_task(experiment.task)
    trainer = Scripted(make_model(experiment, task), task, experiment, CPU)
    trainer.script = losses
    return trainer


def test_training_stops_early_once_the_loss_has_not_improved_for_so_many_steps(tiny: Tiny) -> None:
    trainer = scripted(tiny(steps=500, patience=7), [3.0, 2.0, 1.0] + [5.0] * 500)
    assert trainer.run(should_stop=lambda: False, on_step=lambda *_: None)
    assert trainer.step == 3 + 7
    assert trainer.history.stopped_early
    # Entries are made every 5 steps here, and at the end.
    assert trainer.history.steps == [5, 10]


def test_the_history_reaches_to_an_early_stop_between_two_entries(tiny: Tiny) -> None:
    trainer = scripted(tiny(steps=1000, patience=2), [1.0] + [5.0] * 999)
    trainer.run(should_stop=lambda: False, on_step=lambda *_: None)
    assert trainer.history.steps == [3]
    assert trainer.history.losses == pytest.approx([11 / 3])


def test_training_that_goes_on_improving_and_training_without_patience_do_not_stop_early(tiny: Tiny) -> None:
    improving = scripted(tiny(steps=40, patience=2), [10.0 / (step + 1) for step in range(40)])
    patient = scripted(tiny(steps=40, patience=0), [1.0 + step for step in range(40)])
    for trainer in (improving, patient):
        trainer.run(should_stop=lambda: False, on_step=lambda *_: None)
        assert trainer.step == 40
        assert not trainer.history.stopped_early


def test_early_stopping_comes_at_the_same_step_when_training_was_broken_off(tiny: Tiny) -> None:
    losses = [3.0, 2.0, 1.0] + [5.0] * 497
    for stop in (1, 3, 6):
        first = scripted(tiny(steps=500, patience=7), losses)
        train(first, stop)
        second = scripted(tiny(steps=500, patience=7), losses)
        second.load(first.state())
        train(second)
        assert second.step == 10


def test_bfloat16_computes_in_bfloat16_close_to_float32_and_keeps_float32_weights(tiny: Tiny) -> None:
    exact, rough = trainer_of(tiny(precision="float32")), trainer_of(tiny(precision="bfloat16"))
    dtypes: set[torch.dtype] = set()
    rough.model.head.register_forward_hook(lambda _, __, output: dtypes.add(output.dtype))
    wanted, losses = train(exact), train(rough)
    assert dtypes == {torch.bfloat16}
    assert losses != wanted
    assert losses == pytest.approx(wanted, rel=0.03)
    assert {parameter.dtype for parameter in rough.model.parameters()} == {torch.float32}


def test_auto_precision_is_float32_on_a_cpu(tiny: Tiny) -> None:
    assert train(trainer_of(tiny(precision="auto"))) == train(trainer_of(tiny(precision="float32")))


def test_weights_of_another_model_are_told(tiny: Tiny) -> None:
    model = trainer_of(tiny()).model
    for other in (tiny(layers=2), tiny(encoding="t5"), tiny(norm="none"), tiny(dim=32), tiny(activation="swiglu")):
        with pytest.raises(StorageError, match="do not fit the model"):
            load_weights(model, weights(trainer_of(other).model))


def test_a_tied_head_is_stored_once_and_comes_back_tied(tiny: Tiny) -> None:
    trainer = trainer_of(tiny(tied=True))
    train(trainer)
    stored = weights(trainer.model)
    assert "head.weight" not in stored
    fresh = trainer_of(tiny(tied=True, seed=3)).model
    load_weights(fresh, stored)
    assert fresh.head.weight is fresh.embedding.weight
    assert torch.equal(fresh.head.weight, trainer.model.embedding.weight)


def test_a_state_that_does_not_fit_is_told(tiny: Tiny) -> None:
    state = trainer_of(tiny()).state()
    trainer = trainer_of(tiny())
    for name in ("generator", "random", "numbers", "history"):
        with pytest.raises(StorageError, match="checkpoint does not fit"):
            trainer.load({key: value for key, value in state.items() if key != name})
        with pytest.raises(StorageError, match="checkpoint does not fit"):
            trainer.load({**state, name: torch.zeros(2)})


def test_a_model_is_trained_in_training_mode(tiny: Tiny) -> None:
    trainer = trainer_of(tiny())
    trainer.model.eval()
    modes: set[bool] = set()
    trainer.model.register_forward_pre_hook(lambda model, _: modes.add(model.training))
    train(trainer)
    assert modes == {True}


def test_a_model_of_one_layer_and_one_step_is_trained(tiny: Tiny) -> None:
    trainer = trainer_of(replace(tiny(steps=1, batch=1), train_length=1))
    before = weights(trainer.model)["embedding.weight"].clone()
    (loss,) = train(trainer)
    assert trainer.history.losses == [loss]
    assert isinstance(trainer.model, Decoder)
    assert not torch.equal(before, trainer.model.embedding.weight)


def test_examples_without_an_answer_are_not_among_the_batches_of_any_task(tiny: Tiny) -> None:
    for name in tasks:
        task = build_task(name)
        length = max(4, task.min_length)
        examples: Examples = draw(task, replace(tiny(), train_length=length), torch.Generator().manual_seed(0))
        assert examples.answer.any(dim=1).all()
        assert not examples.answer[:, 0].any()


def test_training_draws_lengths_from_the_shortest_asked_for_and_as_often_as_the_task_says() -> None:
    generator = torch.Generator().manual_seed(0)
    parity = build_task("parity")
    experiment = Experiment("none", "parity", 8, (8,), train_from=4)
    widths = {draw(parity, experiment, generator).tokens.shape[1] for _ in range(100)}
    assert widths == {parity.tokens_at(length) for length in range(4, 9)}
    scan = build_task("scan")
    experiment = Experiment("none", "scan", 24, (24,), train_from=22)  # no command has 23 actions
    for _ in range(20):
        draw(scan, experiment, generator)
