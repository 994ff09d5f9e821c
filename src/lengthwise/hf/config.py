"""`encoding_from_config`: the positional encoding that a config of `transformers` describes."""

from __future__ import annotations

import json
import math
from typing import Any

from torch import nn

from lengthwise.compose import Combined, PerLayer
from lengthwise.encodings.alibi import ALiBi
from lengthwise.encodings.learned import Learned
from lengthwise.encodings.mrope import MRoPE
from lengthwise.encodings.none import NoPE
from lengthwise.encodings.rotary import Rotary
from lengthwise.encodings.t5 import T5Bias
from lengthwise.encodings.temperature import QueryTemperature
from lengthwise.errors import InvalidArgument, LengthwiseError
from lengthwise.extension.extend import extend
from lengthwise.extension.interpolate import Interpolate
from lengthwise.extension.proportional import Proportional
from lengthwise.extension.yarn import YaRN
from lengthwise.hf import families, sizes
from lengthwise.hf.layers import Layer, of_layers
from lengthwise.hf.load import text_config
from lengthwise.hf.rope import Lengths, check_axes, note, read_method
from lengthwise.rotation import Layout

Config = sizes.Config


def encoding_from_config(config: Any, *, bidirectional: bool | None = None, text_only: bool = False) -> nn.Module:
    """Build the positional encoding of a model from its config.

    Rotary models give `Rotary` with the extension that their rope settings ask for, `MRoPE`, and `PerLayer` where
    layers differ; others `ALiBi`, `T5Bias`, `Learned` or `NoPE`. Learned tables are drawn anew: weights are no part of
    a config. Of multi-head latent attention (DeepSeek) the encoding is that of the part of a head that has positions.
    A layer without attention has some encoding that nobody asks.

    Args:
        config: a dict, a JSON file, a folder, or a config of `transformers` 4 or 5. One with a `text_config` is read
            there. A dict is taken as it is, a folder read by `transformers`, which fills in what its class has.
        bidirectional: of T5 and its kin, whether the bias of the encoder or of the decoder is meant.
        text_only: read M-RoPE as RoPE, which it is for text; positions of one axis, and extensions, become possible.

    Raises:
        InvalidArgument: an unknown or missing model type, rope type or key, with the nearest that are known.
        DataError: a file that can't be read.

    Warns:
        ConfigNote: what a config leaves to the class of its model, and what no encoding holds.

    Example:
        >>> config = {"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0,
        ...           "rope_scaling": {"rope_type": "linear", "factor": 4.0}}
        >>> encoding_from_config(config)
        Rotary(head_dim=128, base=500000, fraction=1, layout='half') + Interpolate(factor=4)
    """
    flat = text_config(config)
    sizes.check_kinds(flat)
    check_axes(flat.get("rope_parameters"))
    name = families.check(flat.get("model_type"))
    if name in families.T5:
        if bidirectional is None:
            raise InvalidArgument(f"{name!r} has two: bidirectional=True is that of the encoder, False of the decoder")
        buckets, farthest = flat.get("relative_attention_num_buckets"), flat.get("relative_attention_max_distance")
        if farthest is None:
            note("relative_attention_max_distance is not given: 128 was taken, as before it was a setting")
        if buckets is None:
            raise InvalidArgument(f"a config of {name!r} needs relative_attention_num_buckets")
        return T5Bias(sizes.need(flat, "heads"), buckets, farthest or 128, bidirectional=bidirectional)
    if bidirectional is not None:
        raise InvalidArgument(f"{name!r} has one encoding, whether bidirectional or not: leave the argument away")
    try:
        return _of(flat, name, text_only)
    except LengthwiseError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise InvalidArgument(
            f"this config of {name!r} holds a value of a kind that its key can't have, or too few in a list: "
            f"{type(error).__name__}: {str(error).splitlines()[0]}"
        ) from error


def first_row(config: Any) -> int:
    """The row of position 0 in the learned table of a model: 2 for OPT and BART, 0 for most.

    Example:
        >>> first_row({"model_type": "opt"}), first_row({"model_type": "roberta", "pad_token_id": 1})
        (2, 2)
    """
    flat = text_config(config)
    name = families.check(flat.get("model_type"))
    if name in families.AFTER_PADDING:
        padding = flat.get("pad_token_id")
        if padding is None:
            raise InvalidArgument(f"{name!r} begins its table behind the padding token: the config needs pad_token_id")
        return int(padding) + 1
    if name not in families.FIRST_ROW:
        raise InvalidArgument(f"{name!r} has no learned table of positions")
    return families.FIRST_ROW[name]


