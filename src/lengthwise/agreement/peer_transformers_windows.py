"""Windows of patches in `transformers`: the biases of Swin, BEiT and Swin v2, and the table of MAE."""

from __future__ import annotations

import torch
from torch import Tensor

from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import added, bias, embeddings, encoding
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import COLUMNS, ROWS, Place, on_grid

_SWIN = f"swin(window=({ROWS}, {COLUMNS}), init_std=1)"
_LOG_CPB = f"log_cpb(window=({ROWS}, {COLUMNS}))"


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
    return lambda place: bias(encoding(spec).to(place.dtype), on_grid(0, rows, columns))


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
    return added(spec, where=lambda _: on_grid())


def _compared(spec: str, part: str, what: str, ours: Make, theirs: Make, why: str = "") -> Comparison:
    return Comparison(spec, "transformers", part, what, ours, theirs, starts=(0,), why=why)


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
