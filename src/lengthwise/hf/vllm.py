"""Overrides of a config for vLLM: `vllm serve MODEL --hf-overrides '<JSON>' --max-model-len LENGTH`.

vLLM reads `rope_parameters` as `transformers` 5 writes them, from release 0.12 on (UNVERIFIED which; older ones read
`rope_theta` and `rope_scaling`). Its code was read, not run. Where it computes another rotation from the same settings
the override is refused:

- `dynamic` is evaluated once, at factor x length, and not as the sequence grows;
- `longrope` takes its divisors by --max-model-len, and its factor from the lengths of the config, whatever
  `factor` and `attention_factor` say;
- `yarn` of DeepSeek's models reads `mscale` or `mscale_all_dim` alone, where `transformers` takes both or neither;
- `proportional` ignores `factor`.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from lengthwise.compose import PerLayer
from lengthwise.errors import InvalidArgument
from lengthwise.extension.longrope import LongRoPE
from lengthwise.extension.method import Method
from lengthwise.extension.ntk import NTK, DynamicNTK
from lengthwise.extension.proportional import Proportional
from lengthwise.extension.yarn import YaRN
from lengthwise.hf.export import folded, parts_of, to_rope_parameters


def to_vllm(encoding: nn.Module) -> dict[str, Any]:
    """Return what `--hf-overrides` takes, as a dictionary: `json.dumps` makes the argument of it.

    Args:
        encoding: rotary, with the base of the model: an override replaces all rope settings.

    Raises:
        InvalidArgument: what vLLM can't do or would do otherwise, with the reason.

    Example:
        >>> import lengthwise as lw
        >>> to_vllm(lw.extend(lw.Rotary(head_dim=128, base=1e6), lw.Interpolate(factor=4.0)))
        {'rope_parameters': {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': 1000000.0}}
    """
    if isinstance(encoding, PerLayer):
        raise InvalidArgument("vLLM has layers that differ in the code of each model: an override speaks of all layers")
    if not hasattr(encoding, "methods"):
        return {"rope_parameters": to_rope_parameters(encoding)}
    base, method = folded(*parts_of(encoding))
    if isinstance(method, NTK) and method.variant == "su":  # transformers has no such type, vLLM has
        return {"rope_parameters": {"rope_type": "ntk", "factor": method.factor, "rope_theta": base}}
    reason = None if method is None else _otherwise(method)
    if reason is not None:
        raise InvalidArgument(f"vLLM would rotate otherwise: {reason}")
    made: dict[str, Any] = {"rope_parameters": to_rope_parameters(encoding)}
    if isinstance(method, LongRoPE) and method.factor is not None:
        made |= {
            "max_position_embeddings": round(method.factor * method.original_length),
            "original_max_position_embeddings": method.original_length,
        }
    return made


def _otherwise(method: Method) -> str | None:
    match method:
        case DynamicNTK():
            return (
                "it evaluates dynamic NTK once, at factor x length, and not as the sequence grows; use NTK, with the "
                "factor of the longest sequence"
            )
        case LongRoPE() if method.factor is None or method.attention_factor is not None:
            return "it takes the factor of LongRoPE from the lengths of the config: give factor and no attention_factor"
        case YaRN() if bool(method.mscale) != bool(method.mscale_all_dim):
            return "it reads one of mscale and mscale_all_dim alone; give both, or attention_factor"
        case Proportional() if method.factor != 1:
            return "it ignores the factor of Proportional"
        case _:
            return None
