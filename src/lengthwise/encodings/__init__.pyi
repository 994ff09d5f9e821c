"""Written by `make stubs` from the registry of encodings; do not edit."""

from collections.abc import Callable as Callable
from typing import TypeVar as _TypeVar

from lengthwise.encodings.alibi import ALiBi as ALiBi
from lengthwise.encodings.learned import Learned as Learned
from lengthwise.encodings.none import NoPE as NoPE
from lengthwise.encodings.registry import encodings as encodings
from lengthwise.encodings.rotary import Rotary as Rotary
from lengthwise.encodings.sinusoidal import Sinusoidal as Sinusoidal
from lengthwise.encodings.t5 import T5Bias as T5Bias

__all__ = [
    "ALiBi",
    "Learned",
    "NoPE",
    "Rotary",
    "Sinusoidal",
    "T5Bias",
]

_Encoding = _TypeVar("_Encoding")

def register(name: str) -> Callable[[_Encoding], _Encoding]: ...
