from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import PaTH, Positions

Close = Callable[..., None]
DIM, HEADS, HEAD_DIM, LENGTH = 6, 2, 4, 11


def make(**settings: int) -> PaTH:
    torch.manual_seed(0)
    encoding = PaTH(DIM, HEADS, HEAD_DIM, **{"rank": 5, **settings}).double()
    with torch.no_grad():
        encoding.beta_bias.normal_()
    return encoding


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def inputs(length: int = LENGTH, heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    hidden = random(2, length, DIM)
    return hidden, random(2, heads, length, HEAD_DIM, seed=1), random(2, HEADS, length, HEAD_DIM, seed=2)


@torch.no_grad()
def reflections(encoding: PaTH, hidden: Tensor) -> tuple[list[Tensor], list[list[Tensor]]]:
    """For each token of one document the beta and the matrix of each head, from the formula."""
    betas, matrices = [], []
    low = [encoding.up @ (encoding.down @ x) for x in hidden]
    for t in range(len(hidden)):
        mixed = torch.zeros(HEADS * HEAD_DIM, dtype=torch.float64)
        for back in range(min(encoding.conv, t + 1)):
            mixed = mixed + encoding.conv_weight[:, encoding.conv - 1 - back] * low[t - back]
        mixed = mixed / (1 + (-mixed).exp())
        beta = 2 / (1 + (-(encoding.beta_weight @ hidden[t] + encoding.beta_bias)).exp())
        own = []
        for head in range(HEADS):
            w = mixed[head * HEAD_DIM : (head + 1) * HEAD_DIM]
            w = w / math.sqrt(float(w @ w))
            own.append(torch.eye(HEAD_DIM, dtype=torch.float64) - beta[head] * torch.outer(w, w))
        betas.append(beta)
        matrices.append(own)
    return betas, matrices


@torch.no_grad()
def by_loops(encoding: PaTH, hidden: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """Logits of one document `[heads, length, length]`, unscaled: the product of matrices pair by pair."""
    _, matrices = reflections(encoding, hidden)
    group, length = q.shape[0] // HEADS, len(hidden)
    out = torch.zeros(q.shape[0], length, length, dtype=torch.float64)
    for head in range(q.shape[0]):
        for i in range(length):
            for j in range(i + 1):
                x = k[head // group, j]
                for t in range(j + 1, i + 1):
                    x = matrices[t][head // group] @ x
                out[head, i, j] = q[head, i] @ x
    return out.detach()


def logits(encoding: PaTH, hidden: Tensor, q: Tensor, k: Tensor, positions: Positions) -> Tensor:
    found, _ = encoding.read(hidden, positions)
    return found(q, k, positions, 1.0).detach()


@pytest.mark.parametrize("block", [1, 2, 4, 64])
def test_logits_are_products_of_the_matrices_between_key_and_query(block: int, close: Close) -> None:
    encoding, (hidden, q, k) = make(block=block), inputs()
    found = logits(encoding, hidden, q, k, Positions.sequence(LENGTH))
    for row in range(2):
        close(found[row].tril(), by_loops(encoding, hidden[row], q[row], k[row]), times=4)


def test_query_heads_that_share_a_key_head_share_its_reflections(close: Close) -> None:
    encoding, (hidden, q, k) = make(), inputs(5, heads=2 * HEADS)
    expected = torch.stack([by_loops(encoding, hidden[row], q[row], k[row]) for row in range(2)])
    close(logits(encoding, hidden, q, k, Positions.sequence(5)).tril(), expected)
    repeated = k.repeat_interleave(2, dim=1)
    close(logits(encoding, hidden, q, repeated, Positions.sequence(5)).tril(), expected)


def test_updating_cached_keys_token_by_token_gives_the_same_numbers(close: Close) -> None:
    encoding, (hidden, q, k) = make(), inputs()
    _, matrices = reflections(encoding, hidden[0])
    found = logits(encoding, hidden, q, k, Positions.sequence(LENGTH))[0]
    for head in range(HEADS):
        keys = torch.zeros(0, HEAD_DIM, dtype=torch.float64)
        for t in range(LENGTH):
            keys = torch.cat((keys @ matrices[t][head].T, k[0, head, t : t + 1]))
            close(found[head, t, : t + 1], (keys @ q[0, head, t]).detach(), times=4)


def test_without_reflections_nothing_is_done(close: Close) -> None:
    encoding, (hidden, q, k) = make(), inputs()
    with torch.no_grad():
        encoding.beta_weight.zero_()
        encoding.beta_bias.fill_(-1e3)  # beta = 0
    close(lw.attention(q, k, k, encoding, hidden=hidden), lw.attention(q, k, k))


def test_whole_reflections_keep_lengths(close: Close) -> None:
    encoding, (hidden, _, k) = make(block=4), inputs()
    with torch.no_grad():
        encoding.beta_weight.zero_()
        encoding.beta_bias.fill_(1e3)  # beta = 2
    basis = torch.eye(HEAD_DIM, dtype=torch.float64)[:, None, None].expand(-1, HEADS, LENGTH, -1)
    found, _ = encoding.read(hidden[:1], Positions.sequence(LENGTH))
    last = torch.stack([found(q[None], k[:1], Positions.sequence(LENGTH), 1.0)[0, :, -1] for q in basis])
    close(last.norm(dim=0).detach(), k[0].norm(dim=-1), times=4)


@pytest.mark.parametrize("chunks", [[1] * LENGTH, [4, 7], [6, 1, 4], [0, 11]])
@pytest.mark.parametrize("block", [3, 64])
def test_in_chunks_with_a_state_it_is_one_pass(chunks: list[int], block: int, close: Close) -> None:
    encoding, (hidden, q, k) = make(block=block), inputs()
    whole = logits(encoding, hidden, q, k, Positions.sequence(LENGTH)).tril()
    state, past = None, 0
    for count in chunks:
        here, positions = slice(past, past + count), Positions.step(past, count)
        found, state = encoding.read(hidden[:, here], positions, state)
        past += count
        part = found(q[:, :, here], k[:, :, :past], positions, 1.0).detach()
        assert part.shape == (2, HEADS, count, past)
        close(part.tril(past - count), whole[:, :, here, :past], times=4)


@pytest.mark.parametrize("block", [3, 64])
def test_documents_and_padding_in_a_row_do_not_reach_into_each_other(block: int, close: Close) -> None:
    encoding, (hidden, q, k) = make(block=block), inputs()
    segment = torch.tensor([[-1, 0, 0, 0, 0, 1, 2, 2, 2, -1, -1]]).expand(2, -1)
    place = torch.arange(LENGTH)
    positions = Positions(place, place, q_segment=segment, k_segment=segment)
    hidden = hidden.masked_fill(segment[..., None] == -1, 1e3)
    found = logits(encoding, hidden, q, k, positions)
    for here in (slice(1, 5), slice(5, 6), slice(6, 9)):
        for row in range(2):
            alone = by_loops(encoding, hidden[row, here], q[row, :, here], k[row, :, here])
            close(found[row, :, here, here].tril(), alone)


def test_documents_that_are_mixed_together_are_the_documents_alone(close: Close) -> None:
    encoding, (hidden, q, k) = make(conv=1, block=3), inputs()
    segment, place = torch.arange(LENGTH)[None] % 2, torch.arange(LENGTH)
    found = logits(encoding, hidden, q, k, Positions(place, place, q_segment=segment, k_segment=segment))
    for first in (0, 1):
        here = slice(first, None, 2)
        close(found[0, :, here, here].tril(), by_loops(encoding, hidden[0, here], q[0, :, here], k[0, :, here]))


def test_a_padding_token_leaves_nothing_in_the_state() -> None:
    encoding, hidden = make(), random(1, 4, DIM)
    positions = Positions.padded(torch.tensor([[1, 1, 0, 0]]))
    states = [
        encoding.read(torch.cat((hidden[:, :2], end), 1), positions)[1] for end in (hidden[:, 2:], 9.0 + hidden[:, 2:])
    ]
    (tail, _, beta), (other, _, _) = states
    assert torch.equal(tail, other)
    assert tail.eq(0).all()
    assert beta[..., 2:].eq(0).all()


def test_gradients_are_those_of_the_function() -> None:
    encoding, (hidden, q, k) = make(block=2), inputs(5)
    hidden, q, k = (x[:1].clone().requires_grad_() for x in (hidden, q, k))
    names = [name for name, _ in encoding.named_parameters()]

    def value(hidden: Tensor, q: Tensor, k: Tensor, *parts: Tensor) -> Tensor:
        for name, part in zip(names, parts, strict=True):
            delattr(encoding, name)
            setattr(encoding, name, part)
        found, _ = encoding.read(hidden, Positions.sequence(5))
        return found(q, k, Positions.sequence(5), 1.0).tril()

    parts = [part.detach().clone().requires_grad_() for part in encoding.parameters()]
    assert torch.autograd.gradcheck(value, (hidden, q, k, *parts), fast_mode=True)


def test_products_of_many_reflections_in_float32_are_near_those_of_float64() -> None:
    torch.manual_seed(0)
    encoding = PaTH(16, 1, 8)
    with torch.no_grad():
        encoding.beta_bias.fill_(4.0)  # almost whole reflections, which forget nothing
    hidden, q, k = random(1, 300, 16), random(1, 1, 300, 8, seed=1), random(1, 1, 300, 8, seed=2)
    narrow = encoding.read(hidden.float(), Positions.sequence(300))[0]
    found = narrow(q.float(), k.float(), Positions.sequence(300), 1.0).detach().tril()
    exact = encoding.double().read(hidden, Positions.sequence(300))[0](q, k, Positions.sequence(300), 1.0)
    torch.testing.assert_close(found.double(), exact.detach().tril(), rtol=0, atol=1e-4)


def test_a_state_that_does_not_fit_the_keys_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="the state is of 0 earlier tokens, and these positions have 3 keys"):
        make().read(random(1, 1, DIM), Positions.step(3))


@pytest.mark.parametrize("name", ["dim", "kv_heads", "head_dim", "rank", "conv", "block"])
def test_sizes_below_1_are_refused(name: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=f"{name} must be at least 1, not 0"):
        PaTH(**{"dim": 4, "kv_heads": 1, "head_dim": 4, name: 0})
