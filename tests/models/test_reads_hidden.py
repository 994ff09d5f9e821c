"""Encodings that read hidden states in a whole model: one a layer, trained, cached, padded, packed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.models import Decoder, KVCache, ModelConfig

Close = Callable[..., None]
CONFIG = ModelConfig(vocabulary=11, dim=16, layers=2, heads=4, kv_heads=2)
SPECS = [
    "fox",
    "cable",
    "path",
    "selective_rope",
    "path + fox",
    "rotary + fox",
    "selective_rope + cable",
    "temperature(floor=2)",
]


@pytest.fixture(params=SPECS)
def model(request: pytest.FixtureRequest) -> Decoder:
    """Two layers, each with an encoding of its own and large weights in it, so that a fault shows."""
    torch.manual_seed(0)
    layers = [lw.build(request.param, CONFIG.dims()) for _ in range(CONFIG.layers)]
    for part in (part for layer in layers for part in layer.parameters()):
        torch.nn.init.normal_(part, std=0.7)
    return Decoder(CONFIG, layers).eval()


@pytest.fixture
def ids() -> Tensor:
    return torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_decoding_with_a_cache_in_any_chunking_is_one_pass(model: Decoder, ids: Tensor, close: Close) -> None:
    whole = model(ids)
    for chunks in ([1] * 7, [2, 5], [5, 2], [3, 1, 3]):
        cache = KVCache(CONFIG.layers)
        close(torch.cat([model(part, cache=cache) for part in ids.split(chunks, dim=1)], dim=1), whole, times=4)


@torch.no_grad()
def test_the_encoding_reaches_the_output(model: Decoder, ids: Tensor) -> None:
    torch.manual_seed(0)
    plain = Decoder(CONFIG, None).eval()
    plain.load_state_dict({name: part for name, part in model.state_dict().items() if "encodings" not in name})
    assert (plain(ids) - model(ids)).abs().max() > 1e-2


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_rows_are_the_rows_alone(model: Decoder, ids: Tensor, side: str, close: Close) -> None:
    count, index = torch.tensor([[7], [4], [1]]), torch.arange(7)
    mask = index >= 7 - count if side == "left" else index < count
    out = model(ids, lw.Positions.padded(mask))
    for row in range(3):
        close(out[row, mask[row]], model(ids[row : row + 1, mask[row]])[0], times=4)


@torch.no_grad()
def test_packed_documents_are_the_documents_alone(model: Decoder, ids: Tensor, close: Close) -> None:
    out = model(ids, lw.Positions.packed([3, 1, 3]))
    close(out, torch.cat([model(part) for part in ids.split([3, 1, 3], dim=1)], dim=1), times=4)


def test_prompts_padded_on_the_left_continue_as_they_do_alone(model: Decoder, ids: Tensor) -> None:
    mask = torch.arange(7) >= torch.tensor([[0], [3], [5]])
    continued = model.generate(ids, 4, attention_mask=mask)
    for row, first in enumerate((0, 3, 5)):
        assert torch.equal(continued[row, first:], model.generate(ids[row : row + 1, first:], 4)[0])


def test_a_step_of_training_moves_every_number_of_every_encoding_and_lowers_the_loss(
    model: Decoder, ids: Tensor
) -> None:
    model.train()
    before = {name: part.detach().clone() for name, part in model.stack.encodings.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def loss() -> Tensor:
        return torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    first = loss()
    first.backward()
    optimizer.step()
    assert loss() < first
    for name, part in model.stack.encodings.named_parameters():
        assert part.isfinite().all()
        assert not torch.equal(part, before[name]), name


@torch.no_grad()
@pytest.mark.parametrize("name", ["fox", "cable", "path"])
def test_attention_with_a_state_continues_attention_with_hidden_states(name: str, close: Close) -> None:
    torch.manual_seed(0)
    encoding = lw.build(name, CONFIG.dims())
    hidden, q, k = torch.randn(1, 7, 16), torch.randn(1, 4, 7, 4), torch.randn(1, 2, 7, 4)
    whole = lw.attention(q, k, k, encoding, hidden=hidden)
    _, state = lw.prepare(encoding, lw.Positions.sequence(5)).read(hidden[:, :5])
    step = lw.attention(q[:, :, 5:], k, k, encoding, hidden=hidden[:, 5:], state=state)
    close(step, whole[:, :, 5:])
    weights = lw.attention_weights(q[:, :, 5:], k, encoding, hidden=hidden[:, 5:], state=state)
    close(weights @ k.repeat_interleave(2, dim=1), step)


@torch.no_grad()
def test_rotated_keys_in_a_cache_continue_attention_of_selective_rope(close: Close) -> None:
    torch.manual_seed(0)
    encoding = lw.build("selective_rope", CONFIG.dims())
    hidden, q, k = torch.randn(1, 7, 16), torch.randn(1, 4, 7, 4), torch.randn(1, 2, 7, 4)
    whole = lw.attention(q, k, k, encoding, hidden=hidden)
    first, state = lw.prepare(encoding, lw.Positions.sequence(5)).read(hidden[:, :5])
    then, _ = lw.prepare(encoding, lw.Positions.step(5, 2)).read(hidden[:, 5:], state)
    keys = torch.cat((first.rotation.k(k[:, :, :5]), then.rotation.k(k[:, :, 5:])), dim=2)
    close(lw.attend(then.rotation.q(q[:, :, 5:]), keys, k), whole[:, :, 5:])


@pytest.mark.parametrize("name", ["fox", "cable", "path", "selective_rope"])
def test_attention_without_the_hidden_states_is_refused(name: str) -> None:
    encoding, q, k = lw.build(name, CONFIG.dims()), torch.randn(1, 4, 7, 4), torch.randn(1, 2, 7, 4)
    with pytest.raises(lw.InvalidArgument, match="this encoding reads hidden states: pass hidden="):
        lw.attention(q, k, k, encoding)


def test_one_instance_that_layers_share_keeps_a_state_for_each_layer(ids: Tensor, close: Close) -> None:
    torch.manual_seed(0)
    model = Decoder(CONFIG, lw.build("path", CONFIG.dims())).eval()
    cache = KVCache(CONFIG.layers)
    with torch.no_grad():
        close(torch.cat([model(part, cache=cache) for part in ids.split(3, dim=1)], dim=1), model(ids))
    assert not torch.allclose(cache.states[0][0][2], cache.states[1][0][2])