def _of(config: Config, name: str, text_only: bool) -> nn.Module:
    mpt = config.get("attn_config") or {}
    if name in families.ALIBI or (name == "mpt" and mpt.get("alibi", True)):
        return ALiBi(sizes.need(config, "heads"), float(mpt.get("alibi_bias_max", 8)))
    if name == "falcon" and config.get("alibi"):
        # Its model divides the bias by sqrt(head_dim), as if it stood before the scale: the same as wider distances.
        return extend(ALiBi(sizes.need(config, "heads")), Interpolate(math.sqrt(sizes.head_dim(config))))
    if name in families.NONE or (name == "mpt" and config.get("learned_pos_emb") is False):
        return NoPE()
    if name == "distilbert" and config.get("sinusoidal_pos_embds"):
        raise InvalidArgument("this DistilBERT has a table of sinusoids: build lengthwise.Sinusoidal by hand")
    rotates = name != "esm" or config.get("position_embedding_type") == "rotary"
    if name in families.FIRST_ROW or (name in families.AFTER_PADDING and not (name == "esm" and rotates)):
        # OPT and BART make their tables two rows longer than the config says; RoBERTa's rows count all.
        skipped = first_row(config) if name in families.AFTER_PADDING else 0
        width = config.get("embedding_size") or sizes.need(config, "dim")  # ALBERT and ELECTRA project afterwards
        return Learned(width, sizes.need(config, "max_length") - skipped)
    if name == "esm":
        config = {key: value for key, value in config.items() if key != "position_embedding_type"}
    made: dict[str, nn.Module] = {}
    layers: list[nn.Module] = []
    for layer in of_layers(config, name):
        key = json.dumps([layer.settings, layer.head_dim], sort_keys=True)
        if key not in made:
            made[key] = _of_layer(config, name, layer, text_only)
        layers.append(made[key])
    return layers[0] if len(made) == 1 else PerLayer(layers)


def _of_layer(config: Config, name: str, layer: Layer, text_only: bool) -> nn.Module:
    settings = layer.settings
    if settings is None:
        if name == "llama4_text" and config.get("attn_temperature_tuning"):
            return QueryTemperature(int(config["floor_scale"]), float(config["attn_scale"]), offset=1)
        return NoPE()
    base = _base(config, settings, name)
    lengths = Lengths(sizes.lookup(config, "max_length"), config.get("original_max_position_embeddings"))
    method = read_method(settings, lengths)
    part = 1.0 if isinstance(method, Proportional) else _fraction(config, settings, layer.head_dim, name)
    sections = settings.get("mrope_section")
    if (sections or name in families.SECTIONS or name in families.OTHER_AXES) and not text_only:
        reason = families.OTHER_AXES.get(name)
        pairs, turned = sum(sections or families.SECTIONS[name][0]) if reason is None else 0, int(layer.head_dim * part)
        if reason is None and 2 * pairs != turned:
            reason = f"its sections are for {pairs} pairs of dims, and a head has {turned // 2}"
        if reason:
            raise InvalidArgument(
                f"no M-RoPE of this package is that of {name!r} ({reason}): text_only=True makes it RoPE"
            )
        encoding: nn.Module = _mrope(settings, name, layer.head_dim, base, _layout(config, name), part)
    else:
        encoding = Rotary(layer.head_dim, base, part, _layout(config, name))
    if method is not None:
        encoding = extend(encoding, method)
    if name in families.SCALED_SOFTMAX and isinstance(method, YaRN) and method.softmax_multiplier != 1:
        note(
            f"the model multiplies its softmax scale by {method.softmax_multiplier:.6g} (mscale_all_dim), which is no "
            "part of the encoding: multiply the scale of attention by it"
        )
    return _with_temperature(encoding, config, settings)


def _with_temperature(encoding: nn.Module, config: Config, settings: Config) -> nn.Module:
    growth = settings.get("llama_4_scaling_beta")
    if not growth:
        return encoding
    span = settings.get("original_max_position_embeddings")
    if span is None:
        raise InvalidArgument("llama_4_scaling_beta needs original_max_position_embeddings beside it")
    temperature = QueryTemperature(int(span), float(growth), offset=0)
    if config.get("qk_rope_head_dim"):
        note(f"the model multiplies whole queries as {temperature} does, their part without positions too: left out")
        return encoding
    return Combined(encoding, temperature)


def _mrope(settings: Config, name: str, head_dim: int, base: float, layout: Layout, part: float) -> nn.Module:
    sections, by_turns = settings.get("mrope_section"), settings.get("mrope_interleaved")
    known = families.SECTIONS.get(name)
    if known is not None and by_turns is not None and bool(by_turns) != known[1]:
        raise InvalidArgument(f"mrope_interleaved is {by_turns}, and the model code of {name!r} has it {known[1]}")
    if sections is None and known is not None:
        sections = known[0]
        note(f"mrope_section is not given: {sections} was taken, as the code of {name!r} does")
    return MRoPE(head_dim, sections, base, known[1] if known is not None else bool(by_turns), layout, part)


def _base(config: Config, settings: Config, name: str) -> float:
    given = settings.get("rope_theta") or sizes.lookup(config, "theta")
    if given is not None:
        return float(given)
    base = families.THETA.get(name, 10000.0)
    if name not in families.FIXED_THETA:
        note(f"rope_theta is not given: {base:g} was taken, the default of {name!r} in transformers")
    return base


def _fraction(config: Config, settings: Config, width: int, name: str) -> float:
    part = sizes.fraction(config, settings, width, name)
    if part is None:
        part = families.FRACTION[name]
        note(f"partial_rotary_factor is not given: {part:g} was taken, the default of {name!r} in transformers")
    return part


def _layout(config: Config, name: str) -> Layout:
    flag = config.get("rope_interleave")
    if flag is not None:
        return "interleaved" if flag else "half"
    return "interleaved" if name in families.INTERLEAVED else "half"
