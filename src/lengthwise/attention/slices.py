"""Slices of one tensor, with one buffer for the gradients of all.

A slice gives its gradient back as a tensor of the whole size, zero elsewhere: where each block of queries sees a part
of the keys, that is the square of the length in memory traffic. Here each adds to its part of one buffer.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from lengthwise.precision import transforms_active


class Slices:
    """Some tokens of `x [batch, heads, length, head_dim]`, those that are asked for.

    Args:
        x: what is sliced.
        shared: whether there is a buffer, where a gradient is needed; else these are plain slices.
    """

    def __init__(self, x: Tensor, shared: bool = True) -> None:
        wanted = shared and torch.is_grad_enabled() and x.requires_grad
        self._shared = wanted and not transforms_active()
        self._buffer = _Buffer()
        self._x = _Gather.apply(x, self._buffer) if self._shared else x

    def __call__(self, tokens: slice) -> Tensor:
        """`x[:, :, tokens]`; the slice has a start and a stop within the length."""
        return _Slice.apply(self._x, self._buffer, tokens) if self._shared else self._x[:, :, tokens]


class _Buffer:
    """Sums of gradients by backward pass: passes may overlap, and one that fails leaves its sum behind."""

    def __init__(self) -> None:
        self.totals: dict[int, Tensor] = {}

    def add(self, grad: Tensor, length: int, tokens: slice) -> None:
        number = _backward_pass()
        if number not in self.totals:
            self.totals[number] = grad.new_zeros(*grad.shape[:2], length, grad.shape[3])
        # Not by an index: a batch of gradients (`is_grads_batched`) has no rule for one that takes all.
        self.totals[number].narrow(2, tokens.start, tokens.stop - tokens.start).add_(grad)

    def take(self) -> Tensor | None:
        return self.totals.pop(_backward_pass(), None)


def _backward_pass() -> int:
    """A number of the backward pass that runs now, as `torch.utils.checkpoint` asks for it."""
    return torch._C._current_graph_task_id()  # pyright: ignore[reportPrivateUsage]


def _adds_up() -> bool:
    """Whether gradients must come as tensors: those of gradients need the graph, compiled autograd adds them itself."""
    compiler = sys.modules.get("torch._dynamo.compiled_autograd")
    return torch.is_grad_enabled() or getattr(compiler, "in_compiled_autograd_region", False)


class _Gather(torch.autograd.Function):
    """The tensor itself; its backward pass comes after those of all slices, and gives what these have added."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, buffer: _Buffer) -> Tensor:
        ctx.buffer = buffer
        ctx.set_materialize_grads(False)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None) -> tuple[Tensor | None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        total = ctx.buffer.take()
        return (grad if total is None else total if grad is None else grad + total), None


class _Slice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, buffer: _Buffer, tokens: slice) -> Tensor:
        ctx.buffer, ctx.length, ctx.tokens = buffer, x.shape[2], tokens
        return x[:, :, tokens]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        if _adds_up():
            return pad(grad, (0, 0, ctx.tokens.start, ctx.length - ctx.tokens.stop)), None, None
        ctx.buffer.add(grad, ctx.length, ctx.tokens)
        return None, None, None
