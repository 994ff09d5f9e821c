"""One worker process of a sweep: it runs experiments, tells how far it is, and stops when it is told to.

It does not see Ctrl-C: the process that started it does, and tells. Where that one dies, a worker stores a checkpoint
and ends.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import traceback
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event

import torch

from lengthwise.errors import LengthwiseError
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


@dataclass
class _Worker:
    """What a worker process knows; none of it can be an argument of a task."""

    stop: Event
    queue: Queue[tuple[int, Progress]]
    orphaned: bool = False
    busy: threading.Lock = field(default_factory=threading.Lock)

    def should_stop(self) -> bool:
        return self.orphaned or self.stop.is_set()

    def outlive(self) -> None:
        """Wait for the end of the process that started this one: then store a checkpoint and end too."""
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            self.orphaned = True
            with self.busy:
                os._exit(1)


_worker: list[_Worker] = []
"""Of this process, put there when it starts."""


def start(stop: Event, queue: Queue[tuple[int, Progress]]) -> None:
    """Make this process a worker, before its first experiment."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    _worker.append(_Worker(stop, queue))
    threading.Thread(target=_worker[0].outlive, daemon=True).start()


def work(index: int, experiment: Experiment, runs: str, device: str) -> Result | Failure | None:
    """Run one experiment; None where it was told to stop."""
    worker, last = _worker[0], 0.0

    def report(progress: Progress) -> None:
        nonlocal last
        if progress.phase != "train" or time.monotonic() - last > 0.2:
            last = time.monotonic()
            worker.queue.put((index, progress))

    with worker.busy:
        if worker.should_stop():
            return None
        try:
            return run(experiment, runs=runs, device=device, on_progress=report, should_stop=worker.should_stop)
        except Interrupted:
            return None
        except Exception as error:  # carried to the process that can show it
            own = isinstance(error, LengthwiseError)
            message = str(error) if own else f"{type(error).__name__}: {error}"
            return Failure(experiment, " ".join(message.split()), traceback.format_exc())
