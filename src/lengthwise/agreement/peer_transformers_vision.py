"""Positions of images in `transformers`: rotations, window biases and the table of MAE."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import Where, added, bias, embeddings, encoding, rotated
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import Place, grid
from lengthwise.positions import Positions

ROWS, COLUMNS = 6, 8


def _on_grid(start: int = 0, rows: int = ROWS, columns: int = COLUMNS) -> Positions:
    points = grid(rows, columns, start)
    return Positions(points, points, causal=False)


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


def _log_cpb(place: Place) -> Tensor:
    theirs = model("swinv2").Swinv2SelfAttention(module("transformers").Swinv2Config(), 64, 4, (ROWS, COLUMNS))
    first, _, last = theirs.continuous_position_bias_mlp
    ours = encoding(_LOG_CPB)
    for weight, own in (
        (first.weight, ours.hidden_weight),
        (first.bias, ours.hidden_bias),
        (last.weight, ours.head_weight),
    ):
        weight.copy_(own)
    theirs = theirs.to(place.dtype)
    table = theirs.continuous_position_bias_mlp(theirs.relative_coords_table).view(-1, 4)
    found = 16 * torch.sigmoid(table[theirs.relative_position_index.view(-1)])
    return found.view(ROWS * COLUMNS, ROWS * COLUMNS, 4).permute(2, 0, 1)


def _bias(spec: str, rows: int = ROWS, columns: int = COLUMNS) -> Make:
    return lambda place: bias(encoding(spec).to(place.dtype), _on_grid(0, rows, columns))


_SWIN = f"swin(window=({ROWS}, {COLUMNS}), init_std=1)"


def _swin_table(place: Place) -> Tensor:
    theirs = model("swin").SwinRelativePositionBias(4, (ROWS, COLUMNS))
    theirs.relative_position_bias_table.data.copy_(encoding(_SWIN).table)
    return theirs.to(place.dtype)()[0]


def _beit(rows: int, columns: int) -> Make:
    def made(place: Place) -> Tensor:
        config = module("transformers").BeitConfig(
            hidden_size=64, num_attention_heads=4, image_size=(rows * 16, columns * 16), patch_size=16
        )
        theirs = model("beit").BeitRelativePositionBias(config)
        theirs.relative_position_bias_table.data[:-3] = encoding(f"swin(window=({rows}, {columns}), init_std=1)").table
        found = theirs.to(place.dtype)((rows, columns))
        return found.view(4, rows * columns + 1, -1)[:, 1:, 1:]  # without the class token

    return made


def _mae(place: Place) -> Tensor:
    table = model("vit_mae").build_2d_sinusoidal_position_embedding(ROWS, COLUMNS, 64)
    return embeddings(place, 64, ROWS * COLUMNS) + table.to(place.dtype)[None]


def _table(spec: str) -> Make:
    return added(spec, where=lambda _: _on_grid())


def _compared(spec: str, part: str, what: str, ours: Make, theirs: Make, why: str = "") -> Comparison:
    return Comparison(spec, "transformers", part, what, ours, theirs, starts=(0,), why=why)


def _turned(spec: str, part: str, theirs: Make, where: Where = lambda _: _on_grid()) -> Comparison:
    return _compared(spec, part, "rotated q and k", rotated(spec, where), theirs)


_LOG_CPB = f"log_cpb(window=({ROWS}, {COLUMNS}))"
_BEIT = (
    "BEiT's table of offsets has 2 rows - 1 by 2 columns - 1 entries, and `transformers` reshapes it the other "
    "way round before it resizes it, at the table's own size too. Where rows and columns differ, entries of "
    "different offsets are mixed: for one and the same table the bias of patches differs by {float32} from the "
    "entry of each pair's offset, which is what Swin's eq. 4 says. A square window is not touched."
)
_MAE = (
    "`transformers` puts the row into the first half of the width; the table of the authors' code "
    "(`facebookresearch/mae`), which our default repeats, has the column there, though that code names its first "
    'half "h". The tables differ by {float32}. A checkpoint brings its own table, so that only a model that is '
    "trained anew is affected; `first='row'` gives the table of `transformers`."
)

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
    _compared(f"swin(window=({ROWS}, {COLUMNS}))", "Swin", "bias", _bias(_SWIN), _swin_table),
    _compared(
        "swin(window=(6, 6))", "BEiT, square", "bias", _bias("swin(window=(6, 6), init_std=1)", 6, 6), _beit(6, 6)
    ),
    _compared(
        f"swin(window=({ROWS}, {COLUMNS}))", "BEiT, not square", "bias", _bias(_SWIN), _beit(ROWS, COLUMNS), _BEIT
    ),
    _compared(_LOG_CPB, "Swin v2", "bias", _bias(_LOG_CPB), _log_cpb),
    _compared("sinusoidal2d(first='row')", "MAE", "embeddings", _table("sinusoidal2d(first='row')"), _mae),
    _compared("sinusoidal2d", "MAE", "embeddings", _table("sinusoidal2d"), _mae, _MAE),
)
