"""Rotations of `transformers`: the layouts of text models, and M-RoPE."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from lengthwise.agreement import exact
from lengthwise.agreement.comparison import TOLERANCE, Comparison, Make
from lengthwise.agreement.ours import rotated
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import Place
from lengthwise.positions import Positions

FAR_ANGLES = (
    "Frequencies and angles are float32: at position 2^20 the second pair turns by some 800,000 radians, which "
    "are known to steps of 1/16 only. At far positions q and k are therefore turned by other angles than eq. 15 "
    "of the paper says: they differ from ours by {far32} in float32. From the formula in float64 theirs is then "
    "off by {theirs_far32}, ours, which forms angles in float64, by {ours_far32}. At positions 0 to 127 the two "
    "differ by {float32}."
)


def _llama(place: Place, fraction: float = 1.0, name: str = "Llama", cast: bool = False) -> Tensor:
    lower = {"GPTNeoX": "gpt_neox"}.get(name, name.lower())
    config = getattr(module("transformers"), f"{name}Config")(
        hidden_size=256,
        num_attention_heads=4,
        num_key_value_heads=4,
        num_hidden_layers=1,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": fraction},
    )
    made = model(lower)
    rotary = getattr(made, f"{name}RotaryEmbedding")(config)
    q, k = place.queries_and_keys()
    cos, sin = (rotary.to(place.dtype) if cast else rotary)(q, place.index[None])
    return torch.stack(made.apply_rotary_pos_emb(q, k, cos, sin))


def _llama4(place: Place) -> Tensor:
    config = module("transformers").Llama4TextConfig(
        hidden_size=256, num_attention_heads=4, head_dim=64, rope_parameters={"rope_type": "default", "rope_theta": 1e4}
    )
    q, k = (x.transpose(1, 2) for x in place.queries_and_keys())
    turns = model("llama4").Llama4TextRotaryEmbedding(config)(q, place.index[None])
    return torch.stack(model("llama4").apply_rotary_emb(q, k, turns)).transpose(2, 3)


def _gptj(place: Place) -> Tensor:
    made = model("gptj")
    config = module("transformers").GPTJConfig(n_embd=64, n_head=4, rotary_dim=16, n_positions=place.start + 128)
    sin, cos = made.GPTJRotaryEmbedding(config)(place.draw(1), place.index[None])
    q, k = place.queries_and_keys(head_dim=16)
    turned = [made.apply_rotary_pos_emb(x.transpose(1, 2), sin, cos).transpose(1, 2) for x in (q, k)]
    return torch.stack(turned)


def _points(place: Place) -> Tensor:
    """Time, row and column of tokens, `[1, length, 3]`: no two of them alike."""
    index = place.index
    return torch.stack((index, index // 2 + 3, index // 3 + 5), -1)[None]


def _at_points(place: Place) -> Positions:
    points = _points(place)
    return Positions(points, points)


def _qwen(name: str, config: str, sections: list[int]) -> Make:
    def made(place: Place) -> Tensor:
        settings = module("transformers")
        settings = getattr(settings, config)(
            hidden_size=256,
            num_attention_heads=4,
            head_dim=64,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0, "mrope_section": sections},
        )
        lower = {"Qwen2VL": "qwen2_vl", "Qwen3VLText": "qwen3_vl"}[name]
        rotary = getattr(model(lower), f"{name}RotaryEmbedding")(settings)
        q, k = place.queries_and_keys()
        cos, sin = rotary(q, _points(place).permute(2, 0, 1))
        return torch.stack(model("llama").apply_rotary_pos_emb(q, k, cos, sin))

    return made


def _rotary(
    spec: str,
    part: str,
    theirs: Make,
    by_paper: Make,
    why: str = FAR_ANGLES,
    dtypes: Sequence[torch.dtype] = tuple(TOLERANCE),
) -> Comparison:
    ours = rotated(spec)
    return Comparison(spec, "transformers", part, "rotated q and k", ours, theirs, by_paper, dtypes, why=why)


def _mrope(spec: str, part: str, theirs: Make) -> Comparison:
    return Comparison(spec, "transformers", part, "rotated q and k", rotated(spec, _at_points), theirs, why=_MROPE)


_MROPE = (
    "As for RoPE, frequencies and angles are float32: q and k differ from ours by {far32} at positions 65,536 and "
    "beyond, and by {float32} at 0 to 127. The frequencies, and the coordinate that each pair reads, are the "
    "same."
)
_CAST = (
    "`.to(torch.bfloat16)` also casts the frequencies, which are a buffer of the module: they are then known to 3 "
    "digits, and the error of an angle grows with the position. q and k differ from ours by {bfloat16} at "
    "positions 0 to 127 and by {far16} at far ones; from the paper's formula theirs is off by {theirs_bfloat16} "
    "at 0 to 127, ours by {ours_bfloat16}. A model that is loaded with `dtype=torch.bfloat16` keeps its "
    "frequencies in float32: the row of Llama is of that."
)

COMPARISONS = (
    _rotary("rotary", "Llama", _llama, exact.rotary()),
    _rotary(
        "rotary",
        "Llama, .to(bfloat16)",
        lambda place: _llama(place, cast=True),
        exact.rotary(),
        _CAST,
        dtypes=(torch.bfloat16,),
    ),
    _rotary(
        "rotary(fraction=0.25)",
        "GPT-NeoX",
        lambda place: _llama(place, 0.25, "GPTNeoX"),
        exact.rotary(dim=16),
    ),
    _rotary(
        "rotary(layout='interleaved')",
        "Cohere",
        lambda place: _llama(place, 1.0, "Cohere"),
        exact.rotary(interleaved=True),
    ),
    _rotary("rotary(layout='interleaved')", "Llama 4", _llama4, exact.rotary(interleaved=True)),
    Comparison(
        "rotary(head_dim=16, layout='interleaved')",
        "transformers",
        "GPT-J",
        "rotated q and k",
        rotated("rotary(head_dim=16, layout='interleaved')", head_dim=16),
        _gptj,
        exact.rotary(dim=16, interleaved=True, head_dim=16),
        starts=(0, 65536),  # it holds a table of all positions
        why=FAR_ANGLES,
    ),
    _mrope("mrope(sections=(8, 12, 12))", "Qwen2-VL", _qwen("Qwen2VL", "Qwen2VLTextConfig", [8, 12, 12])),
    _mrope(
        "mrope(sections=(12, 10, 10), interleaved=True)",
        "Qwen3-VL",
        _qwen("Qwen3VLText", "Qwen3VLTextConfig", [12, 10, 10]),
    ),
)
