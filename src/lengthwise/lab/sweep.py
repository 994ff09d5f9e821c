"""Many experiments over processes, one thread each: on small models faster than threads.

Workers do not see Ctrl-C; this process does, tells them, and they store a checkpoint each before they end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from queue import Empty
from typing import Any

import torch

from lengthwise.errors import InvalidArgument, LengthwiseError
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.lab.run import Interrupted, Progress, run


@dataclass(frozen=True)
class Failure:
    """An experiment that ended with an error.

    Args:
        experiment: its settings.
        message: one line.
        details: the traceback.
    """

    experiment: Experiment
    message: str
    details: str


@dataclass(frozen=True)
class Sweep:
    """What came of a sweep.

    Args:
        results: of the experiments that are done, in the order given.
        failures: those that ended with an error.
        interrupted: whether it was stopped before all were done.
    """

    results: list[Result]
    failures: list[Failure]
    interrupted: bool


def sweep(
    experiments: Sequence[Experiment],
    *,
    runs: Path | str = "runs",
    jobs: int = 0,
    device: str = "auto",
    on_progress: Callable[[int, Progress], None] | None = None,
    on_done: Callable[[int, Result | Failure], None] | None = None,
) -> Sweep:
    """Run experiments side by side; those that are stored already are read.

    Ctrl-C makes every worker store a checkpoint; the same call goes on from there. Processes are started anew, so a
    script that calls this needs `if __name__ == "__main__":` around the call.

    Args:
        experiments: what to run.
        runs: folder of all runs.
        jobs: processes at once; 0 means one a core, or one alone on a GPU.
        device: as for `run`.
        on_progress: called with the index of an experiment and how far it is, a few times a second.
        on_done: called with the index and the result or failure.

    Raises:
        InvalidArgument: a negative number of jobs.
        LengthwiseError: a worker was killed from outside.
    """
    if jobs < 0:
        raise InvalidArgument(f"jobs must be at least 1, or 0 for one a core, not {jobs}")
    context = multiprocessing.get_context("spawn")
    stop, queue = context.Event(), context.Queue()
    workers = max(1, min(jobs or default_jobs(device), len(experiments)))
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker, initargs=(stop, queue))
    futures: dict[Future[Result | Failure | None], int] = {}
    outcomes: dict[int, Result | Failure] = {}
    try:
        for index, experiment in enumerate(experiments):
            futures[pool.submit(_work, index, experiment, str(runs), device)] = index
        waiting = set(futures)
        while waiting:
            try:
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                _drain(queue, on_progress)
                for future in done:
                    if not future.cancelled():
                        _settle(futures[future], future, outcomes, on_done)
            except KeyboardInterrupt:
                stop.set()
                for future in waiting:
                    future.cancel()
    finally:
        interrupted = stop.is_set()
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
    ordered = [outcomes[index] for index in sorted(outcomes)]
    results = [one for one in ordered if isinstance(one, Result)]
    return Sweep(results, [one for one in ordered if isinstance(one, Failure)], interrupted)


def default_jobs(device: str) -> int:
    """One process a core that this process may use; one on a GPU."""
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    return 1 if on_gpu else len(os.sched_getaffinity(0))


def _settle(
    index: int,
    future: Future[Result | Failure | None],
    outcomes: dict[int, Result | Failure],
    on_done: Callable[[int, Result | Failure], None] | None,
) -> None:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        raise LengthwiseError(
            "a worker process was killed, perhaps for lack of memory: the same command goes on from the last "
            "checkpoints; try it with a smaller --jobs"
        ) from error
    outcome = future.result()
    if outcome is not None:
        outcomes[index] = outcome
        if on_done is not None:
            on_done(index, outcome)


def _drain(queue: Queue[tuple[int, Progress]], on_progress: Callable[[int, Progress], None] | None) -> None:
    while True:
        try:
            index, progress = queue.get_nowait()
        except Empty:
            return
        if on_progress is not None:
            on_progress(index, progress)


# --- in the workers ---------------------------------------------------------------------------------------------------

_worker: dict[str, Any] = {}
"""The event and the queue of this worker process, put there when it starts: they can't be arguments of a task."""


def _start_worker(stop: Event, queue: Queue[tuple[int, Progress]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _worker.update(stop=stop, queue=queue)


def _work(index: int, experiment: Experiment, runs: str, device: str) -> Result | Failure | None:
    """Run one experiment; None where it was told to stop."""
    last = 0.0

    def report(progress: Progress) -> None:
        nonlocal last
        if progress.phase != "train" or time.monotonic() - last > 0.2:
            last = time.monotonic()
            _worker["queue"].put((index, progress))

    try:
        return run(experiment, runs=runs, device=device, on_progress=report, should_stop=_worker["stop"].is_set)
    except Interrupted:
        return None
    except Exception as error:  # carried to the process that can show it
        own = isinstance(error, LengthwiseError)
        message = str(error) if own else f"{type(error).__name__}: {error}"
        return Failure(experiment, message, traceback.format_exc())
