"""Small models of `transformers` with random weights, made without any file."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor, nn

import lengthwise as lw

VOCABULARY = 48

KINDS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    "qwen3": {"head_dim": 8},
    "mistral": {"sliding_window": 4},
    "gemma2": {"head_dim": 8, "sliding_window": 5, "query_pre_attn_scalar": 8, "attn_implementation": "eager"},
    "gemma3_text": {"head_dim": 8, "sliding_window": 5},
    "smollm3": {"no_rope_layers": [1, 0, 1]},
    "phi3": {},
    "phi": {},
    "gpt_neox": {},
}


def make(kind: str, **settings: Any) -> Any:
    """A causal model with a vocabulary of 48, width 32, three layers, and weights large enough to matter."""
    common = {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config = transformers.AutoConfig.for_model(kind, **{**common, **KINDS.get(kind, {}), **settings})
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    randomize(model)
    return model


def randomize(model: nn.Module) -> None:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3, generator=generator)


def own_encoding(model: Any) -> nn.Module:
    """What the config of one of these models says, read here by hand."""
    config = model.config
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    if "full_attention" in rope:
        made = {kind: lw.Rotary(width, base=settings["rope_theta"]) for kind, settings in rope.items()}
        return lw.PerLayer([made[kind] for kind in config.layer_types])
    rotary = lw.Rotary(width, base=rope["rope_theta"], fraction=rope.get("partial_rotary_factor", 1.0))
    if config.model_type == "smollm3":
        return lw.PerLayer([rotary if turns else lw.NoPE() for turns in config.no_rope_layers])
    return rotary


def tokens(rows: int = 2, length: int = 12) -> Tensor:
    return torch.randint(3, VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


def mask(rows: int = 2, length: int = 12, left: int = 0, right: int = 0) -> Tensor:
    """The first row is padded."""
    made = torch.ones(rows, length, dtype=torch.long)
    made[0, :left] = 0
    made[0, length - right :] = 0
    return made
