"""Models that add a bias of distance to their logits, which their own code forms: T5, BLOOM, MPT.

Each is handed the encoding's bias, dense, as its eager attention wants it: memory of heads times the square of the
length, as the models themselves need. Distances are those in the row, padding counted, as in the models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.compose import PerLayer
from lengthwise.errors import InvalidArgument
from lengthwise.hf.adapters.hooks import Hook
from lengthwise.positions import Positions
from lengthwise.prepared import prepare
from lengthwise.sites import direction, sites

FAMILIES = ("t5", "bloom", "mpt")
"""`model_type` of the configs that this file serves."""


def swap(model: Any, encoding: nn.Module, target_length: int | None, raw: bool) -> list[Callable[[], None]]:
    """Hand every layer the encoding's bias; returns what undoes it, last first."""
    kind = model.config.model_type
    if isinstance(encoding, PerLayer) or sites(encoding) not in ((), ("bias",)):
        what = "layers of their own" if isinstance(encoding, PerLayer) else ", ".join(sites(encoding))
        raise InvalidArgument(
            f"{kind!r} adds one bias to the logits of all layers, and {type(encoding).__name__} acts on {what}: choose "
            "one that biases logits, such as alibi, t5 or kerple"
        )

    def bias(queries: int, keys: int, causal: bool, like: Tensor) -> Tensor:
        place = torch.arange(keys, device=like.device)
        past = keys - queries
        at = Positions(place[past:], place, causal=causal, aligned=causal, target_length=target_length)
        found = prepare(encoding, at).bias
        if found is None:
            return like.new_zeros(1, model_heads(model), queries, keys)
        dense = found.dense()
        return (dense[None] if dense.dim() == 3 else dense).to(like.dtype)  # [1, heads, queries, keys]

    if kind == "t5":
        return _t5(model, encoding, bias)
    undo: list[Callable[[], None]] = []
    name, argument = ("self_attention", "alibi") if kind == "bloom" else ("attn", "position_bias")

    def before(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        hidden = args[0] if args else kwargs["hidden_states"]
        cache = kwargs.get("layer_past") if kwargs.get("layer_past") is not None else kwargs.get("cache")
        past = 0 if cache is None else int(cache.get_seq_length(module.layer_idx))
        dense = bias(hidden.shape[1], past + hidden.shape[1], True, hidden)
        made = dense.expand(hidden.shape[0], -1, -1, -1).flatten(0, 1) if kind == "bloom" else dense[0]
        return args, {**kwargs, argument: made}

    for where, module in model.named_modules():
        if where.split(".")[-1] == name:
            hook = Hook(_only_keywords(before, argument))
            undo.append(module.register_forward_pre_hook(hook, with_kwargs=True).remove)
    return undo


def model_heads(model: Any) -> int:
    """Number of heads, by the name that each of these configs has for it."""
    config = model.config
    return int(getattr(config, "num_heads", None) or getattr(config, "n_heads", None) or config.n_head)


def _only_keywords(before: Callable[..., Any], argument: str) -> Callable[..., Any]:
    """Refuse what a later version might do: hand the bias over by place, where it would be given twice."""

    def hook(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        if argument not in kwargs:
            raise InvalidArgument(f"this version of transformers hands {argument} over in another way: not supported")
        return before(module, args, kwargs)

    return hook


def _t5(model: Any, encoding: nn.Module, bias: Callable[[int, int, bool, Tensor], Tensor]) -> list[Callable[[], None]]:
    """The encoder has one bias and the decoder another: an encoding for causal attention goes to the decoder alone."""
    undo: list[Callable[[], None]] = []
    made_for = direction(encoding)
    for module in [one for one in model.modules() if getattr(one, "has_relative_attention_bias", False)]:
        causal = bool(module.is_decoder)
        if made_for != "any" and causal != (made_for == "causal"):
            continue

        def compute(own: Any, queries: int, keys: int, device: Any = None, past_seen_tokens: int = 0) -> Tensor:
            return bias(queries, keys, bool(own.is_decoder), own.relative_attention_bias.weight)

        module.compute_bias = Hook(compute, module)
        undo.append(lambda module=module: delattr(module, "compute_bias"))
    if not undo:
        raise InvalidArgument(
            f"{type(encoding).__name__} is made for {made_for} attention, and this part of T5 has none of that kind"
        )
    return undo
