from __future__ import annotations

import torch
from transformers import LlamaConfig, T5Config
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

import lengthwise as lw
from lengthwise import Positions


def causal_mask(length: int) -> torch.Tensor:
    return torch.full((length, length), torch.finfo(torch.float32).min).triu(1)[None, None]


def test_grouped_rotary_attention_is_the_attention_of_llama() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        attn_implementation="eager",
    )
    theirs = LlamaAttention(config, layer_idx=0).eval()
    x = torch.randn(2, 33, 64)
    with torch.no_grad():
        angles = LlamaRotaryEmbedding(config)(x, torch.arange(33)[None])
        expected = theirs(x, position_embeddings=angles, attention_mask=causal_mask(33))[0]
        q, k, v = (
            project(x).unflatten(-1, (-1, 16)).transpose(1, 2)
            for project in (theirs.q_proj, theirs.k_proj, theirs.v_proj)
        )
        out = lw.attention(q, k, v, lw.Rotary(16, base=500000.0), Positions.sequence(33))
        torch.testing.assert_close(theirs.o_proj(out.transpose(1, 2).flatten(2)), expected, rtol=1e-4, atol=1e-5)


def test_biased_attention_without_a_scale_is_the_attention_of_t5() -> None:
    torch.manual_seed(0)
    for decoder in (True, False):
        config = T5Config(d_model=32, d_kv=8, num_heads=4, is_decoder=decoder, attn_implementation="eager")
        theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
        x = torch.randn(2, 140, 32)
        encoding = lw.T5Bias(4, bidirectional=not decoder)
        encoding.load_state_dict({"table": theirs.relative_attention_bias.weight})
        with torch.no_grad():
            expected = theirs(x, mask=causal_mask(140) if decoder else None)[0]
            q, k, v = (project(x).unflatten(-1, (4, 8)).transpose(1, 2) for project in (theirs.q, theirs.k, theirs.v))
            out = lw.attention(q, k, v, encoding, Positions.sequence(140, causal=decoder), scale=1.0)
            torch.testing.assert_close(theirs.o(out.transpose(1, 2).flatten(2)), expected, rtol=1e-4, atol=1e-5)
