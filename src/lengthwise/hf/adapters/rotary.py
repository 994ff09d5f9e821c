"""Models that rotate queries and keys by cosines and sines which one module makes for all layers.

Llama, Qwen, Mistral, Gemma, SmolLM3, Phi-3, GPT-NeoX and their kin: `rotary_emb` of the decoder yields
`position_embeddings`, each layer's attention turns by them, stores its keys in the cache, and calls an attention
function by name.
"""

from __future__ import annotations

import copy
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.compose import PerLayer
from lengthwise.errors import InvalidArgument
from lengthwise.hf.adapters.attention import NAME
from lengthwise.hf.adapters.hooks import Hook
from lengthwise.hf.adapters.places import Forward, draws
from lengthwise.positions import Positions
from lengthwise.prepared import prepare
from lengthwise.rotation import Rotation
from lengthwise.sites import cached_keys, sites

FAMILIES = (
    *("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "gemma", "gemma2", "gemma3_text"),
    *("gemma3", "smollm3", "phi", "phi3", "gpt_neox", "olmo", "olmo2", "granite", "stablelm", "starcoder2"),
)
"""`model_type` of the configs that this file serves."""


class _Places(tuple[Tensor, Tensor]):
    """Cosines and sines of no rotation, which carry the forward pass to the layers."""

    forward: Forward


class _Recorder(nn.Module):
    """Stands where the model's own rotary module stood: it makes no rotation, it tells the layers where tokens are."""

    def __init__(self, start: Callable[[Tensor], Forward], width: int) -> None:
        super().__init__()
        self.start, self.width = start, width

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> _Places:
        """Cosines 1 and sines 0, of the dtype of `x`."""
        places = _Places((x.new_ones(1, 1, self.width), x.new_zeros(1, 1, self.width)))
        places.forward = self.start(position_ids)
        return places


def swap(model: Any, encoding: nn.Module, target_length: int | None, raw: bool) -> list[Callable[[], None]]:
    """Give every layer its encoding; returns what undoes it, last first."""
    decoder = _decoder(model)
    layers = [_attention_of(layer) for layer in decoder.layers]
    if isinstance(encoding, PerLayer) and len(encoding) != len(layers):
        raise InvalidArgument(f"PerLayer holds {len(encoding)} encodings, and the model has {len(layers)} layers")
    each = [encoding[at] for at in range(len(layers))] if isinstance(encoding, PerLayer) else [encoding] * len(layers)
    width = int(getattr(layers[0], "head_dim", 0) or layers[0].head_size)
    for one in dict.fromkeys(each):
        _check(one)
    raw = raw or not all(_turns(one, layers[0], width, target_length) for one in dict.fromkeys(each))
    if raw and (getattr(decoder.config, "use_bidirectional_attention", False) or not _causal(decoder.config)):
        raise InvalidArgument(
            "this model sees later tokens, and an encoding that runs in this package's attention is applied to causal "
            "models only: choose one that turns queries and keys as the model does"
        )
    undo: list[Callable[[], None]] = []

    def put(module: Any, name: str, value: Any) -> None:
        old = getattr(module, name)
        setattr(module, name, value)
        undo.append(lambda: setattr(module, name, old))

    passes = threading.local()  # one model may serve several threads
    random = any(map(draws, dict.fromkeys(each)))

    def start(position_ids: Tensor) -> Forward:
        # A model that asks once for each kind of layer is still in the same pass.
        last: Forward | None = getattr(passes, "last", None)
        if last is None or last.q is not position_ids:
            training = bool(getattr(passes, "training", decoder.training))
            # Drawn once a pass: layers that are computed again for their gradients find the same positions.
            seed = int(torch.randint(2**62, ())) if training and random else None
            last = passes.last = Forward(position_ids, training, target_length, seed)
        return last

    def begin(module: nn.Module) -> None:
        passes.last, passes.training = None, module.training

    def forget(module: nn.Module, given: tuple[Any, ...], out: Any) -> None:
        passes.last = None

    put(decoder, "rotary_emb", _Recorder(Hook(start), int(getattr(layers[0], "rotary_ndims", width))))
    if raw:
        config = copy.deepcopy(decoder.config)  # another model may share it
        config._attn_implementation_internal = NAME
        for module in [one for one in model.modules() if getattr(one, "config", None) is decoder.config]:
            put(module, "config", config)
    for attention, own in zip(layers, each, strict=True):
        if hasattr(attention, "use_rope"):
            put(attention, "use_rope", "rotation" in sites(own) and not raw)
        handle = attention.register_forward_pre_hook(Hook(_before(own, raw)), with_kwargs=True)
        undo.append(handle.remove)
    place = Hook(_place_rows(decoder.forward, begin))
    undo.append(decoder.register_forward_pre_hook(place, with_kwargs=True).remove)
    undo.append(decoder.register_forward_hook(Hook(forget)).remove)
    return undo


def _before(encoding: nn.Module, raw: bool) -> Callable[..., Any]:
    """What happens to the arguments of a layer's attention."""

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        places = kwargs["position_embeddings"]
        forward: Forward = places.forward
        if raw:
            cache = next((kwargs[name] for name in _CACHES if kwargs.get(name) is not None), None)
            forward.meet(cache, getattr(kwargs.get("attention_mask"), "padding", None))
            return args, {**kwargs, "lengthwise": (encoding, forward)}
        if "rotation" not in sites(encoding):
            return args, {**kwargs, "position_embeddings": tuple(places)}
        cos, sin = _factors(forward.rotation(encoding))
        dtype = places[0].dtype
        return args, {**kwargs, "position_embeddings": (cos.to(dtype), sin.to(dtype))}

    return hook


_CACHES = ("cache", "layer_past", "past_key_values")


def _factors(rotation: Rotation) -> tuple[Tensor, Tensor]:
    """Cosines and sines `[1 or batch, new, rotary_dim]`, in float32, as the "half" layout wants them."""
    both = (torch.cat((part, part), dim=-1) for part in (rotation.q_cos, rotation.q_sin))
    cos, sin = (part[None] if part.dim() == 2 else part for part in both)
    return cos, sin


def _place_rows(forward: Callable[..., Any], begin: Callable[[nn.Module], None]) -> Callable[..., Any]:
    """Rows of a padded batch count from their first real token, also where the caller gave no positions."""
    names = list(inspect.signature(forward).parameters)

    def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        begin(module)
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        mask = given.get("attention_mask")
        if given.get("position_ids") is None and isinstance(mask, Tensor) and mask.dim() == 2:
            tokens = given.get("input_ids") if given.get("input_ids") is not None else given.get("inputs_embeds")
            if isinstance(tokens, Tensor):
                given["position_ids"] = Positions.padded(mask.bool(), new=tokens.shape[1]).q
                return (), given
        return args, kwargs

    return hook


def _turns(encoding: nn.Module, attention: nn.Module, width: int, target_length: int | None) -> bool:
    """Whether the model's own rotation can do what the encoding says, found by doing both."""
    acts = sites(encoding)
    if not acts:
        return True
    late = cached_keys(encoding) == "rotated_at_target_length" and target_length is None
    if acts != ("rotation",) or late or cached_keys(encoding) in ("raw", "none"):
        return False
    positions = Positions(torch.arange(3, 6), torch.arange(3, 6), target_length=target_length)
    turn = prepare(encoding, positions).rotation
    if not isinstance(turn, Rotation) or turn.q_cos.dim() > 3:
        return False
    x = torch.randn(1, 1, 3, width, generator=torch.Generator().manual_seed(0))
    part = int(getattr(attention, "rotary_ndims", width))  # Phi turns this part of a head, and hands it over alone
    own = getattr(sys.modules[type(attention).__module__], "apply_rotary_pos_emb", None)
    if own is None:
        return False
    try:
        theirs = (torch.cat((one, x[..., part:]), -1) for one in own(x[..., :part], x[..., :part], *_factors(turn)))
        return all(torch.allclose(one, ours, atol=1e-5) for one, ours in zip(theirs, turn(x, x), strict=True))
    except RuntimeError:  # a part of a head only, where the model turns the whole
        return False


def _causal(config: Any) -> bool:
    return bool(getattr(config, "is_causal", True))


def _check(encoding: nn.Module) -> None:
    for site, what in (("embeddings", "acts on token embeddings"), ("hidden", "reads hidden states")):
        if site in sites(encoding):
            raise InvalidArgument(
                f"{type(encoding).__name__} {what}, and apply_to changes the attention of this model only: "
                "choose an encoding that rotates, biases or computes logits"
            )
    if getattr(encoding, "axes", 1) != 1:
        raise InvalidArgument(f"{type(encoding).__name__} reads several axes, and tokens of this model stand in a row")


def _decoder(model: Any) -> Any:
    for module in model.modules():
        if hasattr(module, "rotary_emb") and hasattr(module, "layers"):
            return module
    raise InvalidArgument(
        f"{type(model).__name__} has no decoder with `layers` and `rotary_emb`, by which apply_to knows its kind"
    )


def _attention_of(layer: Any) -> Any:
    for name in ("self_attn", "attention"):
        if hasattr(layer, name):
            return getattr(layer, name)
    raise InvalidArgument(f"{type(layer).__name__} has neither self_attn nor attention")
