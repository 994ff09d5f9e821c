"""Which layer has which encoding, beside the configs of `transformers`."""

from __future__ import annotations

import pytest
import torch
import transformers
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions
from lengthwise.models import Decoder, ModelConfig
from lengthwise.patterns import patterns

DIMS = lw.Dims(dim=64, heads=4, layers=12)


def bases(layers: nn.Module) -> list[float]:
    """The rotary base of each layer, 0 where nothing is rotated."""
    found = [[part for part in one.modules() if isinstance(part, lw.Rotary)] for one in layers]
    return [part[0].base if part else 0.0 for part in found]


def reach(encoding: nn.Module, length: int) -> Tensor:
    """Which keys of a causal sequence the bias lets each query see."""
    bias = lw.prepare(encoding, Positions.sequence(length)).bias
    open_ = torch.ones(length, length) if bias is None else (bias.dense()[0] == 0).float()
    return open_.tril()


def test_smollm3_rotates_where_its_config_says() -> None:
    config = transformers.SmolLM3Config(num_hidden_layers=12)
    theta = config.rope_parameters["rope_theta"]
    assert bases(lw.build("smollm3", DIMS)) == [theta if rotates else 0 for rotates in config.no_rope_layers]


def test_llama4_rotates_in_chunks_and_has_a_temperature_where_its_config_says() -> None:
    config = transformers.Llama4TextConfig(num_hidden_layers=12)
    layers = lw.build("llama4", DIMS)
    theta = config.rope_parameters["rope_theta"]
    assert bases(layers) == [theta if rotates else 0 for rotates in config.no_rope_layers]
    chunked = [any(isinstance(part, lw.Chunks) for part in one.modules()) for one in layers]
    assert chunked == [kind == "chunked_attention" for kind in config.layer_types]
    chunks = [part for part in layers[0].modules() if isinstance(part, lw.Chunks)]
    assert chunks[0].chunk == config.attention_chunk_size
    assert (layers[3].floor, layers[3].scale) == (config.floor_scale, config.attn_scale)


@pytest.mark.parametrize(("name", "make"), [("cohere2", "Cohere2Config"), ("gemma3", "Gemma3TextConfig")])
def test_windows_stand_where_the_config_says(name: str, make: str) -> None:
    config = getattr(transformers, make)(num_hidden_layers=12)
    layers = lw.build(name, DIMS)
    windowed = [any(isinstance(part, lw.Window) for part in one.modules()) for one in layers]
    assert windowed == [kind == "sliding_attention" for kind in config.layer_types]
    if name == "gemma3":
        theta = {kind: config.rope_parameters[kind]["rope_theta"] for kind in set(config.layer_types)}
        assert bases(layers) == [theta[kind] for kind in config.layer_types]
    else:
        theta = config.rope_parameters["rope_theta"]
        assert bases(layers) == [theta if kind == "sliding_attention" else 0 for kind in config.layer_types]
    widths = [part.window for part in layers[0].modules() if isinstance(part, lw.Window)]
    assert widths == [config.sliding_window - 1]  # a window of transformers counts the token itself


def test_a_window_of_so_many_tokens_and_chunks_of_so_many_see_what_they_should() -> None:
    small = lw.build("cohere2(window=3)", DIMS)
    index = torch.arange(9)
    back = index[:, None] - index[None]
    assert torch.equal(reach(small[0], 9), ((back >= 0) & (back < 3)).float())
    chunks = lw.build("llama4(chunk=4)", DIMS)
    assert torch.equal(reach(chunks[0], 9), ((back >= 0) & (index[:, None] // 4 == index[None] // 4)).float())


def test_encodings_that_layers_do_not_share_get_weights_of_their_own() -> None:
    shared = lw.build("alternate(t5, none, every=2)", DIMS)
    assert len({id(one) for one in shared}) == 2

    class Apart(nn.Module):
        shared = False

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(100))
            self.reset_parameters()

        def reset_parameters(self) -> None:
            nn.init.normal_(self.weight)

    layers = patterns["alternate"](Apart(), lw.NoPE(), 6, every=2)
    own = [layers[layer].weight for layer in (0, 2, 4)]
    assert len({id(weight) for weight in own}) == 3
    assert not torch.equal(own[0], own[1])


@pytest.mark.parametrize("name", sorted(patterns))
def test_a_model_with_every_pattern_decodes_as_in_one_pass(name: str) -> None:
    config = ModelConfig(vocabulary=7, dim=32, layers=6, heads=2)
    spec = "alternate(rotary, t5)" if name == "alternate" else name
    torch.manual_seed(0)
    model = Decoder(config, lw.build(spec, config.dims())).eval()
    tokens = torch.randint(7, (2, 5), generator=torch.Generator().manual_seed(0))
    longer = model.generate(tokens, 4)
    with torch.no_grad():
        assert torch.equal(model(longer[:, :-1])[:, 4:].argmax(-1), longer[:, 5:])


def test_patterns_are_whole_models_and_join_nothing() -> None:
    with pytest.raises(lw.InvalidArgument, match="join the encodings of each layer"):
        lw.build("smollm3 + alibi", DIMS)
    with pytest.raises(lw.UnknownName, match="did you mean 'smollm3'"):
        lw.build("smolm3", DIMS)
