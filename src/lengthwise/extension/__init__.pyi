"""Written by `make stubs` from the registry; do not edit."""

from lengthwise.extension.base import ChangeBase as ChangeBase
from lengthwise.extension.by_query import ByQuery as ByQuery
from lengthwise.extension.distance import DynamicInterpolate as DynamicInterpolate
from lengthwise.extension.drope import DroPE as DroPE
from lengthwise.extension.dual_chunk import DualChunk as DualChunk
from lengthwise.extension.extend import applies as applies
from lengthwise.extension.extend import extend as extend
from lengthwise.extension.extended import Extended as Extended
from lengthwise.extension.extrapolate import Extrapolate as Extrapolate
from lengthwise.extension.hierarchy import HierarchicalTable as HierarchicalTable
from lengthwise.extension.interpolate import Interpolate as Interpolate
from lengthwise.extension.keys import move_keys as move_keys
from lengthwise.extension.llama3 import Llama3 as Llama3
from lengthwise.extension.longrope import LongRoPE as LongRoPE
from lengthwise.extension.method import Branch as Branch
from lengthwise.extension.method import Method as Method
from lengthwise.extension.ntk import DynamicNTK as DynamicNTK
from lengthwise.extension.ntk import NTK as NTK
from lengthwise.extension.pairs import effective_distance as effective_distance
from lengthwise.extension.parts import NTKByParts as NTKByParts
from lengthwise.extension.pose import PoSE as PoSE
from lengthwise.extension.positions import Clamp as Clamp
from lengthwise.extension.positions import Randomize as Randomize
from lengthwise.extension.proportional import Proportional as Proportional
from lengthwise.extension.queries import ConstantTemperature as ConstantTemperature
from lengthwise.extension.queries import LogN as LogN
from lengthwise.extension.queries import ScalableSoftmax as ScalableSoftmax
from lengthwise.extension.registry import extensions as extensions
from lengthwise.extension.rerope import ReRoPE as ReRoPE
from lengthwise.extension.self_extend import SelfExtend as SelfExtend
from lengthwise.extension.streaming import LMInfinite as LMInfinite
from lengthwise.extension.streaming import StreamingLLM as StreamingLLM
from lengthwise.extension.tables import Resample as Resample
from lengthwise.extension.tables import ResampleGrid as ResampleGrid
from lengthwise.extension.yarn import DynamicYaRN as DynamicYaRN
from lengthwise.extension.yarn import YaRN as YaRN

__all__ = [
    "Branch",
    "ByQuery",
    "ChangeBase",
    "Clamp",
    "ConstantTemperature",
    "DroPE",
    "DualChunk",
    "DynamicInterpolate",
    "DynamicNTK",
    "DynamicYaRN",
    "Extended",
    "Extrapolate",
    "HierarchicalTable",
    "Interpolate",
    "LMInfinite",
    "Llama3",
    "LogN",
    "LongRoPE",
    "Method",
    "NTK",
    "NTKByParts",
    "PoSE",
    "Proportional",
    "Randomize",
    "ReRoPE",
    "Resample",
    "ResampleGrid",
    "ScalableSoftmax",
    "SelfExtend",
    "StreamingLLM",
    "YaRN",
    "applies",
    "effective_distance",
    "extend",
    "extensions",
    "move_keys",
]
