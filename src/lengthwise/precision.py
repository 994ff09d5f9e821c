"""Which dtypes are computed in, where autocast changes them, and whether numbers can be looked at."""

from __future__ import annotations

from importlib import import_module

import torch
from torch import Tensor
from torch._C import _functorch  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]


def widest_float(device: torch.device) -> torch.dtype:
    """float64 where the device has it, else float32: angles of far positions need the digits."""
    return torch.float32 if device.type == "mps" else torch.float64


def autocasts(device_type: str) -> bool:
    """Whether autocast is on for devices of a kind, some of which do not know it."""
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)


def transforms_active() -> bool:
    """Whether a transform of `torch.func` or forward-mode differentiation is going on; PyTorch has no public answer."""
    functional = bool(vars(import_module("torch._C"))["_are_functorch_transforms_active"]())
    return functional or vars(torch.autograd.forward_ad)["_current_level"] >= 0


def in_transform() -> bool:
    """The same, where a compiler may trace: it follows one question only, and knows forward mode by `jvp` alone."""
    if torch.compiler.is_compiling():
        # Not `is not None`, which it answers with True always.
        return isinstance(_functorch.peek_interpreter_stack(), _functorch.CInterpreter)
    return transforms_active()


def can_be_read(x: Tensor) -> bool:
    """Whether the numbers of a tensor are at hand: on a CPU, under no compiler, tracer or transform."""
    plain = x.device.type == "cpu" and type(x) in (Tensor, torch.nn.Parameter)
    return plain and not torch.compiler.is_compiling() and not transforms_active()


def with_rows(x: Tensor) -> Tensor:
    """The same with its last dimension side by side in memory, which PyTorch's own kernels take for granted."""
    return x if x.stride(-1) == 1 else x.contiguous()
