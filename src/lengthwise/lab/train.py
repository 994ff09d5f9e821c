"""The training loop: AdamW, linear warm-up and decay, clipped gradients, the loss on the answer only.

Every update draws one length for its batch. All randomness comes from two seeded states, that of the data's generator
and PyTorch's own (dropout), which a checkpoint holds too: a run that was broken off goes on to the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lengthwise.errors import StorageError
from lengthwise.lab.experiment import Experiment, Training
from lengthwise.models.decoder import Decoder
from lengthwise.tasks.task import Examples, Task

LOG_POINTS = 100
"""About so many values of the loss are kept."""


@dataclass
class History:
    """The loss while training: at each of `steps`, the mean since the one before, in nats a token."""

    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    tokens: int = 0
    stopped_early: bool = False


class Trainer:
    """Trains a model on a task, step by step, and can be saved and loaded between any two steps.

    Args:
        model: predicts the next token, on `device`.
        task: gives the examples.
        experiment: the settings.
        device: where to compute.
    """

    def __init__(self, model: Decoder, task: Task, experiment: Experiment, device: torch.device) -> None:
        self.model, self.task, self.experiment, self.device = model, task, experiment, device
        self.training = experiment.training
        self.generator = torch.Generator().manual_seed(experiment.seed)
        self.parameters = list(model.parameters())
        self.optimizer = make_optimizer(model, self.training)
        self.autocast = autocast(self.training, device)
        self.step = 0
        self.history = History()
        self._sum, self._count = 0.0, 0
        self._smooth, self._best, self._best_step = float("nan"), float("inf"), 0

    def run(self, *, should_stop: Callable[[], bool], on_step: Callable[[int, float], None]) -> bool:
        """Train until the last step, early stopping, or `should_stop()`; true where training is complete."""
        self.model.train()
        while self.step < self.training.steps and not self.history.stopped_early:
            if should_stop():
                return False
            started = time.perf_counter()
            loss = self._update()
            self.step += 1
            self._record(loss)
            self.history.seconds += time.perf_counter() - started
            on_step(self.step, loss)
        return True

    def state(self) -> dict[str, Tensor]:
        """All that decides the rest of the run, as named tensors."""
        tensors = {f"model.{name}": value for name, value in weights(self.model).items()}
        for index, values in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{index}.{name}": value for name, value in values.items()}
        tensors["generator"] = self.generator.get_state()
        tensors["random"] = torch.get_rng_state()
        numbers = [self.step, self.history.seconds, self.history.tokens, float(self.history.stopped_early)]
        numbers += [self._sum, self._count, self._smooth, self._best, self._best_step]
        tensors["numbers"] = torch.tensor(numbers, dtype=torch.float64)
        tensors["history"] = torch.tensor([self.history.steps, self.history.losses], dtype=torch.float64)
        return {name: value.detach().cpu().contiguous() for name, value in tensors.items()}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a state.

        Raises:
            StorageError: it is that of another model, or no state at all.
        """
        try:
            self._load(tensors)
        except (StorageError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            raise StorageError(f"the checkpoint does not fit the model ({reason}): delete it to train anew") from error

    def _load(self, tensors: dict[str, Tensor]) -> None:
        stored = {name.removeprefix("model."): value for name, value in tensors.items() if name.startswith("model.")}
        load_weights(self.model, stored)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith("optimizer."):
                _, index, key = name.split(".")
                moments.setdefault(int(index), {})[key] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.generator.set_state(tensors["generator"])
        torch.set_rng_state(tensors["random"])
        step, seconds, count, stopped, total, taken, smooth, best, best_step = tensors["numbers"].tolist()
        steps, losses = tensors["history"].tolist()
        self.step = int(step)
        self.history = History([int(value) for value in steps], losses, seconds, int(count), bool(stopped))
        self._sum, self._count = total, int(taken)
        self._smooth, self._best, self._best_step = smooth, best, int(best_step)

    def _update(self) -> float:
        examples = draw(self.task, self.experiment, self.generator)
        rate = self.training.learning_rate * schedule(self.step, self.training)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with self.autocast:
            loss = answer_loss(self.model, examples, self.device)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, self.training.clip)
        self.optimizer.step()
        self.history.tokens += examples.tokens.numel()
        return loss.item()

    def _record(self, loss: float) -> None:
        self._sum, self._count = self._sum + loss, self._count + 1
        if self.training.patience:
            self._smooth = loss if self._smooth != self._smooth else 0.98 * self._smooth + 0.02 * loss
            if self._smooth < self._best:
                self._best, self._best_step = self._smooth, self.step
            self.history.stopped_early = self.step - self._best_step >= self.training.patience
        every = max(1, self.training.steps // LOG_POINTS)
        if self.step % every == 0 or self.step == self.training.steps or self.history.stopped_early:
            self.history.steps.append(self.step)
            self.history.losses.append(self._sum / self._count)
            self._sum, self._count = 0.0, 0


def weights(model: Decoder) -> dict[str, Tensor]:
    """The weights as they are stored: a head tied to the embedding is the same tensor and left out."""
    left_out = {"head.weight"} if model.config.tied else set[str]()
    return {
        name: value.detach().cpu().contiguous() for name, value in model.state_dict().items() if name not in left_out
    }


def load_weights(model: Decoder, stored: dict[str, Tensor]) -> None:
    """Load what `weights` gave.

    Raises:
        StorageError: they are those of another model.
    """
    try:
        missing, unexpected = model.load_state_dict(stored, strict=False)
    except RuntimeError as error:  # tensors of other shapes, a line each
        reason = " ".join(str(error).splitlines()[1:2]).strip()
        raise StorageError(f"stored weights do not fit the model: {reason}") from error
    missing = [name for name in missing if not (model.config.tied and name == "head.weight")]
    for names, fault in ((missing, "missing"), (unexpected, "unexpected")):
        if names:
            raise StorageError(f"stored weights do not fit the model: {len(names)} {fault}, the first is {names[0]!r}")


def draw(task: Task, experiment: Experiment, generator: torch.Generator) -> Examples:
    """One batch: of the trained length for running text, else of a random length up to it.

    Lengths are as likely as the task says (`share`), where it says so.
    """
    length = experiment.train_length
    if task.metric == "exact_match":
        share = getattr(task, "share", None)
        shortest = max(task.min_length, experiment.train_from)
        shares = [1.0 if share is None else share(one) for one in range(shortest, length + 1)]
        if all(one == 1.0 for one in shares):
            length = int(torch.randint(shortest, length + 1, (), generator=generator))
        else:
            length = shortest + int(torch.multinomial(torch.tensor(shares), 1, generator=generator))
    return task.sample(generator, experiment.training.batch, length)


def predict(model: nn.Module, examples: Examples, device: torch.device) -> Tensor:
    """Logits `[batch, total - 1, vocabulary]` of a model that reads all tokens but the last.

    Positions go to the model only where the task gives some: a model that reads nothing but tokens will do elsewhere.
    """
    tokens, places = examples.tokens[:, :-1].to(device), examples.read_at(device)
    return model(tokens) if places is None else model(tokens, places)


def answer_loss(model: nn.Module, examples: Examples, device: torch.device) -> Tensor:
    """Mean cross-entropy over the tokens of the answers, in nats."""
    tokens, answer = examples.tokens.to(device), examples.answer.to(device)
    logits = predict(model, examples, device)
    wanted = tokens[:, 1:].masked_fill(~answer[:, 1:], -100)
    return cross_entropy(logits.flatten(0, 1).float(), wanted.flatten(), ignore_index=-100)


def make_optimizer(model: nn.Module, training: Training) -> torch.optim.AdamW:
    """AdamW; matrices of the blocks and embeddings decay, vectors and the parameters of encodings do not."""
    decayed: list[nn.Parameter] = []
    kept: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        decays = parameter.dim() >= 2 and ".encodings." not in f".{name}"
        (decayed if decays else kept).append(parameter)
    groups = [{"params": decayed, "weight_decay": training.weight_decay}, {"params": kept, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=training.learning_rate, fused=True)


def schedule(step: int, training: Training) -> float:
    """Part of the learning rate at an update, counted from 0: up to 1 over the warm-up, then down to 0 at the end."""
    rising = max(1, round(training.warmup * training.steps))
    if step < rising:
        return (step + 1) / rising
    return (training.steps - step) / max(1, training.steps - rising)


def autocast(training: Training, device: torch.device) -> AbstractContextManager[object]:
    """bfloat16 where it is asked for, or where `"auto"` finds a GPU that has it."""
    fast = device.type == "cuda" and torch.cuda.is_bf16_supported()
    if training.precision == "bfloat16" or (training.precision == "auto" and fast):
        return torch.autocast(device.type, dtype=torch.bfloat16)
    return nullcontext()
