"""The sizes of a model, by the names that configs have for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from lengthwise.dims import Dims
from lengthwise.errors import InvalidArgument
from lengthwise.hf.families import FRACTION, IGNORES_ROTARY_DIM, check
from lengthwise.hf.load import text_config
from lengthwise.hf.rope import note

Config = Mapping[str, Any]

_NAMES = {
    "dim": ("hidden_size", "d_model", "n_embd", "dim", "emb_dim"),
    "heads": (
        "num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads", "decoder_num_attention_heads",
        "decoder_attention_heads",
    ),
    "layers": (
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", "decoder_num_hidden_layers", "decoder_layers",
    ),
    "max_length": (
        "max_position_embeddings", "n_positions", "max_seq_len", "model_max_length", "context_length",
    ),
    "head_dim": ("head_dim", "attention_head_dim", "kv_channels", "d_kv"),
    "kv_heads": ("num_key_value_heads", "decoder_num_key_value_heads", "num_kv_heads"),
    "theta": ("rope_theta", "rotary_emb_base", "rotary_embedding_base"),
    "fraction": ("partial_rotary_factor", "rotary_pct", "rope_pct"),
}  # fmt: skip


def lookup(config: Config, size: str) -> Any:
    """A size under any of its names, or None."""
    return next((config[name] for name in _NAMES[size] if config.get(name) is not None), None)


def need(config: Config, size: str) -> Any:
    """A size under any of its names.

    Raises:
        InvalidArgument: the config has none of them.
    """
    found = lookup(config, size)
    if found is None:
        raise InvalidArgument(
            f"the config says no {size}: it needs {_NAMES[size][0]}. A JSON file may hold only what differs from the "
            "class of the model; a folder or a config of transformers has all"
        )
    return found


_MAPPINGS = ("rope_scaling", "rope_parameters", "attn_config", "per_layer_config")
_LISTS = ("layer_types", "no_rope_layers", "layer_rope_theta", "rope_scaling_layers", "mlp_layer_types")


def check_kinds(config: Config) -> None:
    """Raise `InvalidArgument` for a value that is of another kind than its key, such as a word for a number."""
    for size in ("dim", "heads", "layers", "max_length", "head_dim", "theta", "fraction"):
        for name in _NAMES[size]:
            value, whole = config.get(name), size not in ("theta", "fraction")
            if value is None or _number(value, whole):
                continue
            raise InvalidArgument(f"{name} must be {'a whole number above 0' if whole else 'a number'}, not {value!r}")
    for name in ("qk_rope_head_dim", "rotary_dim"):
        if config.get(name) is not None and not _number(config[name], True):
            raise InvalidArgument(f"{name} must be a whole number above 0, not {config[name]!r}")
    for names, kind, said in ((_MAPPINGS, Mapping, "a dictionary"), (_LISTS, Sequence, "a list")):
        for name in names:
            value: Any = config.get(name)
            if value and (not isinstance(value, kind) or isinstance(value, str | bytes)):
                raise InvalidArgument(f"{name} must be {said}, not {value!r}")
    for size, most in (("layers", 100_000), ("dim", 2**31), ("heads", 2**31), ("head_dim", 2**31)):
        if (lookup(config, size) or 0) > most:
            raise InvalidArgument(f"{_NAMES[size][0]} of {lookup(config, size)} is more than any model has")


def _number(value: Any, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and (not whole or (value > 0 and value == int(value)))


def head_dim(config: Config) -> int:
    """Width of what is rotated as one head; of multi-head latent attention, the part that has positions."""
    latent = config.get("qk_rope_head_dim")
    given = latent or lookup(config, "head_dim")
    if given is not None:
        return int(given)
    dim, heads = int(need(config, "dim")), int(need(config, "heads"))
    if dim % heads:
        note(f"{heads} heads do not divide the width {dim}, and there is no head_dim: {dim // heads} was taken")
    return dim // heads


def fraction(config: Config, settings: Config, width: int, model_type: str) -> float | None:
    """The part of a head of `width` dims that is rotated, None where neither config nor rope settings say it."""
    if config.get("qk_rope_head_dim"):
        return 1.0  # partial_rotary_factor then speaks of the head with its part without positions
    dims = config.get("rotary_dim") if model_type not in IGNORES_ROTARY_DIM else None
    if settings.get("partial_rotary_factor") is not None:
        return float(settings["partial_rotary_factor"])
    if dims is not None:
        return _of(int(dims), width)
    given = lookup(config, "fraction")
    if given is not None:
        return float(given)
    return None if model_type in FRACTION else 1.0


def dims_from_config(config: Any) -> Dims:
    """Sizes of the model of a config, for `lengthwise.build`.

    `head_dim` is what is rotated as one head: of multi-head latent attention (DeepSeek) the part with positions.

    Args:
        config: as in `encoding_from_config`.

    Raises:
        InvalidArgument: a config that does not say its sizes.

    Example:
        >>> config = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        ...           "max_position_embeddings": 2048}
        >>> dims_from_config(config)
        Dims(dim=64, heads=4, head_dim=16, layers=2, max_length=2048, kv_heads=4, trained_length=2048)
    """
    flat = text_config(config)
    check_kinds(flat)
    check(flat.get("model_type"))
    heads = need(flat, "heads")
    inner = flat.get("attn_config") or {}
    shared = 1 if flat.get("multi_query") and not flat.get("new_decoder_architecture") else None
    kv_heads = shared or lookup(flat, "kv_heads") or inner.get("kv_n_heads") or heads
    rope = flat.get("rope_parameters") or flat.get("rope_scaling") or {}
    trained = flat.get("original_max_position_embeddings") or rope.get("original_max_position_embeddings")
    longest = need(flat, "max_length")
    dim = need(flat, "dim")
    latent = bool(flat.get("qk_rope_head_dim"))
    return Dims(
        dim=int(dim),
        heads=int(heads),
        head_dim=head_dim(flat),
        layers=int(need(flat, "layers")),
        max_length=int(longest),
        kv_heads=int(heads if latent else kv_heads),
        trained_length=int(trained or longest),
    )


def _of(dims: int, width: int) -> float:
    """A fraction whose product with the width is `dims` after rounding down."""
    return min((dims + 0.5) / width, 1.0) if int(width * (dims / width)) != dims else dims / width
