"""One experiment from settings to stored result."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import torch
from torch import nn

import lengthwise
from lengthwise.build import build
from lengthwise.errors import InvalidArgument, StorageError
from lengthwise.lab.evaluate import evaluate
from lengthwise.lab.experiment import Experiment, experiment_from_dict
from lengthwise.lab.result import Result
from lengthwise.lab.store import RunFolder, read_json, read_weights
from lengthwise.lab.train import Trainer, load_weights, weights
from lengthwise.models.decoder import Decoder
from lengthwise.tasks.task import Task, build_task, check_length


class Interrupted(Exception):
    """Training was asked to stop; a checkpoint is stored, and the same call goes on from it."""


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Args:
        phase: `"train"` or `"test"`.
        step: updates done.
        steps: updates in all.
        loss: of the last update, in nats a token.
    """

    phase: str
    step: int
    steps: int
    loss: float


def run(
    experiment: Experiment,
    *,
    runs: Path | str = "runs",
    device: str = "auto",
    on_progress: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    checkpoint_seconds: float = 10.0,
) -> Result:
    """Train and test one model, or return what an earlier run of the same experiment stored.

    Args:
        experiment: the settings.
        runs: folder of all runs.
        device: `"auto"` (a GPU where there is one), `"cpu"`, `"cuda"`, ...
        on_progress: called after every update, and before the tests.
        should_stop: asked before every update; true stores a checkpoint and raises `Interrupted`.
        checkpoint_seconds: time between checkpoints.

    Raises:
        InvalidArgument: settings that do not fit together.
        DataError: text that can't be read, or is too short.
        StorageError: the folder can't be written, or another process holds it.
        Interrupted: see `should_stop`.
    """
    where = pick_device(device)
    task = build_task(experiment.task)
    experiment = pinned(experiment, task)
    check(experiment, task)
    folder = RunFolder(Path(runs), experiment)
    stored = folder.result()
    if stored is not None:
        return stored
    with folder.locked(), torch.random.fork_rng(devices=[]):
        stored = folder.result()
        if stored is not None:  # by a process that held the folder until now
            return stored
        folder.write_experiment()
        model = make_model(experiment, task).to(where)
        trainer = Trainer(model, task, experiment, where)
        checkpoint = folder.checkpoint()
        if checkpoint is not None:
            _resume(trainer, checkpoint, folder)
        _train(trainer, folder, on_progress, should_stop or (lambda: False), checkpoint_seconds)
        if on_progress is not None:
            on_progress(Progress("test", trainer.step, experiment.training.steps, trainer.history.losses[-1]))
        result = _test(trainer)
        folder.finish(weights(model), result)
        return result


def pinned(experiment: Experiment, task: Task) -> Experiment:
    """The experiment with the version of its task and the fingerprint of its data.

    Raises:
        InvalidArgument: it names other ones than the task has now.
    """
    now = f"v{task.version}" + (f":{task.fingerprint[:16]}" if task.fingerprint else "")
    if experiment.data not in ("", now):
        raise InvalidArgument(
            f"the task or its data changed since this experiment was made ({experiment.data} then, {now} now): "
            "set data='' to make a new one"
        )
    return replace(experiment, data=now)


def check(experiment: Experiment, task: Task) -> None:
    """Raise an error where the experiment can't work, before any time is spent on it."""
    check_length(task, experiment.train_length)
    for length in experiment.test_lengths:
        check_length(task, length)
    if task.metric == "bits_per_byte":
        least = max(experiment.train_length, experiment.test_lengths[-1])
        for part in (task, task.held_out()):
            part.sample(torch.Generator().manual_seed(0), 1, least)
        if experiment.test_lengths[0] < 2 or experiment.train_length < 2:
            raise InvalidArgument("text needs lengths of at least 2 bytes: the first one is never predicted")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        model = make_model(experiment, task).eval()
        generator = torch.Generator().manual_seed(0)
        shortest = task.sample(generator, 1, experiment.test_lengths[0]).tokens
        model(shortest[:, : max(1, min(_table_rows(model) or 64, 64))])  # heads and widths that do not fit show here
        rows = _table_rows(model)
    needed = rows_needed(experiment, task)
    if rows is not None and rows < needed:
        raise InvalidArgument(
            f"{experiment.encoding!r} holds {rows} positions and the longest example needs {needed}: leave its length "
            "to the experiment, or test shorter lengths"
        )


