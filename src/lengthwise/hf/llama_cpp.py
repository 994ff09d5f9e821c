"""Arguments for llama.cpp: `llama-server -m MODEL.gguf -c LENGTH ...`.

    --rope-scaling none | linear | yarn     --rope-scale s          --rope-freq-base b
    --yarn-orig-ctx L     --yarn-beta-fast  --yarn-beta-slow        --yarn-attn-factor

Names and formulas were read, not run. Its YaRN has the ramp in the index of the pair, with ends rounded outwards, and
multiplies cosines and sines by attn_factor (1 + 0.1 ln s). What differs by pair (Llama 3, LongRoPE) stands in the GGUF
file, where the converter of llama.cpp writes it from the config. Which dims make a pair is part of the file as well.
"""

from __future__ import annotations

import math

from torch import nn

from lengthwise.compose import PerLayer
from lengthwise.errors import InvalidArgument
from lengthwise.extension.interpolate import Interpolate
from lengthwise.extension.llama3 import Llama3
from lengthwise.extension.longrope import LongRoPE
from lengthwise.extension.method import Method
from lengthwise.extension.yarn import YaRN
from lengthwise.hf.export import folded, parts_of


def to_llama_cpp(encoding: nn.Module) -> list[str]:
    """Return the arguments that make llama.cpp rotate as an encoding does, for a GGUF file without scaling of its own.

    Args:
        encoding: rotary, with the base of the model.

    Raises:
        InvalidArgument: what llama.cpp has no arguments for, with the reason.

    Example:
        >>> import lengthwise as lw
        >>> to_llama_cpp(lw.extend(lw.Rotary(head_dim=128), lw.YaRN(factor=4, original_length=32768)))
        ['--rope-scaling', 'yarn', '--rope-scale', '4', '--yarn-orig-ctx', '32768']
    """
    if isinstance(encoding, PerLayer):
        raise InvalidArgument("the arguments of llama.cpp speak of all layers, and these differ")
    rotary, methods = parts_of(encoding)
    base, method = folded(rotary, methods)
    changed = [] if base == rotary.base else ["--rope-freq-base", f"{base:.9g}"]
    return [*_scaling(method), *changed]


def _scaling(method: Method | None) -> list[str]:
    match method:
        case None:
            return ["--rope-scaling", "none"]
        case Interpolate():
            return ["--rope-scaling", "linear", "--rope-scale", f"{method.factor:g}"]
        case YaRN():
            return _yarn(method)
        case Llama3() | LongRoPE():
            raise InvalidArgument(
                f"llama.cpp reads the factors of {type(method).__name__} from the GGUF file: set rope_parameters in "
                "the config of the model, and convert it anew"
            )
        case _:
            raise InvalidArgument(
                f"llama.cpp has no arguments for {type(method).__name__}: it has Interpolate, YaRN, NTK and ChangeBase"
            )


def _yarn(method: YaRN) -> list[str]:
    if method.ramp != "index" or not method.truncate:
        raise InvalidArgument("the ramp of llama.cpp is in the index of the pair, with rounded ends; this one is not")
    made = [
        "--rope-scaling",
        "yarn",
        "--rope-scale",
        f"{method.factor:g}",
        "--yarn-orig-ctx",
        str(method.original_length),
    ]
    for name, value, usual in (("fast", method.beta_fast, 32), ("slow", method.beta_slow, 1)):
        made += [] if value == usual else [f"--yarn-beta-{name}", f"{value:g}"]
    left = method.rotation_multiplier / (1 + 0.1 * math.log(method.factor))  # it has the second by itself
    return made if math.isclose(left, 1, rel_tol=1e-9) else [*made, "--yarn-attn-factor", f"{left:.9g}"]
