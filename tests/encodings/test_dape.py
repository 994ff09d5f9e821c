from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import DAPE, KERPLE, ALiBi, NoPE, Positions, Rotary, T5Bias

Close = Callable[..., None]
HEADS = 2


def made(encoding: nn.Module, hidden: int = 5) -> DAPE:
    torch.manual_seed(1)
    return DAPE(encoding, HEADS, hidden).double()


def tensors(queries: int = 6, keys: int = 6, kv_heads: int = HEADS) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, HEADS, queries, 4, generator=generator, dtype=torch.float64)
    return q, torch.randn(2, kv_heads, keys, 4, generator=generator, dtype=torch.float64)


def pair_by_pair(encoding: DAPE, a: Tensor, b: Tensor | None) -> Tensor:
    """The published network, an `nn.Sequential` that reads the channels of all heads at each pair."""
    channels = a if b is None else torch.cat((a, b.expand(a.shape)), dim=1)
    network = nn.Sequential(nn.Linear(channels.shape[1], 5), nn.LeakyReLU(), nn.Linear(5, HEADS)).double()
    names = {"0.weight": "first_weight", "0.bias": "first_bias", "2.weight": "second_weight", "2.bias": "second_bias"}
    network.load_state_dict({theirs: getattr(encoding, ours) for theirs, ours in names.items()})
    out = a + network(channels.movedim(1, -1)).movedim(-1, 1)
    return out if b is None else out + b


@pytest.mark.parametrize("inner", [ALiBi(HEADS), KERPLE(HEADS).double(), T5Bias(HEADS).double()])
def test_logits_are_those_of_the_published_network(inner: nn.Module, close: Close) -> None:
    encoding, (q, k) = made(inner), tensors(queries=4)
    positions = Positions.step(2, 4)
    bias = inner.logit_bias(positions).dense().double()
    expected = pair_by_pair(encoding, q @ k.transpose(-1, -2) / 2, bias)
    close(encoding.attention_logits(q, k, positions, 0.5), expected)


def test_around_an_encoding_that_does_nothing_it_bends_content_alone(close: Close) -> None:
    encoding, (q, k) = made(NoPE()), tensors()
    expected = pair_by_pair(encoding, q @ k.transpose(-1, -2) / 2, None)
    close(encoding.attention_logits(q, k, Positions.sequence(6), 0.5), expected)
    assert encoding.first_weight.shape == (5, HEADS)


def test_positions_of_each_row_have_their_own_bias(close: Close) -> None:
    encoding, (q, k) = made(ALiBi(HEADS)), tensors()
    rows = torch.stack((torch.arange(6), 3 * torch.arange(6)))
    whole = encoding.attention_logits(q, k, Positions(rows, rows), 0.5)
    for row in range(2):
        own = Positions(rows[row], rows[row])
        close(whole[row], encoding.attention_logits(q[row : row + 1], k[row : row + 1], own, 0.5)[0])


def test_with_a_network_of_zeros_it_is_the_bias_inside(close: Close) -> None:
    encoding, (q, k) = made(ALiBi(HEADS)), tensors()
    nn.init.zeros_(encoding.second_weight)
    nn.init.zeros_(encoding.second_bias)
    positions = Positions.sequence(6)
    close(
        lw.attention(q, k, k, encoding, positions), lw.attention(q, k, k, ALiBi(HEADS), positions, backend="reference")
    )


def test_the_last_bias_moves_no_weight(close: Close) -> None:
    encoding, (q, k) = made(ALiBi(HEADS)), tensors()
    before = lw.attention_weights(q, k, encoding)
    nn.init.constant_(encoding.second_bias, 3.0)
    close(lw.attention_weights(q, k, encoding), before)


def test_a_bias_that_bars_pairs_bars_them_still_and_leaves_gradients_finite() -> None:
    class Parity(nn.Module):
        def logit_bias(self, positions: Positions) -> lw.DistanceBias:
            return lw.DistanceBias(
                lambda d: torch.where(d % 2 == 0, 0.0, float("-inf")).expand(HEADS, *d.shape), positions
            )

    encoding, (q, k) = made(Parity()), tensors()
    weights = lw.attention_weights(q.requires_grad_(), k, encoding)
    odd = (torch.arange(6)[:, None] - torch.arange(6)) % 2 == 1
    assert not weights[..., odd].any()
    weights.square().sum().backward()
    assert q.grad.isfinite().all()
    assert encoding.first_weight.grad.isfinite().all()


def test_random_positions_inside_are_drawn_while_training_and_once(close: Close) -> None:
    encoding, (q, k) = made(lw.RandomizedPositions(ALiBi(HEADS), longest=100)), tensors()
    drawn = lw.prepare(encoding, Positions.sequence(6), generator=torch.Generator().manual_seed(0), training=True)
    expected = made(ALiBi(HEADS)).attention_logits(q, k, drawn.positions, 0.5)
    assert drawn.positions.q[-1] > 5
    close(drawn.logits(q, k, Positions.sequence(6), 0.5), expected)
    plain = lw.prepare(encoding, Positions.sequence(6))
    close(plain.logits(q, k, plain.positions, 0.5), made(ALiBi(HEADS)).attention_logits(q, k, plain.positions, 0.5))


def test_it_says_of_itself_what_the_encoding_inside_says() -> None:
    assert lw.claims(DAPE(ALiBi(2), 2)) == {"translation_invariant", "pairwise"}
    assert lw.claims(DAPE(lw.FIRE(2), 2)) == lw.claims(lw.FIRE(2)) & {"translation_invariant", "pairwise"}
    assert DAPE(T5Bias(2), 2).direction == "causal"
    assert DAPE(T5Bias(2, bidirectional=True), 2).direction == "any"


def test_grouped_keys_are_the_keys_of_each_query_head_written_out() -> None:
    encoding, (q, k) = made(ALiBi(HEADS)), tensors(kv_heads=1)
    grouped = encoding.attention_logits(q, k, Positions.sequence(6), 0.5)
    assert torch.equal(grouped, encoding.attention_logits(q, k.expand(-1, 2, -1, -1), Positions.sequence(6), 0.5))


def test_a_spec_builds_it_around_a_bias() -> None:
    encoding = lw.build("dape(kerple(kernel='power'), hidden=7)", lw.Dims(dim=16, heads=2))
    assert isinstance(encoding.encoding, KERPLE)
    assert encoding.first_weight.shape == (7, 4)


def test_encodings_that_make_no_bias_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="or NoPE; Rotary acts on rotation"):
        DAPE(Rotary(8), 2)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="a hidden width of at least 1, not 2, 0"):
        DAPE(ALiBi(2), 2, hidden=0)
    q = torch.zeros(1, 3, 2, 4)
    with pytest.raises(lw.InvalidArgument, match="made for 2 query heads, and q has 3"):
        lw.attention(q, q, q, DAPE(ALiBi(2), 2))


def test_first_values_are_those_of_linear_layers() -> None:
    torch.manual_seed(0)
    encoding = DAPE(ALiBi(8), 8, hidden=400)
    for name, fan in (("first", 16), ("second", 400)):
        for part in ("weight", "bias"):
            largest = getattr(encoding, f"{name}_{part}").abs().max().item()
            assert 0.5 * fan**-0.5 < largest <= fan**-0.5
