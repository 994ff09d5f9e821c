"""Many experiments over processes, one thread each: on small models faster than threads.

On Ctrl-C every worker stores a checkpoint before it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from queue import Empty

import torch

from lengthwise.errors import InvalidArgument, LengthwiseError, StorageError
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import Result
from lengthwise.lab.run import Progress
from lengthwise.lab.store import RunFolder
from lengthwise.lab.worker import Failure, start, work

__all__ = ["Failure", "Sweep", "default_jobs", "sweep"]


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
    on_stop: Callable[[], None] | None = None,
) -> Sweep:
    """Run experiments side by side; those that are stored already are read.

    Ctrl-C makes every worker store a checkpoint; the same call goes on from there. A second Ctrl-C ends the workers at
    once, and what they did since their last checkpoints is lost. Processes are started anew, so a script that calls
    this needs `if __name__ == "__main__":` around the call.

    Args:
        experiments: what to run.
        runs: folder of all runs.
        jobs: processes at once; 0 means one a core, or one alone on a GPU.
        device: as for `run`.
        on_progress: called with the index of an experiment and how far it is, a few times a second.
        on_done: called with the index and the result or failure.
        on_stop: called once where Ctrl-C was seen and the workers are told.

    Raises:
        InvalidArgument: a negative number of jobs.
        LengthwiseError: a worker was killed from outside.
    """
    if jobs < 0:
        raise InvalidArgument(f"jobs must be at least 1, or 0 for one a core, not {jobs}")
    outcomes: dict[int, Result | Failure] = {}

    def settle(index: int, outcome: Result | Failure | None) -> None:
        if outcome is not None:
            outcomes[index] = outcome
            if on_done is not None:
                on_done(index, outcome)

    left: dict[int, Experiment] = {}
    for index, experiment in enumerate(experiments):
        stored = _stored(experiment, Path(runs))
        if stored is None:
            left[index] = experiment
        else:
            settle(index, stored)
    interrupted = False
    if left:
        workers = min(jobs or default_jobs(device), len(left))
        interrupted = _work_off(left, str(runs), workers, device, settle, on_progress, on_stop)
    ordered = [outcomes[index] for index in sorted(outcomes)]
    results = [one for one in ordered if isinstance(one, Result)]
    return Sweep(results, [one for one in ordered if isinstance(one, Failure)], interrupted)


def _stored(experiment: Experiment, runs: Path) -> Result | None:
    """The result of an experiment that names its data and is done, without starting a process for it."""
    if not experiment.data:
        return None
    try:
        return RunFolder(runs, experiment).result()
    except StorageError:
        return None  # a worker meets the same error and carries it with its experiment


def _work_off(
    left: Mapping[int, Experiment],
    runs: str,
    workers: int,
    device: str,
    settle: Callable[[int, Result | Failure | None], None],
    on_progress: Callable[[int, Progress], None] | None,
    on_stop: Callable[[], None] | None,
) -> bool:
    """Run experiments in new processes; true where Ctrl-C ended it."""
    context = multiprocessing.get_context("spawn")
    stop, queue = context.Event(), context.Queue()
    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=start, initargs=(stop, queue))
    told = 0
    with _counted_interrupts() as presses:
        try:
            with _held_interrupts():  # and so are the workers, from their first moment
                futures = {
                    pool.submit(work, index, experiment, runs, device): index for index, experiment in left.items()
                }
            waiting = set(futures)
            while waiting:
                done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                _drain(queue, on_progress)
                for future in done:
                    waiting.remove(future)
                    settle(futures[future], _outcome(future, ended_by_us=told > 1))
                if len(presses) > told:
                    told = len(presses)
                    if not stop.is_set() and on_stop is not None:
                        on_stop()
                    # Workers return what is left undone. Its futures are not cancelled: where a worker dies then, a
                    # pool of Python 3.11 never ends.
                    stop.set()
                    if told > 1:
                        for process in set(multiprocessing.active_children()) - others:
                            process.terminate()
        finally:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
    return told > 0


@contextmanager
def _counted_interrupts() -> Generator[list[int]]:
    """Ctrl-C appends to the list, in place of raising an error wherever this process happens to be."""
    presses: list[int] = []
    # Elsewhere than in the main thread there is no Ctrl-C; another handler than Python's own is somebody's wish.
    if threading.current_thread() is not threading.main_thread() or (
        signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield presses
        return
    signal.signal(signal.SIGINT, lambda number, _: presses.append(number))
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def _held_interrupts() -> Generator[None]:
    """Processes started in here never see Ctrl-C, which would end them in a traceback; this one sees it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def default_jobs(device: str) -> int:
    """One process a core that this process may use; one on a GPU."""
    on_gpu = device.startswith("cuda") or (device == "auto" and torch.cuda.is_available())
    if on_gpu:
        return 1
    # Not every system can bind a process to some of its cores.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _outcome(future: Future[Result | Failure | None], *, ended_by_us: bool) -> Result | Failure | None:
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        if ended_by_us:
            return None
        raise LengthwiseError(
            "a worker process was killed, perhaps for lack of memory: the same command goes on from the last "
            "checkpoints; try it with a smaller --jobs"
        ) from error
    return future.result()


def _drain(queue: Queue[tuple[int, Progress]], on_progress: Callable[[int, Progress], None] | None) -> None:
    while True:
        try:
            index, progress = queue.get_nowait()
        except Empty:
            return
        if on_progress is not None:
            on_progress(index, progress)
