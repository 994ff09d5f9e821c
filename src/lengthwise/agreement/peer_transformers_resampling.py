"""Tables of image models of `transformers`, resampled for another grid of patches."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import lengthwise.agreement.ours as our
from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import Place
from lengthwise.extension.extend import extend

ROWS, TO, PATCH, DIM = 8, (12, 10), 4, 32
_TRAINED = f"learned(dim={DIM}, max_length={1 + ROWS * ROWS})"
_SPEC = f"{_TRAINED} + resample_grid(rows={ROWS}, to={TO}, prefix=1)"
_RESAMPLED = (
    "The surface is the same, cubic and without corners, and sampled in the dtype of the table: ours is sampled in "
    "float64 and cast once. The tables differ by {bfloat16} in bfloat16 and by {float32} in float32."
)


def _table(place: Place) -> Tensor:
    """Of a class token and a square of patches, `[65, dim]`."""
    return place.draw(1 + ROWS * ROWS, DIM, seed=4)


def _ours(place: Place) -> Tensor:
    trained = our.encoding(_TRAINED).with_table(_table(place))
    extended: Any = extend(trained, our.encoding(_SPEC).method)
    return extended.table


def _theirs(name: str, made: str) -> Make:
    def resampled(place: Place) -> Tensor:
        config = getattr(module("transformers"), f"{made}Config")(
            hidden_size=DIM, num_attention_heads=4, image_size=ROWS * PATCH, patch_size=PATCH
        )
        embeddings = getattr(model(name), f"{made}Embeddings")(config).to(place.dtype)
        embeddings.position_embeddings.copy_(_table(place)[None])
        patches = torch.zeros(1, 1 + TO[0] * TO[1], DIM, dtype=place.dtype)
        return embeddings.interpolate_pos_encoding(patches, TO[0] * PATCH, TO[1] * PATCH)[0]

    return resampled


def _row(part: str, name: str, made: str) -> Comparison:
    theirs = _theirs(name, made)
    return Comparison(_SPEC, "transformers", part, "resampled table", _ours, theirs, starts=(0,), why=_RESAMPLED)


COMPARISONS = (_row("ViT", "vit", "ViT"), _row("DINOv2", "dinov2", "Dinov2"))
