"""The laboratory: train the same model with each encoding, test it past the trained length, keep what was found."""

from lengthwise.lab.evaluate import evaluate
from lengthwise.lab.experiment import Experiment, Training
from lengthwise.lab.result import ByPosition, Result
from lengthwise.lab.run import Interrupted, Progress, load_model, run
from lengthwise.lab.store import find_results
from lengthwise.lab.sweep import Failure, Sweep, sweep

__all__ = [
    "ByPosition",
    "Experiment",
    "Failure",
    "Interrupted",
    "Progress",
    "Result",
    "Sweep",
    "Training",
    "evaluate",
    "find_results",
    "load_model",
    "run",
    "sweep",
]
