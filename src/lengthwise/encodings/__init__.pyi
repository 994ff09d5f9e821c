"""Written by `make stubs` from the registry of encodings; do not edit."""

from collections.abc import Callable as Callable
from typing import TypeVar as _TypeVar

from lengthwise.encodings.alibi import ALiBi as ALiBi
from lengthwise.encodings.alibi2d import ALiBi2D as ALiBi2D
from lengthwise.encodings.cape import CAPE as CAPE
from lengthwise.encodings.fire import FIRE as FIRE
from lengthwise.encodings.fourier import LearnableFourier as LearnableFourier
from lengthwise.encodings.gaussian import Gaussian as Gaussian
from lengthwise.encodings.hierarchical import Hierarchical as Hierarchical
from lengthwise.encodings.kerple import KERPLE as KERPLE
from lengthwise.encodings.learned import Learned as Learned
from lengthwise.encodings.log_cpb import LogCPB as LogCPB
from lengthwise.encodings.none import NoPE as NoPE
from lengthwise.encodings.randomized import RandomizedPositions as RandomizedPositions
from lengthwise.encodings.registry import encodings as encodings
from lengthwise.encodings.rotary import Rotary as Rotary
from lengthwise.encodings.sandwich import Sandwich as Sandwich
from lengthwise.encodings.shape import SHAPE as SHAPE
from lengthwise.encodings.sinusoidal import Sinusoidal as Sinusoidal
from lengthwise.encodings.sinusoidal2d import Sinusoidal2D as Sinusoidal2D
from lengthwise.encodings.swin import SwinBias as SwinBias
from lengthwise.encodings.t5 import T5Bias as T5Bias
from lengthwise.encodings.window import Window as Window

__all__ = [
    "ALiBi",
    "ALiBi2D",
    "CAPE",
    "FIRE",
    "Gaussian",
    "Hierarchical",
    "KERPLE",
    "LearnableFourier",
    "Learned",
    "LogCPB",
    "NoPE",
    "RandomizedPositions",
    "Rotary",
    "SHAPE",
    "Sandwich",
    "Sinusoidal",
    "Sinusoidal2D",
    "SwinBias",
    "T5Bias",
    "Window",
]

_Encoding = _TypeVar("_Encoding")

def register(name: str) -> Callable[[_Encoding], _Encoding]: ...
