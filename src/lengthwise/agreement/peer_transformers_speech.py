"""Relative positions of speech models in `transformers`: Shaw's vectors and Transformer-XL's sinusoids of distance."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import encoding
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import Place

REACH = 16


def _layer(kind: str) -> Any:
    config = module("transformers").Wav2Vec2BertConfig(
        hidden_size=256,
        num_attention_heads=4,
        position_embeddings_type=kind,
        left_max_position_embeddings=REACH,
        right_max_position_embeddings=REACH,
    )
    return model("wav2vec2_bert").Wav2Vec2BertSelfAttention(config)


def _shaw(place: Place) -> Tensor:
    layer = _layer("relative_key")
    layer.distance_embedding.weight.copy_(encoding(_SHAW).key_table)
    q, k = place.queries_and_keys()
    q, met = model("wav2vec2_bert")._apply_relative_key_position_encoding(layer.to(place.dtype), q, k)
    return q @ k.transpose(-1, -2) * layer.scaling + met


def _transformer_xl(place: Place) -> Tensor:
    layer, ours = _layer("relative"), encoding(_XL)
    layer.pos_bias_u.copy_(ours.content_bias)
    layer.pos_bias_v.copy_(ours.position_bias)
    sines, cosines = ours.weight.chunk(2, -1)  # its sinusoids are interleaved, the paper's in halves
    layer.linear_pos.weight.copy_(torch.stack((sines, cosines), -1).flatten(-2))
    config = module("transformers").Wav2Vec2ConformerConfig(hidden_size=256, max_source_positions=place.length)
    table = model("wav2vec2_conformer").Wav2Vec2ConformerRelPositionalEmbedding(config)
    q, k = place.queries_and_keys()
    distances = table(place.draw(1, place.length, 256))
    q, met = model("wav2vec2_bert")._apply_relative_position_encoding(layer.to(place.dtype), q, k, distances)
    return q @ k.transpose(-1, -2) * layer.scaling + met


def _ours(spec: str) -> Make:
    def made(place: Place) -> Tensor:
        ours = encoding(spec).to(place.dtype)
        return ours.attention_logits(*place.queries_and_keys(), place.positions, 64**-0.5)

    return made


_SHAW = f"shaw(max_distance={REACH})"
_XL = "transformer_xl(dim=256, init_std=0.1)"

COMPARISONS = (
    Comparison(_SHAW, "transformers", "Wav2Vec2-BERT", "logits", _ours(_SHAW), _shaw, starts=(0,)),
    Comparison(_XL, "transformers", "Wav2Vec2-BERT, relative", "logits", _ours(_XL), _transformer_xl, starts=(0,)),
)
