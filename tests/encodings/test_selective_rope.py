from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import Positions, SelectiveRoPE

Close = Callable[..., None]
DIM, HEADS, HEAD_DIM, LENGTH = 12, 2, 4, 9


def make(**settings: float) -> SelectiveRoPE:
    torch.manual_seed(0)
    return SelectiveRoPE(DIM, HEADS, HEAD_DIM, **{"rank": 5, **settings}).double()


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def constant() -> SelectiveRoPE:
    """Steps of 1 for every token, whatever the hidden states of unit slices (1, 0, 0, 0) are."""
    encoding = SelectiveRoPE(DIM, HEADS, HEAD_DIM, rank=1).double()
    with torch.no_grad():
        encoding.down.zero_()
        encoding.down[0, 0] = 1.0
        encoding.up.fill_(1.0)
        encoding.conv_weight.zero_()
        encoding.conv_weight[:, -1] = 1.0
    return encoding


@torch.no_grad()
def angles_by_loops(encoding: SelectiveRoPE, hidden: Tensor) -> Tensor:
    """Angles `[length, kv_heads, pairs]` of one document, from the formula."""
    low = []
    for x in hidden:
        slices = [part / math.sqrt(float(part @ part)) for part in x.split(HEAD_DIM)]
        low.append(encoding.up @ (encoding.down @ torch.cat(slices)))
    total, out = torch.zeros(HEADS * HEAD_DIM // 2, dtype=torch.float64), []
    for t in range(len(hidden)):
        for back in range(min(encoding.conv, t + 1)):
            total = total + encoding.conv_weight[:, encoding.conv - 1 - back] * low[t - back]
        angles = total.clone().view(HEADS, HEAD_DIM // 2)
        for m in range(HEAD_DIM // 2):
            angles[:, m] *= encoding.temp_max * encoding.base ** (-2 * m / HEAD_DIM)
        out.append(angles)
    return torch.stack(out).detach()


@pytest.mark.parametrize("settings", [{}, {"conv": 1}, {"conv": 6, "base": 10.0, "temp_max": 0.5}])
def test_angles_are_running_sums_of_the_convolved_steps(settings: dict[str, float], close: Close) -> None:
    encoding, hidden = make(**settings), random(2, LENGTH, DIM)
    rotation, _ = encoding.read(hidden, Positions.sequence(LENGTH))
    for row in range(2):
        angles = angles_by_loops(encoding, hidden[row]).transpose(0, 1)
        close(rotation.q_cos[row].detach(), angles.cos(), of=torch.float32)
        close(rotation.q_sin[row].detach(), angles.sin(), of=torch.float32)
    assert rotation.layout == "half"
    assert rotation.k_cos is rotation.q_cos


def test_steps_of_1_give_rope_at_positions_from_1(close: Close) -> None:
    hidden = torch.zeros(1, LENGTH, DIM).double()
    hidden[..., 0] = 3.0
    rotation, _ = constant().read(hidden, Positions.sequence(LENGTH))
    place = torch.arange(1, LENGTH + 1)
    q, k = random(1, HEADS, LENGTH, HEAD_DIM), random(1, HEADS, LENGTH, HEAD_DIM, seed=1)
    rope = lw.Rotary(HEAD_DIM, base=500000.0)
    for mine, theirs in zip(rotation(q, k), rope.rotation(Positions(place, place))(q, k), strict=True):
        close(mine.detach(), theirs, of=torch.float32)
    close(lw.attention(q, k, k, constant(), hidden=hidden).detach(), lw.attention(q, k, k, rope), of=torch.float32)


def test_the_length_of_a_slice_does_not_matter_and_its_direction_does(close: Close) -> None:
    encoding, hidden = make(), random(1, LENGTH, DIM)
    cosines = encoding.read(hidden, Positions.sequence(LENGTH))[0].q_cos
    longer = (hidden.unflatten(-1, (-1, HEAD_DIM)) * torch.tensor([2.0, 0.1, 7.0])[:, None]).flatten(-2)
    close(encoding.read(longer, Positions.sequence(LENGTH))[0].q_cos, cosines)
    assert not torch.allclose(encoding.read(hidden.flip(-1), Positions.sequence(LENGTH))[0].q_cos, cosines, atol=1e-3)


def test_norms_are_kept(close: Close) -> None:
    rotation, _ = make().read(random(2, LENGTH, DIM), Positions.sequence(LENGTH))
    q = random(2, 2 * HEADS, LENGTH, HEAD_DIM)
    close(rotation.q(q).norm(dim=-1).detach(), q.norm(dim=-1), of=torch.float32)


@pytest.mark.parametrize("chunks", [[1] * LENGTH, [4, 5], [2, 1, 6], [0, 9]])
def test_in_chunks_with_a_state_it_is_one_pass(chunks: list[int], close: Close) -> None:
    encoding, hidden = make(), random(2, LENGTH, DIM)
    whole, _ = encoding.read(hidden, Positions.sequence(LENGTH))
    state, past, parts = None, 0, []
    for count in chunks:
        part, state = encoding.read(hidden[:, past : past + count], Positions.step(past, count), state)
        parts.append(part.k_sin)
        past += count
    close(torch.cat(parts, dim=2), whole.k_sin, of=torch.float64)


def differences(encoding: SelectiveRoPE, hidden: Tensor, positions: Positions) -> Tensor:
    """q_i · k_j of constant queries and keys: what angles of pairs of tokens decide."""
    rotation, _ = encoding.read(hidden, positions)
    ones = torch.ones(hidden.shape[0], HEADS, hidden.shape[1], HEAD_DIM, dtype=torch.float64)
    return (rotation.q(ones) @ rotation.k(ones).transpose(-1, -2)).detach()


def test_documents_and_padding_in_a_row_do_not_reach_into_each_other(close: Close) -> None:
    encoding, hidden = make(), random(1, LENGTH, DIM)
    segment, place = torch.tensor([[-1, 0, 0, 0, 1, 1, 1, 1, -1]]), torch.arange(LENGTH)
    found = differences(encoding, hidden, Positions(place, place, q_segment=segment, k_segment=segment))
    for here in (slice(1, 4), slice(4, 8)):
        alone = differences(encoding, hidden[:, here], Positions.sequence(here.stop - here.start))
        close(found[:, :, here, here], alone, of=torch.float32)


def test_rows_that_share_their_documents_keep_their_own_sums(close: Close) -> None:
    encoding, hidden, positions = make(), random(3, 7, DIM), Positions.packed([3, 4])
    whole, _ = encoding.read(hidden, positions)
    for row in range(3):
        alone, _ = encoding.read(hidden[row : row + 1], positions)
        close(whole.q_cos[row].detach(), alone.q_cos[0].detach())


def test_padding_leaves_nothing_in_the_state() -> None:
    encoding, hidden = make(), random(1, 5, DIM)
    _, (tail, last) = encoding.read(hidden, Positions.padded(torch.tensor([[0, 0, 0, 0, 0]])))
    assert tail.eq(0).all()
    assert last.eq(0).all()


def test_angles_far_along_a_sequence_keep_their_digits(close: Close) -> None:
    hidden = torch.zeros(1, 1, DIM)
    hidden[..., 0] = 1.0
    encoding = constant().float()
    tail, last = torch.zeros(1, 3, HEADS * HEAD_DIM // 2), torch.full((1, HEADS, 1, HEAD_DIM // 2), 2.0**24).double()
    rotation, _ = encoding.read(hidden, Positions.step(7), (tail, last))
    close(rotation.q_cos[0, 0, 0, 0].detach(), torch.tensor(math.cos(2**24 + 1)))


def test_gradients_are_those_of_the_function() -> None:
    encoding = make()
    names = [name for name, _ in encoding.named_parameters()]

    def value(hidden: Tensor, *parts: Tensor) -> Tensor:
        for name, part in zip(names, parts, strict=True):
            delattr(encoding, name)
            setattr(encoding, name, part)
        # Cosines are float32, too coarse for differences: the state keeps the float64 sums.
        _, (tail, last) = encoding.read(hidden, Positions.sequence(5))
        return torch.cat((tail.flatten(), last.flatten()))

    parts = [part.detach().clone().requires_grad_() for part in encoding.parameters()]
    assert torch.autograd.gradcheck(value, (random(1, 5, DIM).requires_grad_(), *parts), fast_mode=True)


def test_the_rotation_hands_its_gradient_to_every_weight() -> None:
    encoding, hidden = make(), random(1, 5, DIM).requires_grad_()
    differences_of = encoding.read(hidden, Positions.sequence(5))[0].q(torch.ones(1, HEADS, 5, HEAD_DIM))
    (differences_of * random(1, HEADS, 5, HEAD_DIM, seed=3)).sum().backward()
    assert all(part.grad.abs().sum() > 0 for part in (hidden, *encoding.parameters()))


def test_keys_without_a_state_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="the state is of 0 earlier tokens, and these positions have 3 keys"):
        make().read(random(1, 1, DIM), Positions.step(3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 3}, "an even head_dim and a dim that is a multiple of it, not 3 and 12"),
        ({"head_dim": 8}, "an even head_dim and a dim that is a multiple of it, not 8 and 12"),
        ({"rank": 0}, "kv_heads, rank and conv must be at least 1, not 2, 0 and 4"),
        ({"base": 0.0}, "base and temp_max must be above 0, not 0.0 and 1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        SelectiveRoPE(**{"dim": DIM, "kv_heads": HEADS, "head_dim": HEAD_DIM, **settings})
