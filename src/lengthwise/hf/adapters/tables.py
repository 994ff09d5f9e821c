"""Models that add a table of positions to their token embeddings: GPT-2, OPT, BERT.

The module that looks up the table is given another way to answer; its weights stay where they are. Where tokens stand
remains the model's own affair: GPT-2 and BERT count padding unless they are given `position_ids`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.encodings.learned import Learned
from lengthwise.errors import InvalidArgument
from lengthwise.hf.adapters.hooks import Hook
from lengthwise.positions import Positions
from lengthwise.prepared import prepare
from lengthwise.sites import sites

FAMILIES = ("gpt2", "opt", "bert")
"""`model_type` of the configs that this file serves."""

_OFFSET = {"opt": 2}
_NAMES = ("wpe", "embed_positions", "position_embeddings")


def table_of(model: Any) -> Learned:
    """The learned table of a model as an encoding, with the model's own weights, copied.

    Raises:
        InvalidArgument: a model without a table that this package knows.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=1, n_head=2))
        >>> table_of(model)
        Learned(dim=8, max_length=16)
    """
    place = _lookup(model)
    table = place.weight.detach()[_OFFSET.get(model.config.model_type, 0) :]
    return Learned(table.shape[1], table.shape[0]).to(table.device, table.dtype).with_table(table)


def swap(model: Any, encoding: nn.Module, target_length: int | None, raw: bool) -> list[Callable[[], None]]:
    """Let the encoding answer in place of the table; returns what undoes it, last first."""
    if sites(encoding) not in ((), ("embeddings",)):
        raise InvalidArgument(
            f"{model.config.model_type!r} adds a table to its embeddings, and {type(encoding).__name__} acts on "
            f"{', '.join(sites(encoding))}: choose one that acts on embeddings, such as an extension of table_of(model)"
        )
    place = _lookup(model)
    undo: list[Callable[[], None]] = []

    def look_up(own: Any, position_ids: Tensor) -> Tensor:
        at = Positions(position_ids, position_ids, target_length=target_length)
        ready = prepare(encoding, at, training=bool(own.training))
        nothing = own.weight.new_zeros(*position_ids.shape, own.weight.shape[1], requires_grad=False)
        return nothing if ready.embed is None else ready.embed(nothing)

    def of_mask(own: Any, attention_mask: Tensor, cache_length: int = 0, position_ids: Tensor | None = None) -> Tensor:
        if position_ids is None:
            position_ids = Positions.padded(attention_mask.bool()).q[:, cache_length:]
        return look_up(own, position_ids.clamp(min=0).long())  # OPT says -1 where there is padding

    place.forward = Hook(of_mask if model.config.model_type == "opt" else look_up, place)
    undo.append(lambda: delattr(place, "forward"))
    longest = getattr(encoding, "max_position", None) or target_length
    for module in model.modules():
        for name in ("position_ids", "token_type_ids"):  # BERT keeps as many as its table has rows
            buffer = module._buffers.get(name)
            if buffer is not None and longest is not None and longest > buffer.shape[-1]:
                undo.append(lambda module=module, name=name, old=buffer: module._buffers.update({name: old}))
                whole = torch.arange(longest, device=buffer.device).expand(1, -1)
                module._buffers[name] = whole if name == "position_ids" else torch.zeros_like(whole)
    return undo


def _lookup(model: Any) -> Any:
    kind = getattr(getattr(model, "config", None), "model_type", None)
    for name, module in model.named_modules():
        if kind in FAMILIES and name.split(".")[-1] in _NAMES and isinstance(module, nn.Embedding):
            return module
    raise InvalidArgument(
        f"{type(model).__name__} has no table of positions that is known here: those of {', '.join(FAMILIES)} are"
    )
