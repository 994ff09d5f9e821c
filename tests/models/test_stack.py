"""One encoding for all layers or one a layer; whose parameters are drawn anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.bias import DenseBias
from lengthwise.errors import InvalidArgument
from lengthwise.models import Decoder, Encoder, ModelConfig
from lengthwise.positions import Positions

Make = Callable[..., Decoder]


class Counted(nn.Module):
    """Counts how often it is asked, and adds a constant bias."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def logit_bias(self, positions: Positions) -> DenseBias:
        self.asked += 1
        return DenseBias(torch.zeros(4, positions.q_length, positions.k_length))


class WithOwnLayers(nn.Module):
    """An encoding that is made of linear layers and embeddings, as FIRE and Shaw's are."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.rows = nn.Embedding(5, 6)
        for weight in self.parameters():
            nn.init.constant_(weight, 0.25)

    def logit_bias(self, positions: Positions) -> DenseBias:
        return DenseBias(torch.zeros(4, positions.q_length, positions.k_length))


def count(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def test_a_shared_encoding_has_its_parameters_once_and_one_a_layer_has_them_for_each(make_decoder: Make) -> None:
    bare = count(make_decoder(None))
    table = 32 * 4
    one = lw.T5Bias(heads=4)
    assert count(make_decoder(one)) == bare + table
    assert count(make_decoder([lw.T5Bias(heads=4), lw.T5Bias(heads=4)])) == bare + 2 * table
    assert count(make_decoder([one, one])) == bare + table


def test_a_shared_encoding_is_asked_once_a_forward(make_decoder: Make, tokens: Tensor) -> None:
    alone, repeated = Counted(), Counted()
    make_decoder(alone)(tokens)
    make_decoder([repeated, repeated])(tokens)
    assert (alone.asked, repeated.asked) == (1, 1)


def test_one_encoding_a_layer_acts_in_its_own_layer(make_decoder: Make, tokens: Tensor) -> None:
    rotary = lw.Rotary(head_dim=4)
    orders = [[rotary, rotary], [rotary, lw.NoPE()], [lw.NoPE(), rotary], [lw.NoPE(), lw.NoPE()]]
    logits = [make_decoder(encodings)(tokens) for encodings in orders]
    assert torch.equal(logits[0], make_decoder(rotary)(tokens))
    assert torch.equal(logits[3], make_decoder(None)(tokens))
    for first in range(4):
        for second in range(first):
            assert not torch.allclose(logits[first], logits[second], atol=1e-4)


def test_layers_can_mix_kinds_of_encodings_with_a_cache(make_decoder: Make, tokens: Tensor) -> None:
    model = make_decoder([lw.Rotary(head_dim=4), lw.ALiBi(heads=4)])
    prompt = tokens[:, :3]
    for _ in range(4):
        prompt = torch.cat((prompt, model(prompt)[:, -1:].argmax(-1)), dim=1)
    assert torch.equal(model.generate(tokens[:, :3], 4), prompt)


def test_an_encoding_of_embeddings_belongs_to_the_first_layer(make_decoder: Make, tokens: Tensor) -> None:
    first = make_decoder([lw.Sinusoidal(dim=16), lw.NoPE()])(tokens)
    assert torch.equal(first, make_decoder("sinusoidal")(tokens))
    with pytest.raises(lw.InvalidArgument, match=r"Sinusoidal.*first layer"):
        make_decoder([lw.NoPE(), lw.Sinusoidal(dim=16)])
    with pytest.raises(lw.InvalidArgument, match=r"Learned.*first layer"):
        make_decoder([lw.Learned(16, 8), lw.Learned(16, 8)])


@pytest.mark.parametrize("number", [1, 3])
def test_as_many_encodings_as_layers_or_one(make_decoder: Make, number: int) -> None:
    with pytest.raises(lw.InvalidArgument, match=f"{number} encodings for 2 layers"):
        make_decoder([lw.NoPE() for _ in range(number)])


def test_a_model_draws_its_own_weights_and_leaves_those_of_the_encoding(make_decoder: Make) -> None:
    encoding = WithOwnLayers()
    make_decoder(encoding)
    assert all((weight == 0.25).all() for weight in encoding.parameters())


def test_first_weights_have_the_spread_that_is_said() -> None:
    torch.manual_seed(0)
    model = Decoder(ModelConfig(vocabulary=500, dim=256, layers=4, heads=4, tied=False))
    block = model.stack.blocks[0]
    spreads = {
        model.embedding.weight: 256**-0.5,
        model.head.weight: 256**-0.5,
        block.attention.q.weight: 256**-0.5,
        block.attention.out.weight: (256 * 8) ** -0.5,
        block.feed_forward.up.weight: 256**-0.5,
        block.feed_forward.down.weight: (1024 * 8) ** -0.5,
    }
    for weight, spread in spreads.items():
        assert weight.std().item() == pytest.approx(spread, rel=0.02)


def test_a_module_list_is_one_encoding_a_layer_and_not_an_encoding_that_does_nothing() -> None:
    config = ModelConfig(vocabulary=11, dim=16, layers=2, heads=4)
    torch.manual_seed(0)
    listed = Encoder(config, torch.nn.ModuleList([lw.Rotary(4), lw.Rotary(4, base=100.0)]))
    tokens = torch.arange(8)[None]
    assert not torch.allclose(listed(tokens), listed(tokens.flip(1)).flip(1), atol=1e-3)
    with pytest.raises(InvalidArgument, match="1 encodings for 2 layers"):
        Encoder(config, torch.nn.ModuleList([lw.Rotary(4)]))


@pytest.mark.parametrize("kind", [Decoder, Encoder])
def test_tokens_without_a_batch_are_told(kind: type[Decoder | Encoder]) -> None:
    with pytest.raises(InvalidArgument, match=r"tokens must be \[batch, length\], not of shape \[5\]"):
        kind(ModelConfig(vocabulary=11, dim=16, heads=4))(torch.arange(5))


def test_a_model_runs_on_the_meta_device() -> None:
    with torch.device("meta"):
        model = Decoder(ModelConfig(vocabulary=11, dim=16, heads=4), lw.Rotary(4))
        assert model(torch.zeros(2, 5, dtype=torch.int64)).shape == (2, 5, 11)
