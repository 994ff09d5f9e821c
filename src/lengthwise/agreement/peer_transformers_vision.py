"""Positions of images in `transformers`: axial rotations."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import Where, rotated
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import COLUMNS, ROWS, Place, grid, on_grid
from lengthwise.positions import Positions


def _inputs(place: Place, length: int = ROWS * COLUMNS) -> tuple[Tensor, Tensor]:
    return place.queries_and_keys(length=length)


def _axial(name: str, config: str) -> Make:
    def made(place: Place) -> Tensor:
        lower = {"Qwen2VLVision": "qwen2_vl", "PixtralVision": "pixtral"}[name]
        sizes = {"embed_dim": 256, "num_heads": 4} if lower == "qwen2_vl" else {"hidden_size": 256, "head_dim": 64}
        settings = getattr(module("transformers"), config)(
            **sizes, num_attention_heads=4, rope_parameters={"rope_type": "axial", "rope_theta": 10000.0}
        )
        q, k = _inputs(place)
        cos, sin = getattr(model(lower), f"{name}RotaryEmbedding")(settings)(q, grid(ROWS, COLUMNS)[0])
        turned = model("llama").apply_rotary_pos_emb(q.float(), k.float(), cos[None].float(), sin[None].float())
        return torch.stack(turned).to(place.dtype)

    return made


def _llama4(place: Place) -> Tensor:
    config = module("transformers").Llama4VisionConfig(
        hidden_size=256,
        num_attention_heads=4,
        image_size=ROWS * 14,
        patch_size=14,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    q, k = (x.transpose(1, 2) for x in _inputs(place, ROWS * ROWS + 1))  # the class token is last
    turns = model("llama4").Llama4VisionRotaryEmbedding(config)(q)
    return torch.stack(model("llama4").vision_apply_rotary_emb(q, k, turns)).transpose(2, 3)


def _with_class_token(place: Place) -> Positions:
    points = torch.cat((grid(ROWS, ROWS, 1), torch.zeros(1, 1, 2, dtype=torch.int64)), 1)
    return Positions(points, points, causal=False)


def _dinov3(place: Place) -> Tensor:
    made = model("dinov3_vit")
    config = module("transformers").DINOv3ViTConfig(hidden_size=256, num_attention_heads=4, patch_size=16)
    cos, sin = made.DINOv3ViTRopePositionEmbedding(config).eval()(place.draw(1, 3, ROWS * 16, COLUMNS * 16))
    return torch.stack(made.apply_rotary_pos_emb(*_inputs(place), cos, sin))


def _between(place: Place) -> Positions:
    """Middles of patches, in [-1, 1]."""
    points = grid(ROWS, COLUMNS).double()
    points = 2 * (points + 0.5) / torch.tensor([ROWS, COLUMNS]).double() - 1
    return Positions(points, points, causal=False)


def _turned(spec: str, part: str, theirs: Make, where: Where = lambda _: on_grid()) -> Comparison:
    ours = rotated(spec, where)
    return Comparison(spec, "transformers", part, "rotated q and k", ours, theirs, starts=(0,))


COMPARISONS = (
    _turned(
        "axial(base=10000, order=(0, 1), layout='half')",
        "Qwen2-VL vision",
        _axial("Qwen2VLVision", "Qwen2VLVisionConfig"),
    ),
    _turned(
        "axial(base=10000, order=(0, 1), layout='half', frequencies='alternating')",
        "Pixtral",
        _axial("PixtralVision", "PixtralVisionConfig"),
    ),
    _turned("axial(base=10000, order=(1, 0))", "Llama 4 vision", _llama4, _with_class_token),
    _turned(f"axial(base=100, order=(0, 1), layout='half', scale={2 * math.pi})", "DINOv3", _dinov3, _between),
)
