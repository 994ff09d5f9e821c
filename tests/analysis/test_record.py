from __future__ import annotations

import pytest
import torch

import lengthwise as lw
from lengthwise.analysis.record import record
from lengthwise.models import Decoder, Encoder, ModelConfig

CONFIG = ModelConfig(vocabulary=20, dim=32, heads=4, layers=3)


@pytest.mark.parametrize(
    "spec", ["none", "rotary", "t5", "alibi", "sinusoidal", "shaw", "fox", "path", "rotary + alibi", "stick_breaking"]
)
def test_recorded_attention_is_what_the_layer_used(spec: str) -> None:
    torch.manual_seed(0)
    model = Decoder(CONFIG, lw.build(spec, CONFIG.dims())).eval()
    tokens = torch.randint(0, 20, (2, 17))
    seen = record(model, tokens)
    assert len(seen.logits) == 3
    assert len(seen.hidden) == 4
    torch.testing.assert_close(seen.output, model(tokens), rtol=1e-5, atol=1e-5)
    for layer, block in enumerate(model.stack.blocks):
        x = block.attention_norm(seen.hidden[layer])
        values = block.attention.heads(block.attention.v(x))
        out = block.attention.out((seen.weights[layer] @ values).transpose(1, 2).flatten(2))
        after = seen.hidden[layer] + out
        after = after + block.feed_forward(block.feed_forward_norm(after))
        torch.testing.assert_close(after, seen.hidden[layer + 1], rtol=1e-4, atol=1e-5)


def test_an_encoder_is_recorded_with_attention_to_later_tokens() -> None:
    torch.manual_seed(0)
    model = Encoder(CONFIG, lw.build("alibi", CONFIG.dims()))
    weights = record(model, torch.randint(0, 20, (1, 9))).weights[0]
    assert bool((weights > 0).all())


def test_recording_leaves_the_model_as_it_was() -> None:
    torch.manual_seed(0)
    model = Decoder(CONFIG, lw.build("rotary", CONFIG.dims())).train()
    record(model, torch.randint(0, 20, (1, 9)))
    assert model.training
    assert not any(module._forward_pre_hooks for module in model.modules())
