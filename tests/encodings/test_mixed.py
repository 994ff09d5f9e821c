from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions
from lengthwise.encodings.mixed import MixedRotary

Close = Callable[..., None]
GRID = torch.cartesian_prod(torch.arange(3), torch.arange(5))  # [15, 2]: (row, column), row by row


def at(place: Tensor) -> Positions:
    return Positions(place[None], place[None], causal=False)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_each_pair_of_each_head_turns_by_column_and_row_times_its_frequencies(close: Close) -> None:
    encoding = MixedRotary(kv_heads=2, head_dim=8)
    x = normal(1, 4, 15, 8)
    of_row, of_column = encoding.frequencies.tolist()
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2))).clone()
    for h in range(4):
        for t, (row, column) in enumerate(GRID.tolist()):
            for m in range(4):
                angle = column * of_column[h // 2][m] + row * of_row[h // 2][m]
                pairs[0, h, t, m] *= complex(math.cos(angle), math.sin(angle))
    expected = torch.view_as_real(pairs).flatten(-2)
    close(encoding.rotation(at(GRID)).q(x), expected, of=torch.float32)


def test_the_first_frequencies_have_the_published_magnitudes_and_two_directions_at_right_angles(close: Close) -> None:
    torch.manual_seed(0)
    of_row, of_column = MixedRotary(kv_heads=5, head_dim=32).frequencies.detach()
    magnitude = torch.tensor([10 ** (-4 * m / 32) for m in range(8)])
    close((of_row**2 + of_column**2).sqrt(), magnitude.repeat(2).expand(5, -1))
    direction = torch.atan2(of_row, of_column)
    close(direction[:, :8], direction[:, :1].expand(-1, 8))
    turn = (direction[:, 8:] - direction[:, :8]) % (2 * math.pi)
    close(turn, torch.full((5, 8), math.pi / 2), times=4)
    assert len(direction[:, 0].unique()) == 5  # each head has its own


def test_the_draw_comes_from_torchs_generator_and_covers_the_circle() -> None:
    torch.manual_seed(3)
    one = MixedRotary(kv_heads=400, head_dim=4)
    torch.manual_seed(3)
    other = MixedRotary(kv_heads=400, head_dim=4)
    assert torch.equal(one.frequencies, other.frequencies)
    row, column = one.frequencies.detach()[..., 0]
    quarters = torch.bincount((row > 0).int() * 2 + (column > 0).int(), minlength=4)
    assert quarters.min() > 60


def test_axial_frequencies_are_a_special_case(close: Close) -> None:
    mixed = MixedRotary(kv_heads=1, head_dim=16, base=100.0)
    with torch.no_grad():
        mixed.frequencies.zero_()
        for m in range(4):
            mixed.frequencies[1, :, m] = mixed.frequencies[0, :, 4 + m] = 100.0 ** (-4 * m / 16)
    axial = lw.build("axial", lw.Dims(dim=16, heads=1))
    x = normal(1, 2, 15, 16)
    close(mixed.rotation(at(GRID)).q(x), axial.rotation(at(GRID)).q(x))


def test_shifts_along_either_axis_leave_the_logits_as_they_are(close: Close) -> None:
    encoding, q, k = MixedRotary(2, 8), normal(1, 4, 15, 8).double(), normal(1, 2, 15, 8).double()

    def logits(shift: tuple[int, int]) -> Tensor:
        turned_q, turned_k = encoding.rotation(at(GRID + torch.tensor(shift)))(q, k)
        return turned_q @ turned_k.repeat_interleave(2, 1).transpose(-1, -2)

    for shift in ((7, 0), (0, 7), (100, -50)):
        close(logits(shift), logits((0, 0)), of=torch.float32)


def test_frequencies_learn_and_far_positions_keep_their_digits() -> None:
    encoding = MixedRotary(2, 8)
    near = encoding.rotation(at(GRID))
    (near.q_cos.sum() + near.k_sin.sum()).backward()
    assert encoding.frequencies.grad is not None
    assert (encoding.frequencies.grad != 0).all()
    far = encoding.rotation(at(GRID + 2**20))
    w = encoding.frequencies.detach().double()
    place = (GRID + 2**20).double()
    angle = place[:, None, 1, None] * w[1] + place[:, None, 0, None] * w[0]  # [15, 2, 4]
    torch.testing.assert_close(far.q_cos[0].double(), angle.cos().transpose(0, 1), rtol=1e-6, atol=1e-6)


class Turned(nn.Module):
    """Queries turned by an encoding, as a module whose parameters can be put in."""

    def __init__(self, encoding: nn.Module) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, x: Tensor) -> Tensor:
        return self.encoding.rotation(at(GRID[:6])).q(x)


def test_gradients_of_a_float64_module_are_exact() -> None:
    turned, x = Turned(MixedRotary(2, 8).double()), normal(1, 2, 6, 8).double()
    names = [name for name, _ in turned.named_parameters()]

    def of(*values: Tensor) -> Tensor:
        return torch.func.functional_call(turned, dict(zip(names, values, strict=True)), (x,))

    values = tuple(value.detach().clone().requires_grad_() for value in turned.parameters())
    assert of(*values).dtype == torch.float64
    assert torch.autograd.gradcheck(of, values, fast_mode=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kv_heads": 0}, "MixedRotary needs at least 1 key head, not 0"),
        ({"head_dim": 6}, "MixedRotary needs a head_dim that 4 divides, for pairs along two directions, not 6"),
        ({"base": -1.0}, "base must be above 0, not -1.0"),
        ({"layout": "interleave"}, r"unknown layout 'interleave': did you mean 'interleaved'\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        MixedRotary(**{"kv_heads": 2, "head_dim": 8} | settings)


def test_positions_of_one_axis_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed here"):
        MixedRotary(2, 8).rotation(Positions.sequence(3))
