"""One experiment from settings to a stored result: a pure function, whatever breaks on the way."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

from lengthwise.errors import DataError, InvalidArgument, LengthwiseError, StorageError
from lengthwise.lab import Experiment, Interrupted, Progress, Result, load_model, run
from lengthwise.lab.evaluate import evaluate
from lengthwise.lab.run import check, pick_device, pinned
from lengthwise.lab.store import RunFolder
from lengthwise.tasks import build_task

SOURCE = Path(__file__).parents[2] / "src"
Tiny = Callable[..., Experiment]


def found(result: Result) -> dict[str, Any]:
    """All of a result but what depends on the clock."""
    data = vars(result).copy()
    for name in ("train_seconds", "test_seconds", "tokens_per_second", "environment"):
        data.pop(name)
    return data


def folder_of(runs: Path) -> Path:
    (folder,) = runs.iterdir()
    return folder


def weights_of(runs: Path) -> bytes:
    return (folder_of(runs) / "model.safetensors").read_bytes()


def names(runs: Path) -> set[str]:
    return set(os.listdir(folder_of(runs)))


def break_off(experiment: Experiment, runs: Path, after: int) -> None:
    """Stop a run after so many updates, as Ctrl-C does in a sweep."""
    steps: list[Progress] = []
    with pytest.raises(Interrupted):
        run(experiment, runs=runs, device="cpu", on_progress=steps.append, should_stop=lambda: len(steps) == after)


DONE = {"experiment.json", "model.safetensors", "result.json", "lock"}


@pytest.fixture
def text(book: Path) -> str:
    return f"text(paths=[{str(book)!r}])"


@pytest.mark.parametrize("changes", [{}, {"dropout": 0.3, "encoding": "t5"}])
def test_the_same_experiment_gives_the_same_numbers_and_weights_bit_for_bit(
    tmp_path: Path, tiny: Tiny, changes: dict[str, Any]
) -> None:
    torch.manual_seed(1)
    one = run(tiny(**changes), runs=tmp_path / "a", device="cpu")
    torch.manual_seed(2)
    other = run(tiny(**changes), runs=tmp_path / "b", device="cpu")
    assert found(one) == found(other)
    assert weights_of(tmp_path / "a") == weights_of(tmp_path / "b")
    assert names(tmp_path / "a") == DONE


def test_a_run_leaves_the_random_state_of_its_caller_alone(tmp_path: Path, tiny: Tiny) -> None:
    torch.manual_seed(12345)
    before = torch.get_rng_state()
    experiment = tiny(encoding="learned", dropout=0.1)
    run(experiment, runs=tmp_path, device="cpu")
    check(experiment, build_task(experiment.task))
    load_model(folder_of(tmp_path))
    assert torch.equal(torch.get_rng_state(), before)


def test_running_again_reads_what_is_stored_and_writes_nothing(tmp_path: Path, tiny: Tiny) -> None:
    first = run(tiny(), runs=tmp_path, device="cpu")
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.glob("**/*")}
    seen: list[Progress] = []
    assert run(tiny(), runs=tmp_path, device="cpu", on_progress=seen.append) == first
    assert not seen
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in tmp_path.glob("**/*")} == before


def test_progress_is_told_after_every_update_and_before_the_tests(tmp_path: Path, tiny: Tiny) -> None:
    seen: list[Progress] = []
    result = run(tiny(steps=5), runs=tmp_path, device="cpu", on_progress=seen.append)
    assert [(one.phase, one.step, one.steps) for one in seen] == [("train", n, 5) for n in range(1, 6)] + [
        ("test", 5, 5)
    ]
    assert [one.loss for one in seen[:5]] == list(result.losses)


@pytest.mark.parametrize("stop", [0, 3, 11])
@pytest.mark.parametrize("changes", [{}, {"dropout": 0.2, "encoding": "learned"}])
def test_a_run_that_is_stopped_goes_on_to_the_numbers_of_one_that_is_not(
    tmp_path: Path, tiny: Tiny, stop: int, changes: dict[str, Any]
) -> None:
    whole = run(tiny(**changes), runs=tmp_path / "whole", device="cpu")
    break_off(tiny(**changes), tmp_path / "b", after=stop)
    assert names(tmp_path / "b") == {"experiment.json", "checkpoint.safetensors", "lock"}
    again: list[Progress] = []
    result = run(tiny(**changes), runs=tmp_path / "b", device="cpu", on_progress=again.append)
    assert again[0].step == stop + 1
    assert found(result) == found(whole)
    assert weights_of(tmp_path / "b") == weights_of(tmp_path / "whole")
    assert names(tmp_path / "b") == DONE


def test_a_run_on_text_that_is_stopped_goes_on_to_the_same_numbers(tmp_path: Path, tiny: Tiny, text: str) -> None:
    experiment = tiny(task=text, train_length=16, test_lengths=(16, 40))
    whole = run(experiment, runs=tmp_path / "whole", device="cpu")
    break_off(experiment, tmp_path / "b", after=6)
    assert found(run(experiment, runs=tmp_path / "b", device="cpu")) == found(whole)


def test_a_run_that_dies_between_checkpoints_goes_on_from_the_last_one_to_the_same_numbers(
    tmp_path: Path, tiny: Tiny
) -> None:
    whole = run(tiny(dropout=0.2), runs=tmp_path / "whole", device="cpu")
    break_off(tiny(dropout=0.2), tmp_path / "b", after=4)

    def die(progress: Progress) -> None:
        if progress.step == 8:
            raise RuntimeError("power cut")

    for _ in range(2):
        with pytest.raises(RuntimeError, match="power cut"):
            run(tiny(dropout=0.2), runs=tmp_path / "b", device="cpu", on_progress=die)
    again: list[Progress] = []
    result = run(tiny(dropout=0.2), runs=tmp_path / "b", device="cpu", on_progress=again.append)
    assert again[0].step == 5
    assert found(result) == found(whole)


@pytest.mark.parametrize("call", [1, 3, 4, 5, 7])
def test_a_disk_that_fills_up_anywhere_in_a_run_is_told_and_the_run_goes_on_later(
    tmp_path: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    whole = run(tiny(), runs=tmp_path / "whole", device="cpu")
    sync, calls = os.fsync, 0

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left on device; free space"):
            run(tiny(), runs=tmp_path / "b", device="cpu", checkpoint_seconds=0.02)
    assert not [name for name in names(tmp_path / "b") if "partial" in name]
    assert found(run(tiny(), runs=tmp_path / "b", device="cpu")) == found(whole)
    assert names(tmp_path / "b") == DONE


KILLED = """
import sys
from lengthwise.lab import experiment, run
import json

