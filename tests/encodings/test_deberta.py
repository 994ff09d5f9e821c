from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import DebertaV2Config
from transformers.models.deberta_v2.modeling_deberta_v2 import (
    DebertaV2Encoder,
    DisentangledSelfAttention,
    make_log_bucket_position,
)

import lengthwise as lw
from lengthwise import DeBERTa, Positions

Close = Callable[..., None]
DIM, HEADS, HEAD_DIM, LENGTH = 12, 3, 4, 40


def config(
    buckets: int, terms: list[str], reach: int = 24, shared: bool = False, norm: str = "none"
) -> DebertaV2Config:
    return DebertaV2Config(
        hidden_size=DIM,
        num_attention_heads=HEADS,
        num_hidden_layers=1,
        intermediate_size=8,
        relative_attention=True,
        position_buckets=buckets or -1,
        max_relative_positions=reach,
        pos_att_type=terms,
        share_att_key=shared,
        norm_rel_ebd=norm,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        conv_kernel_size=0,
    )


def theirs_and_ours(setting: DebertaV2Config) -> tuple[DisentangledSelfAttention, Tensor, DeBERTa]:
    """Their layer, its table as it reaches the layer, and ours with the same numbers."""
    torch.manual_seed(0)
    layer, encoder = DisentangledSelfAttention(setting).double().eval(), DebertaV2Encoder(setting).double()
    torch.nn.init.normal_(encoder.rel_embeddings.weight)
    buckets = max(setting.position_buckets, 0)
    norm = setting.norm_rel_ebd == "layer_norm"
    reach = setting.max_relative_positions
    ours = DeBERTa(DIM, HEADS, HEAD_DIM, buckets, reach, setting.pos_att_type, norm=norm).double()
    state = {"table": encoder.rel_embeddings.weight}
    key, query = ("key_proj", "query_proj") if setting.share_att_key else ("pos_key_proj", "pos_query_proj")
    if "c2p" in setting.pos_att_type:
        state |= {f"key_{part}": getattr(getattr(layer, key), part) for part in ("weight", "bias")}
    if "p2c" in setting.pos_att_type:
        state |= {f"query_{part}": getattr(getattr(layer, query), part) for part in ("weight", "bias")}
    if norm:
        torch.nn.init.normal_(encoder.LayerNorm.weight)
        torch.nn.init.normal_(encoder.LayerNorm.bias)
        state |= {f"norm_{part}": getattr(encoder.LayerNorm, part) for part in ("weight", "bias")}
    ours.load_state_dict(state)
    return layer, encoder.get_rel_embedding(), ours


@pytest.mark.parametrize(
    "setting",
    [
        config(8, ["c2p", "p2c"]),
        config(0, ["c2p", "p2c"]),
        config(16, ["c2p"]),
        config(16, ["p2c"]),
        config(8, ["c2p", "p2c"], shared=True, norm="layer_norm"),
    ],
)
def test_weights_are_those_of_transformers(setting: DebertaV2Config, close: Close) -> None:
    layer, table, ours = theirs_and_ours(setting)
    hidden = torch.randn(2, LENGTH, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(2, 1, LENGTH, LENGTH)
    with torch.no_grad():
        expected = layer(hidden, mask, output_attentions=True, rel_embeddings=table)[1]
        q, k = (
            project(hidden).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
            for project in (layer.query_proj, layer.key_proj)
        )
        weights = lw.attention_weights(q, k, ours, Positions.sequence(LENGTH, causal=False))
    # Their square root of 3 head_dim is a float32 number.
    close(weights, expected.view_as(weights), of=torch.float32)


@pytest.mark.parametrize(("buckets", "reach"), [(256, 512), (8, 20), (32, 128), (64, 100), (12, 300), (4, 6), (6, 66)])
def test_buckets_are_those_of_transformers_up_to_4096(buckets: int, reach: int) -> None:
    distance = torch.arange(-4096, 4097)
    theirs = make_log_bucket_position(distance, buckets, reach).long()
    ours = DeBERTa(2, 1, 2, buckets, reach).bucket(distance)
    assert torch.equal(ours.clamp(-buckets, buckets), theirs.clamp(-buckets, buckets))


def test_buckets_are_those_of_the_formula_sheet() -> None:
    distance = torch.tensor([128, 129, 200, 300, 400, 500, 511, 512])
    expected = torch.tensor([128, 129, 169, 207, 233, 254, 255, 256])
    encoding = DeBERTa(2, 1, 2)
    assert torch.equal(encoding.bucket(distance), expected)
    assert torch.equal(encoding.bucket(-distance), -expected)


def test_a_query_has_the_vector_of_query_less_key_on_either_side() -> None:
    encoding = DeBERTa(1, 1, 1, buckets=0, max_distance=3, terms=["c2p"])
    encoding.load_state_dict(
        {"table": torch.arange(-3.0, 3.0)[:, None], "key_weight": torch.ones(1, 1), "key_bias": torch.zeros(1)}
    )
    q, k = torch.ones(1, 1, 6, 1), torch.zeros(1, 1, 6, 1)
    logits = encoding.attention_logits(q, k, Positions.sequence(6, causal=False), 1.0)[0, 0] * 2**0.5
    distance = torch.arange(6)[:, None] - torch.arange(6)
    torch.testing.assert_close(logits, distance.clamp(-3, 2).float())


def test_a_step_of_decoding_has_the_numbers_of_the_whole(
    close: Close,
) -> None:
    _, _, ours = theirs_and_ours(config(8, ["c2p", "p2c"]))
    q, k = torch.randn(2, 1, HEADS, LENGTH, HEAD_DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = ours.attention_logits(q, k, Positions.sequence(LENGTH), 0.5)
    close(ours.attention_logits(q[:, :, -3:], k, Positions.step(LENGTH - 3, 3), 0.5), whole[:, :, -3:])


def test_grouped_keys_are_the_keys_of_each_query_head_written_out() -> None:
    _, _, ours = theirs_and_ours(config(8, ["c2p", "p2c"]))
    q = torch.randn(2, HEADS, 6, HEAD_DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    positions = Positions.padded(torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6]))
    grouped = ours.attention_logits(q, q[:, :1], positions, 0.5)
    assert torch.equal(grouped, ours.attention_logits(q, q[:, :1].expand(-1, HEADS, -1, -1), positions, 0.5))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "at least 1, not 2, 0, 2 and 512"),
        ({"buckets": 7}, r"buckets must be 0, or even, at least 4 and below 2 \(max_distance - 1\) = 1022, not 7"),
        ({"buckets": 2}, "buckets must be 0, or even, at least 4 and below"),
        ({"buckets": 8, "max_distance": 5}, "= 8, not 8"),
        ({"terms": ["c2p", "p2p"]}, "unknown term 'p2p'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        DeBERTa(**{"dim": 2, "heads": 1, "head_dim": 2, **settings})


def test_queries_of_another_number_of_heads_are_refused() -> None:
    q = torch.zeros(1, 2, 2, 2)
    with pytest.raises(lw.InvalidArgument, match="made for 1 query heads, and q has 2"):
        lw.attention(q, q, q, DeBERTa(2, 1, 2))


def test_first_values_are_normal_matrices_zero_biases_and_a_norm_that_does_nothing() -> None:
    torch.manual_seed(0)
    encoding = DeBERTa(64, 4, 16, norm=True)
    assert encoding.table.std().item() == pytest.approx(0.02, rel=0.05)
    assert encoding.key_weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not encoding.query_bias.any()
    assert (encoding.norm_weight == 1).all()
