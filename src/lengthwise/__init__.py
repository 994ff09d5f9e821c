"""Positional encodings for Transformers behind one contract, and a laboratory that tests them past the trained length.

This module holds what is needed in a model: the encodings, positions, attention. The models, tasks and the
laboratory are in `lengthwise.models`, `lengthwise.tasks` and `lengthwise.lab`.
"""

import importlib
from types import ModuleType

from lengthwise import encodings as encodings
from lengthwise import extension as extension
from lengthwise.attention import (
    attend,
    attention,
    attention_weights,
    backends,
    explain_attention,
    merge,
)
from lengthwise.bias import Bias, DenseBias, DistanceBias, LowRankBias, PairBias, PairFunction, SumBias
from lengthwise.build import build, build_method
from lengthwise.compose import Combined, OnAxis, PerLayer
from lengthwise.dims import Dims
from lengthwise.encodings import *  # every registered encoding
from lengthwise.errors import (
    BackendRefused,
    DataError,
    InvalidArgument,
    LengthwiseError,
    PositionOutOfRange,
    SpecError,
    StorageError,
    UnknownName,
)
from lengthwise.extension import *  # every extension method
from lengthwise.extension import extend
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare
from lengthwise.query_key import Composed, MatrixRotation, QueryKeyMap
from lengthwise.registry import Registry
from lengthwise.rotation import Rotation
from lengthwise.sites import (
    CLAIMS,
    SITES,
    BiasesLogits,
    ComputesLogits,
    EmbedsPositions,
    ReadsHidden,
    Rotates,
    claims,
    sites,
)

__all__ = [
    "BackendRefused",
    "Bias",
    "BiasesLogits",
    "CLAIMS",
    "Combined",
    "Composed",
    "ComputesLogits",
    "DataError",
    "DenseBias",
    "Dims",
    "DistanceBias",
    "EmbedsPositions",
    "InvalidArgument",
    "LengthwiseError",
    "LowRankBias",
    "MatrixRotation",
    "OnAxis",
    "PairBias",
    "PairFunction",
    "PerLayer",
    "PositionOutOfRange",
    "Positions",
    "Prepared",
    "QueryKeyMap",
    "ReadsHidden",
    "Registry",
    "Rotates",
    "Rotation",
    "SITES",
    "SpecError",
    "StorageError",
    "SumBias",
    "UnknownName",
    "attend",
    "attention",
    "attention_weights",
    "backends",
    "build",
    "build_method",
    "claims",
    "explain_attention",
    "merge",
    "prepare",
    "sites",
]
__all__ += [made.__name__ for _, made in encodings.encodings.own_items()]
__all__ += ["extend", *(made.__name__ for _, made in extension.extensions.own_items())]

__version__ = "0.1.0"


def __getattr__(name: str) -> ModuleType:
    if name == "testing":  # the conformance kit, loaded when it is asked for
        return importlib.import_module("lengthwise.testing")
    raise AttributeError(f"module 'lengthwise' has no attribute {name!r}")