def show(progress):
    print(progress.phase, progress.step, flush=True)

settings = experiment.experiment_from_dict(json.loads(sys.argv[1]))
run(settings, runs=sys.argv[2], device="cpu", on_progress=show, checkpoint_seconds=0)
"""


def test_a_run_that_is_killed_goes_on_to_the_numbers_of_one_that_is_not(tmp_path: Path, tiny: Tiny) -> None:
    experiment = tiny(steps=60, dropout=0.1)
    whole = run(experiment, runs=tmp_path / "whole", device="cpu")
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    arguments = [sys.executable, "-c", KILLED, json.dumps(experiment.as_dict()), str(tmp_path / "b")]
    child = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if line == "train 9\n":
            child.send_signal(signal.SIGKILL)
            break
    child.wait()
    child.stdout.close()
    left = names(tmp_path / "b")
    assert "checkpoint.safetensors" in left
    assert "result.json" not in left
    again: list[Progress] = []
    result = run(experiment, runs=tmp_path / "b", device="cpu", on_progress=again.append)
    assert again[0].step >= 9
    assert found(result) == found(whole)
    assert weights_of(tmp_path / "b") == weights_of(tmp_path / "whole")
    assert names(tmp_path / "b") == DONE  # what a killed process half wrote is gone too


def test_a_run_that_another_process_ended_while_this_one_waited_to_begin_is_read(
    tmp_path: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(tiny(), runs=tmp_path, device="cpu")
    look = RunFolder.result
    answers: list[Result | None] = [None]
    monkeypatch.setattr(RunFolder, "result", lambda self: answers.pop() if answers else look(self))
    seen: list[Progress] = []
    assert run(tiny(), runs=tmp_path, device="cpu", on_progress=seen.append) == first
    assert not seen


def test_the_result_of_a_learned_table_says_how_many_rows_were_trained(tmp_path: Path, tiny: Tiny) -> None:
    # <bos> prompt <sep> answer <eos>, of which the last is not read: 2 * length + 2 positions.
    learned = run(tiny(encoding="learned"), runs=tmp_path, device="cpu")
    assert (learned.table_rows, learned.trained_rows) == (14, 10)
    rotary = run(tiny(), runs=tmp_path, device="cpu")
    assert (rotary.table_rows, rotary.trained_rows) == (None, None)


def test_a_run_on_text_says_how_its_numbers_came_about(tmp_path: Path, tiny: Tiny, text: str) -> None:
    experiment = tiny(encoding="learned", task=text, train_length=16, test_lengths=(16, 40))
    result = run(experiment, runs=tmp_path, device="cpu")
    assert result.metric == "bits_per_byte"
    assert result.experiment.data.startswith("v1:")
    assert (result.table_rows, result.trained_rows) == (39, 15)
    assert result.by_position is not None
    assert result.by_position.edges == (0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40)
    # The last bin of the longest test holds the bytes that its score is the mean of.
    assert result.scores["bits_per_byte"][1] == pytest.approx(result.by_position.bits_per_byte[-1])
    assert result.environment["device"] == "cpu"
    assert result.environment["threads"] == "1"
    assert result.tokens_per_second * result.train_seconds == pytest.approx(12 * 4 * 16)


def test_a_stored_model_scores_what_its_result_says(tmp_path: Path, tiny: Tiny) -> None:
    result = run(tiny(encoding="t5", steps=30, tied=True), runs=tmp_path, device="cpu")
    model, experiment = load_model(folder_of(tmp_path))
    assert experiment == result.experiment
    assert not model.training
    scores, _ = evaluate(model, build_task(experiment.task), experiment, torch.device("cpu"))
    assert scores == result.scores


def test_a_run_that_is_not_done_has_no_model_to_load(tmp_path: Path, tiny: Tiny) -> None:
    break_off(tiny(), tmp_path, after=0)
    with pytest.raises(StorageError, match=r"no trained weights at .*run the experiment, or delete"):
        load_model(folder_of(tmp_path))
    with pytest.raises(StorageError, match=r"experiment.json can't be read"):
        load_model(tmp_path)


# --- half-written folders ------------------------------------------------------------------------------------------


def test_a_folder_with_nothing_but_its_settings_or_a_lock_is_run(tmp_path: Path, tiny: Tiny) -> None:
    whole = run(tiny(), runs=tmp_path / "whole", device="cpu")
    for left in (("experiment.json",), ("lock",), ()):
        runs = tmp_path / f"only-{len(left)}-{''.join(left)}"
        folder = runs / whole.experiment.address
        folder.mkdir(parents=True)
        for name in left:
            (folder / name).write_bytes((tmp_path / "whole" / whole.experiment.address / name).read_bytes())
        assert found(run(tiny(), runs=runs, device="cpu")) == found(whole)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "foreign"])
def test_a_damaged_checkpoint_is_told_and_left_for_the_user_to_delete(tmp_path: Path, tiny: Tiny, damage: str) -> None:
    break_off(tiny(), tmp_path, after=5)
    path = folder_of(tmp_path) / "checkpoint.safetensors"
    whole = path.read_bytes()
    bad = {"cut": whole[:-10], "empty": b"", "text": b"not a checkpoint at all", "foreign": save({"a": torch.ones(2)})}
    path.write_bytes(bad[damage])
    with pytest.raises(StorageError, match=r"checkpoint.*: delete it to train anew") as caught:
        run(tiny(), runs=tmp_path, device="cpu")
    assert "checkpoint.safetensors" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == bad[damage]
    path.unlink()
    assert run(tiny(), runs=tmp_path, device="cpu").steps[-1] == 12


def test_a_damaged_result_is_told_and_left_alone(tmp_path: Path, tiny: Tiny) -> None:
    run(tiny(), runs=tmp_path, device="cpu")
    path = folder_of(tmp_path) / "result.json"
    path.write_text(path.read_text()[:100])
    with pytest.raises(StorageError, match="delete its folder to run the experiment again"):
        run(tiny(), runs=tmp_path, device="cpu")
    assert len(path.read_text()) == 100


# --- settings that can't work, found before any work ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"encoding": "rotray"}, LengthwiseError, "unknown encoding 'rotray': did you mean 'rotary'?"),
        ({"task": "srot"}, LengthwiseError, "unknown task 'srot': did you mean 'sort'?"),
        ({"encoding": "rotary("}, LengthwiseError, "the spec does not parse here: rotary»("),
        ({"dim": 6, "heads": 2}, InvalidArgument, "even"),
        ({"vocabulary": 3}, InvalidArgument, "the task has 7 tokens and the model's vocabulary 3"),
        (
            {"encoding": "learned(max_length=13)"},
            InvalidArgument,
            "13 positions and the longest example needs 14",
        ),
        ({"task": "text(paths=['/nowhere'])"}, DataError, "there is no file or folder '/nowhere'"),
    ],
)
def test_an_experiment_that_cannot_work_is_told_before_anything_is_written(
    tmp_path: Path, tiny: Tiny, changes: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        run(tiny(**changes), runs=tmp_path / "runs", device="cpu")
    assert message in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_text_shorter_than_a_test_is_told_before_anything_is_written(tmp_path: Path, tiny: Tiny, text: str) -> None:
    for lengths in ((16, 100_000), (16, 1000)):  # longer than all of it; longer than the part that is held out
        with pytest.raises(DataError, match="give more text or choose a shorter length"):
            run(tiny(task=text, train_length=16, test_lengths=lengths), runs=tmp_path / "runs", device="cpu")
    with pytest.raises(InvalidArgument, match="at least 2"):
        run(tiny(task=text, train_length=16, test_lengths=(1, 20)), runs=tmp_path / "runs", device="cpu")
    assert not (tmp_path / "runs").exists()


def test_an_experiment_of_other_data_or_another_version_of_its_task_is_told(
    tmp_path: Path, tiny: Tiny, book: Path
) -> None:
    copy = tmp_path / "book.txt"
    copy.write_bytes(book.read_bytes())
    task = f"text(paths=[{str(copy)!r}])"
    experiment = tiny(task=task, train_length=16, test_lengths=(16,))
    with_data = pinned(experiment, build_task(task))
    assert pinned(with_data, build_task(task)) == with_data
    copy.write_bytes(book.read_bytes().replace(b"line 7", b"LINE 7"))
    with pytest.raises(InvalidArgument, match="the task or its data changed since this experiment was made"):
        run(with_data, runs=tmp_path / "runs", device="cpu")
    assert pinned(experiment, build_task(task)).address != with_data.address


@pytest.mark.parametrize("name", ["nonsense", "", "cpu:x", "meta", "cuda:99", "mps", "hpu", "xla", "privateuseone"])
def test_a_device_that_is_not_here_is_told_in_one_line(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"can't be used here .*'auto' and 'cpu' always work") as caught:
        pick_device(name)
    assert "\n" not in str(caught.value)


def test_the_devices_that_always_work_do() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_device("auto").type in ("cpu", "cuda")


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, tiny: Tiny) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(StorageError, match=r"can't write .*: Not a directory; choose another folder with --runs"):
        run(tiny(), runs=tmp_path / "file" / "runs", device="cpu")


def test_a_seed_changes_the_numbers(tmp_path: Path, tiny: Tiny) -> None:
    one, other = (run(replace(tiny(), seed=seed), runs=tmp_path, device="cpu") for seed in (0, 1))
    assert one.losses != other.losses


COUPLED = "addition(reverse=True, positions='coupled', max_position=12)"


def test_a_model_reads_the_positions_that_a_task_gives(tmp_path: Path, tiny: Tiny) -> None:
    experiment = tiny(encoding="learned", task=COUPLED, train_length=3, test_lengths=(3, 5))
    result = run(experiment, runs=tmp_path, device="cpu")
    assert (result.table_rows, result.trained_rows) == (13, 13), "all positions are drawn in training"
    model, _ = load_model(folder_of(tmp_path))
    drawn = build_task(COUPLED).held_out().sample(torch.Generator().manual_seed(0), 4, 5)
    positions = drawn.read_at(torch.device("cpu"))
    assert positions is not None
    read = drawn.tokens[:, :-1]
    with torch.no_grad():
        here = model(read, positions)
        moved = positions.replace(q=positions.q + 1, k=positions.k + 1)
        assert not torch.allclose(here, model(read, moved))


def test_tests_read_the_positions_that_a_task_gives(tiny: Tiny) -> None:
    class Reader(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[Any] = []

        def forward(self, tokens: torch.Tensor, positions: Any = None) -> torch.Tensor:
            self.seen.append(positions)
            return torch.zeros(*tokens.shape, 14)

    for spec, given in ((COUPLED, True), ("addition", False)):
        reader = Reader()
        evaluate(reader, build_task(spec), tiny(task=spec, train_length=3, test_lengths=(3, 5)), torch.device("cpu"))
        assert len(reader.seen) == 2
        assert all((one is not None) == given for one in reader.seen)
        if given:
            assert [int(one.q.max()) for one in reader.seen] == [5, 7], "from the first: none is drawn in tests"