def make_model(experiment: Experiment, task: Task) -> Decoder:
    """The model before training. Two encodings with the same seed begin with the same weights elsewhere.

    An encoding that says `shared = False` gets one instance a layer.
    """
    config = experiment.model.for_vocabulary(len(task.vocabulary))
    if config.vocabulary < len(task.vocabulary):
        raise InvalidArgument(
            f"the task has {len(task.vocabulary)} tokens and the model's vocabulary {config.vocabulary}: "
            "leave ModelConfig.vocabulary at 0"
        )
    trained = max(1, task.tokens_at(experiment.train_length) - 1)
    dims = config.dims(rows_needed(experiment, task), trained)
    torch.manual_seed(experiment.seed + 1)
    encoding: nn.Module | list[nn.Module] = build(experiment.encoding, dims)
    if not getattr(encoding, "shared", True):
        encoding = [encoding, *(build(experiment.encoding, dims) for _ in range(config.layers - 1))]
    torch.manual_seed(experiment.seed)
    return Decoder(config, encoding)


def rows_needed(experiment: Experiment, task: Task) -> int:
    """Positions that the longest example needs; the model does not read its last token."""
    longest = max(experiment.train_length, experiment.test_lengths[-1])
    given = getattr(task, "largest_position", None)
    return max(1, task.tokens_at(longest) - 1) if given is None else given + 1


def pick_device(name: str) -> torch.device:
    """The device of a name, `"auto"` meaning a GPU where there is one.

    Raises:
        InvalidArgument: no such device here.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device).tolist()  # the meta device has nothing to read
    except (RuntimeError, AssertionError, ImportError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidArgument(f"device {name!r} can't be used here ({reason}); 'auto' and 'cpu' always work") from None
    return device


def load_model(folder: Path | str) -> tuple[Decoder, Experiment]:
    """The trained model of a run folder, in evaluation mode, with its experiment.

    Raises:
        StorageError: the folder holds no trained model.
    """
    path = Path(folder)
    experiment = experiment_from_dict(read_json(path / "experiment.json"))
    with torch.random.fork_rng(devices=[]):
        model = make_model(experiment, build_task(experiment.task))
    load_weights(model, read_weights(path))
    return model.eval(), experiment


def _resume(trainer: Trainer, checkpoint: dict[str, torch.Tensor], folder: RunFolder) -> None:
    try:
        trainer.load(checkpoint)
    except StorageError as error:
        raise StorageError(f"{folder.path / 'checkpoint.safetensors'} can't be gone on from: {error}") from error


def _train(
    trainer: Trainer,
    folder: RunFolder,
    on_progress: Callable[[Progress], None] | None,
    should_stop: Callable[[], bool],
    checkpoint_seconds: float,
) -> None:
    saved = time.monotonic()

    def on_step(step: int, loss: float) -> None:
        nonlocal saved
        if on_progress is not None:
            on_progress(Progress("train", step, trainer.training.steps, loss))
        if time.monotonic() - saved > checkpoint_seconds:
            folder.write_checkpoint(trainer.state())
            saved = time.monotonic()

    if not trainer.run(should_stop=should_stop, on_step=on_step):
        folder.write_checkpoint(trainer.state())
        raise Interrupted(folder.path.name)


def _test(trainer: Trainer) -> Result:
    experiment, task, history = trainer.experiment, trainer.task, trainer.history
    started = time.perf_counter()
    with trainer.autocast:
        scores, place = evaluate(trainer.model, task, experiment, trainer.device)
    rows = _table_rows(trainer.model)
    given = getattr(task, "largest_position", None)
    trained = task.tokens_at(experiment.train_length) - 1 if given is None else given + 1
    return Result(
        experiment=experiment,
        metric=task.metric,
        scores=scores,
        length_counts=task.length_counts,
        by_position=place,
        table_rows=rows,
        trained_rows=None if rows is None else min(rows, trained),
        steps=tuple(history.steps),
        losses=tuple(history.losses),
        parameters=sum(parameter.numel() for parameter in trainer.model.parameters()),
        train_seconds=history.seconds,
        test_seconds=time.perf_counter() - started,
        tokens_per_second=history.tokens / history.seconds,
        stopped_early=history.stopped_early,
        environment={
            "lengthwise": lengthwise.__version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "device": torch.cuda.get_device_name() if trainer.device.type == "cuda" else str(trainer.device),
            "threads": str(torch.get_num_threads()),
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        },
    )


def _table_rows(model: nn.Module) -> int | None:
    limits = [getattr(module, "max_position", None) for module in model.modules()]
    return min((limit for limit in limits if limit is not None), default=None)
