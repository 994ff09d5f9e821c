"""What acts on whole logits in `transformers`: DeBERTa, and the temperature of far queries."""

from __future__ import annotations

from torch import Tensor

from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import encoding
from lengthwise.agreement.peers import model, module
from lengthwise.agreement.place import Place
from lengthwise.prepared import prepare

BUCKETS, REACH = 32, 64


def _deberta_ours(place: Place) -> Tensor:
    ours = encoding(_DEBERTA).to(place.dtype)
    return ours.attention_logits(*place.queries_and_keys(), place.positions, 64**-0.5)


def _deberta(place: Place) -> Tensor:
    ours = encoding(_DEBERTA)
    config = module("transformers").DebertaV2Config(
        hidden_size=256,
        num_attention_heads=4,
        relative_attention=True,
        position_buckets=BUCKETS,
        max_relative_positions=REACH,
        pos_att_type=["c2p", "p2c"],
        hidden_dropout_prob=0.0,
    )
    theirs = model("deberta_v2").DisentangledSelfAttention(config).eval()
    for name, weight, first in (
        ("pos_key_proj", ours.key_weight, ours.key_bias),
        ("pos_query_proj", ours.query_weight, ours.query_bias),
    ):
        getattr(theirs, name).weight.copy_(weight)
        getattr(theirs, name).bias.copy_(first)
    theirs = theirs.to(place.dtype)
    q, k = (x[0] for x in place.queries_and_keys())  # [heads, length, head_dim]
    met = theirs.disentangled_attention_bias(q, k, None, ours.table.to(place.dtype), 3)
    return (q @ k.transpose(-1, -2) / (3 * 64) ** 0.5 + met)[None]


def _scaled(spec: str, place: Place) -> Tensor:
    rotation = prepare(encoding(spec), place.positions).rotation
    assert rotation is not None
    return rotation.q(place.queries_and_keys()[0])


def _ministral(place: Place) -> Tensor:
    q = place.queries_and_keys()[0]
    scale = model("ministral3").get_llama_4_attn_scale(place.index[None], 0.1, 8192)
    return q * scale.to(place.dtype)


def _temperature(spec: str, part: str, theirs: Make) -> Comparison:
    return Comparison(spec, "transformers", part, "scaled q", lambda place: _scaled(spec, place), theirs)


_DEBERTA = f"deberta(dim=256, buckets={BUCKETS}, max_distance={REACH}, init_std=0.1)"

COMPARISONS = (
    Comparison(_DEBERTA, "transformers", "DeBERTa v2", "logits", _deberta_ours, _deberta, starts=(0,)),
    _temperature("temperature(offset=0)", "Ministral 3", _ministral),
)
