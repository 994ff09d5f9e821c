"""The Decoder with rotary is the Llama of `transformers`: same weights, same logits."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from lengthwise.models import Decoder, ModelConfig


def as_llama(model: Decoder, base: float) -> LlamaForCausalLM:
    """A Llama with the weights of `model`; its embedding carries the factor sqrt(dim)."""
    sizes = model.config
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=sizes.vocabulary,
            hidden_size=sizes.dim,
            intermediate_size=sizes.hidden,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.kv_heads or sizes.heads,
            rms_norm_eps=1e-6,
            max_position_embeddings=64,
            rope_parameters={"rope_type": "default", "rope_theta": base},
            tie_word_embeddings=False,
            attention_bias=False,
            mlp_bias=False,
            hidden_act="silu",
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )
    state = {
        "model.embed_tokens.weight": model.embedding.weight * sizes.dim**0.5,
        "model.norm.weight": model.stack.norm.weight,
        "lm_head.weight": model.head.weight,
    }
    for number, block in enumerate(model.stack.blocks):
        own = {
            "input_layernorm": block.attention_norm,
            "self_attn.q_proj": block.attention.q,
            "self_attn.k_proj": block.attention.k,
            "self_attn.v_proj": block.attention.v,
            "self_attn.o_proj": block.attention.out,
            "post_attention_layernorm": block.feed_forward_norm,
            "mlp.gate_proj": block.feed_forward.gate,
            "mlp.up_proj": block.feed_forward.up,
            "mlp.down_proj": block.feed_forward.down,
        }
        state |= {f"model.layers.{number}.{name}.weight": module.weight for name, module in own.items()}
    llama.load_state_dict(state)
    return llama.eval()


@torch.no_grad()
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kv_heads", [0, 2])
def test_the_decoder_with_rotary_is_llama(make_decoder: Callable[..., Decoder], tied: bool, kv_heads: int) -> None:
    config = ModelConfig(
        vocabulary=31,
        dim=32,
        layers=3,
        heads=4,
        kv_heads=kv_heads,
        hidden=48,
        norm="rms",
        activation="swiglu",
        tied=tied,
    )
    model = make_decoder("rotary(base=5000.0)", config)
    for norm in (part for part in model.modules() if isinstance(part, torch.nn.RMSNorm)):
        norm.weight.uniform_(0.5, 1.5)  # ones would hide a norm that is left out or misplaced
    llama = as_llama(model, 5000.0)
    tokens: Tensor = torch.randint(31, (2, 40), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(model(tokens), llama(tokens).logits, rtol=1e-5, atol=1e-5)
    mask = torch.ones_like(tokens)
    mask[0, :7] = 0
    ours = model.generate(tokens, 8, attention_mask=mask)
    theirs = llama.generate(tokens, attention_mask=mask, max_new_tokens=8, do_sample=False, eos_token_id=None)
    assert torch.equal(ours, theirs)
