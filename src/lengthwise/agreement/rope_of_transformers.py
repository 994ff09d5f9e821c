"""The rotary modules of `transformers`, as its models call them, with parameters of any `rope_type`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import rotated
from lengthwise.agreement.peers import model, module, quiet
from lengthwise.agreement.place import STARTS, Place
from lengthwise.positions import Positions

PEER = "transformers"
LENGTH, FACTOR = 4096, 16
"""Trained length and how many times longer, of most comparisons."""
ORIGINAL = "original_max_position_embeddings"
"""Name of the trained length in parameters."""
FAR = (
    "The methods are the same; as without one, frequencies and angles are float32. At far positions an angle is known "
    "to few digits: q and k differ from ours by {far32} in float32 and {far16} in bfloat16. From the formula in "
    "float64 theirs is then off by {theirs_far32} in float32, ours, which forms angles in float64, by {ours_far32}. At "
    "positions 0 to 127 the two differ by {float32} at most: powers of the base are rounded to float32, and so are "
    "angles."
)
"""Why methods that are the same differ."""


def rotary_module(rope: dict[str, Any], head_dim: int = 64) -> Any:
    """Llama's rotary module with these parameters."""
    longest = int(rope["factor"]) * rope[ORIGINAL] if ORIGINAL in rope else LENGTH
    with quiet(PEER):  # it says that it does not know the factor of proportional, and divides by it
        config = module("transformers").LlamaConfig(
            hidden_size=4 * head_dim,
            num_attention_heads=4,
            num_key_value_heads=4,
            num_hidden_layers=1,
            max_position_embeddings=longest,
            rope_parameters={"rope_theta": 10000.0, **rope},
        )
        return model("llama").LlamaRotaryEmbedding(config)


def turned(rotary: Any, place: Place, length: int = 0, head_dim: int = 64, **settings: Any) -> Tensor:
    """Queries and keys at a place of a sequence of `length` tokens, or of one that ends there."""
    q, k = place.queries_and_keys(head_dim=head_dim)
    index = place.index if not length else torch.cat((place.index, torch.tensor([length - 1])))
    cos, sin = (x[:, : place.length] for x in rotary(q, index[None], **settings))
    return torch.stack(model("llama").apply_rotary_pos_emb(q, k, cos, sin))


def typed(name: str, length: int = 0, head_dim: int = 64, **parameters: Any) -> Make:
    """Queries and keys by Llama's module of a `rope_type`."""
    return lambda place: turned(rotary_module({"rope_type": name, **parameters}, head_dim), place, length, head_dim)


def row(
    spec: str,
    part: str,
    theirs: Make,
    by_formula: Make,
    why: str = FAR,
    *,
    length: int = 0,
    head_dim: int = 64,
    starts: tuple[int, ...] = STARTS,
) -> Comparison:
    """A comparison of rotated queries and keys, in a sequence of `length` tokens where it is given."""
    ours = rotated(spec, _stated(length) if length else None, head_dim)
    return Comparison(spec, PEER, part, "rotated q and k", ours, theirs, by_formula, starts=starts, why=why)


def _stated(length: int) -> Callable[[Place], Positions]:
    """The positions in a sequence of a stated length."""
    return lambda place: place.positions.with_target(length)
