"""Written by `make stubs` from the registry; do not edit."""

from collections.abc import Callable as Callable
from typing import TypeVar as _TypeVar

from lengthwise.encodings.alibi import ALiBi as ALiBi
from lengthwise.encodings.alibi2d import ALiBi2D as ALiBi2D
from lengthwise.encodings.axial import Axial as Axial
from lengthwise.encodings.cable import CABLE as CABLE
from lengthwise.encodings.cape import CAPE as CAPE
from lengthwise.encodings.chunks import Chunks as Chunks
from lengthwise.encodings.comrope import ComRoPE as ComRoPE
from lengthwise.encodings.cope import CoPE as CoPE
from lengthwise.encodings.dape import DAPE as DAPE
from lengthwise.encodings.deberta import DeBERTa as DeBERTa
from lengthwise.encodings.fire import FIRE as FIRE
from lengthwise.encodings.fope import FoPE as FoPE
from lengthwise.encodings.fourier import LearnableFourier as LearnableFourier
from lengthwise.encodings.fox import FoX as FoX
from lengthwise.encodings.gaussian import Gaussian as Gaussian
from lengthwise.encodings.hierarchical import Hierarchical as Hierarchical
from lengthwise.encodings.kerple import KERPLE as KERPLE
from lengthwise.encodings.learned import Learned as Learned
from lengthwise.encodings.liere import LieRE as LieRE
from lengthwise.encodings.log_cpb import LogCPB as LogCPB
from lengthwise.encodings.mixed import MixedRotary as MixedRotary
from lengthwise.encodings.mrope import MRoPE as MRoPE
from lengthwise.encodings.none import NoPE as NoPE
from lengthwise.encodings.path import PaTH as PaTH
from lengthwise.encodings.randomized import RandomizedPositions as RandomizedPositions
from lengthwise.encodings.registry import encodings as encodings
from lengthwise.encodings.rotary import Rotary as Rotary
from lengthwise.encodings.sandwich import Sandwich as Sandwich
from lengthwise.encodings.selective_rope import SelectiveRoPE as SelectiveRoPE
from lengthwise.encodings.shape import SHAPE as SHAPE
from lengthwise.encodings.shaw import Shaw as Shaw
from lengthwise.encodings.sinusoidal import Sinusoidal as Sinusoidal
from lengthwise.encodings.sinusoidal2d import Sinusoidal2D as Sinusoidal2D
from lengthwise.encodings.stick_breaking import StickBreaking as StickBreaking
from lengthwise.encodings.swin import SwinBias as SwinBias
from lengthwise.encodings.t5 import T5Bias as T5Bias
from lengthwise.encodings.temperature import QueryTemperature as QueryTemperature
from lengthwise.encodings.transformer_xl import TransformerXL as TransformerXL
from lengthwise.encodings.window import Window as Window
from lengthwise.encodings.xpos import XPos as XPos

__all__ = [
    "ALiBi",
    "ALiBi2D",
    "Axial",
    "CABLE",
    "CAPE",
    "Chunks",
    "CoPE",
    "ComRoPE",
    "DAPE",
    "DeBERTa",
    "FIRE",
    "FoPE",
    "FoX",
    "Gaussian",
    "Hierarchical",
    "KERPLE",
    "LearnableFourier",
    "Learned",
    "LieRE",
    "LogCPB",
    "MRoPE",
    "MixedRotary",
    "NoPE",
    "PaTH",
    "QueryTemperature",
    "RandomizedPositions",
    "Rotary",
    "SHAPE",
    "Sandwich",
    "SelectiveRoPE",
    "Shaw",
    "Sinusoidal",
    "Sinusoidal2D",
    "StickBreaking",
    "SwinBias",
    "T5Bias",
    "TransformerXL",
    "Window",
    "XPos",
]

_Encoding = _TypeVar("_Encoding")

def register(name: str) -> Callable[[_Encoding], _Encoding]: ...
