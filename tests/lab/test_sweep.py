"""Many experiments over processes: in order, with their faults, and never left half way without a word."""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lengthwise.errors import InvalidArgument, LengthwiseError
from lengthwise.lab import Experiment, Failure, Progress, Result, Sweep, find_results, run, sweep
from lengthwise.lab.run import pinned
from lengthwise.lab.sweep import default_jobs
from lengthwise.tasks import build_task

SOURCE = Path(__file__).parents[2] / "src"
Tiny = Callable[..., Experiment]


def found(result: Result) -> dict[str, Any]:
    """All of a result but what depends on the clock."""
    data = vars(result).copy()
    for name in ("train_seconds", "test_seconds", "tokens_per_second", "environment"):
        data.pop(name)
    return data


def gone(process: int) -> bool:
    """Whether there is no process of that number, or only what its parent has not asked for yet."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_results_come_in_order_faults_with_their_message_and_workers_do_not_see_ctrl_c(
    tmp_path: Path, tiny: Tiny
) -> None:
    runs = tmp_path / "runs"
    held = pinned(tiny(seed=3), build_task(tiny().task))
    (runs / held.address).mkdir(parents=True)
    stored = run(tiny(seed=4), runs=runs, device="cpu")
    experiments = [tiny(steps=40), tiny(encoding="rotray"), stored.experiment, held, tiny(seed=1), tiny(seed=2)]
    done: dict[int, Result | Failure] = {}
    seen: list[tuple[int, Progress]] = []
    before = set(multiprocessing.active_children())

    def press() -> None:
        # A terminal sends Ctrl-C to every process of its group, whether it has begun or not.
        until(lambda: len(set(multiprocessing.active_children()) - before) == 1)
        for delay in (0.0, 0.3, 1.0):
            time.sleep(delay)
            for child in set(multiprocessing.active_children()) - before:
                os.kill(child.pid or 0, signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with (runs / held.address / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        outcome = sweep(
            experiments,
            runs=runs,
            jobs=1,
            device="cpu",
            on_progress=lambda index, progress: seen.append((index, progress)),
            on_done=lambda index, what: done.setdefault(index, what) and None,
        )
    presser.join()
    assert not outcome.interrupted
    assert [result.experiment.seed for result in outcome.results] == [0, 4, 1, 2]
    assert [failure.experiment for failure in outcome.failures] == [experiments[1], held]
    assert outcome.failures[0].message == "unknown encoding 'rotray': did you mean 'rotary'?"
    assert "Traceback" in outcome.failures[0].details
    assert outcome.failures[1].message.startswith(f"another process is training {held.address}: wait for it")
    assert sorted(done) == list(range(6))
    assert done[0] == outcome.results[0]
    assert {index for index, _ in seen} == {0, 4, 5}
    # One process or several, one thread each: the same numbers.
    assert found(outcome.results[0]) == found(run(experiments[0], runs=tmp_path / "alone", device="cpu"))
    assert not set(multiprocessing.active_children()) - before


def test_what_is_stored_is_read_without_starting_a_process(
    tmp_path: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = [run(tiny(seed=seed), runs=tmp_path, device="cpu") for seed in (1, 0)]

    def refuse(_: str) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(multiprocessing, "get_context", refuse)
    done: list[int] = []
    outcome = sweep([one.experiment for one in stored], runs=tmp_path, on_done=lambda index, _: done.append(index))
    assert outcome == Sweep(stored, [], False)
    assert done == [0, 1]
    assert sweep([], runs=tmp_path) == Sweep([], [], False)


def test_ctrl_c_pressed_twice_ends_workers_at_once_even_while_they_start(tmp_path: Path, tiny: Tiny) -> None:
    before = set(multiprocessing.active_children())
    handler = signal.getsignal(signal.SIGINT)
    experiments = [tiny(steps=10**6, seed=seed) for seed in range(4)]
    stops: list[float] = []

    def press(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def early() -> None:
        until(lambda: bool(set(multiprocessing.active_children()) - before))
        press()

    def again() -> None:
        stops.append(time.monotonic())
        threading.Timer(0.5, press).start()  # not before the first one has been acted on

    presser = threading.Thread(target=early)
    presser.start()
    outcome = sweep(experiments, runs=tmp_path, jobs=1, device="cpu", on_stop=again)
    presser.join()
    assert outcome == Sweep([], [], True)
    assert len(stops) == 1
    assert time.monotonic() - stops[0] < 20
    assert signal.getsignal(signal.SIGINT) is handler
    assert not set(multiprocessing.active_children()) - before
    assert len(list(tmp_path.iterdir())) <= 1  # those that had not begun have left nothing


def test_a_killed_worker_is_told_with_what_to_do(tmp_path: Path, tiny: Tiny) -> None:
    before = set(multiprocessing.active_children())

    def kill(_: int, progress: Progress) -> None:
        for child in set(multiprocessing.active_children()) - before:
            os.kill(child.pid or 0, signal.SIGKILL)

    with pytest.raises(LengthwiseError, match=r"a worker process was killed.*smaller --jobs"):
        sweep([tiny(steps=10**6)], runs=tmp_path, device="cpu", on_progress=kill)
    assert not set(multiprocessing.active_children()) - before


PARENT = """
import json, multiprocessing, sys
from lengthwise.lab import experiment, sweep

def show(index, progress):
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)

if __name__ == "__main__":
    settings = experiment.experiment_from_dict(json.loads(sys.argv[1]))
    sweep([settings], runs=sys.argv[2], jobs=1, device="cpu", on_progress=show)
"""


def test_workers_whose_parent_is_killed_store_a_checkpoint_and_end(tmp_path: Path, tiny: Tiny) -> None:
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    settings = json.dumps(tiny(steps=10**6).as_dict())
    arguments = [sys.executable, "-c", PARENT, settings, str(tmp_path)]
    child = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert child.stdout is not None
    workers = [int(word) for word in child.stdout.readline().split()]
    child.kill()
    child.wait()
    child.stdout.close()
    assert len(workers) == 1
    assert until(lambda: all(map(gone, workers)))
    (folder,) = tmp_path.iterdir()
    assert set(os.listdir(folder)) == {"experiment.json", "checkpoint.safetensors", "lock"}
    assert find_results([tmp_path]) == ([], [folder])


def test_a_negative_number_of_jobs_is_told(tmp_path: Path, tiny: Tiny) -> None:
    with pytest.raises(InvalidArgument, match="jobs must be at least 1, or 0 for one a core, not -1"):
        sweep([tiny()], runs=tmp_path, jobs=-1)


def test_there_is_one_job_a_core_that_this_process_may_use_and_one_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_jobs("cpu") == len(os.sched_getaffinity(0))
    assert default_jobs("cuda:1") == 1
    monkeypatch.delattr(os, "sched_getaffinity")
    assert default_jobs("cpu") == os.cpu_count()
