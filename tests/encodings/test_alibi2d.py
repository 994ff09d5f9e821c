from __future__ import annotations

import math

import pytest
import torch

import lengthwise as lw
from lengthwise import ALiBi, ALiBi2D, Positions


def grid(rows: int, columns: int) -> torch.Tensor:
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))[None]


def both(place: torch.Tensor, **settings: object) -> Positions:
    return Positions(place, place, causal=False, **settings)


def test_values_are_slopes_times_euclidean_distances() -> None:
    place = grid(5, 7)
    points = place[0].tolist()
    slopes = ALiBi(12).slopes
    bias = ALiBi2D(12).logit_bias(both(place)).dense()[0]
    for h in (0, 5, 11):
        want = [[-slopes[h] * math.dist(p, r) for r in points] for p in points]
        torch.testing.assert_close(bias[h], torch.tensor(want), rtol=1e-6, atol=0)


@pytest.mark.parametrize("heads", range(1, 65))
def test_slopes_are_those_of_alibi_for_every_head_count(heads: int) -> None:
    assert ALiBi2D(heads).slopes == pytest.approx(ALiBi(heads).slopes, rel=1e-12)


def test_in_one_row_and_in_one_column_it_is_alibi() -> None:
    line = ALiBi(6).logit_bias(Positions.sequence(30, causal=False)).dense()
    for place in (grid(1, 30), grid(30, 1)):
        assert torch.equal(ALiBi2D(6).logit_bias(both(place)).dense()[0], line)


def test_moving_and_turning_the_plane_changes_nothing() -> None:
    place = grid(4, 6)
    here = ALiBi2D(3).logit_bias(both(place)).dense()
    assert torch.equal(ALiBi2D(3).logit_bias(both(place + torch.tensor([2**20, -77]))).dense(), here)
    assert torch.equal(ALiBi2D(3).logit_bias(both(place.flip(-1))).dense(), here)
    assert torch.equal(here, here.transpose(-1, -2))


def test_far_points_are_told_apart_and_low_precision_changes_nothing() -> None:
    place = torch.tensor([[[0, 0], [2**20, 2**20], [2**20, 2**20 + 1]]])
    encoding = ALiBi2D(1).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        row = encoding.logit_bias(both(place)).dense()[0, 0, 0]
    assert row.dtype == torch.float32
    want = [-(2.0**-8) * math.dist((0, 0), p) for p in place[0].tolist()]
    assert row.tolist() == pytest.approx(want, rel=6e-8)
    assert row[1] > row[2]


def test_the_gradient_of_positions_is_finite_where_two_are_the_same() -> None:
    place = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [3.0, 4.0]]], requires_grad=True)
    ALiBi2D(1).logit_bias(Positions(place, place.detach(), causal=False)).dense()[0, 0, 0].sum().backward()
    want = torch.tensor([0.6, 0.8]) * 2.0**-8  # towards the third point
    torch.testing.assert_close(place.grad[0, 0], want)
    assert place.grad.isfinite().all()


def test_rows_of_a_batch_have_their_own_distances_and_attention_takes_them() -> None:
    place = torch.cat((grid(2, 3), 3 * grid(2, 3)))
    bias = ALiBi2D(2).logit_bias(both(place)).dense()
    assert bias.shape == (2, 2, 6, 6)
    torch.testing.assert_close(bias[1], 3 * bias[0])
    q = torch.randn(2, 2, 6, 4, generator=torch.Generator().manual_seed(0))
    outs = [lw.attention(q, q, q, ALiBi2D(2), both(place), backend=name) for name in ("reference", "sdpa")]
    torch.testing.assert_close(*outs)
    alone = lw.attention(q[1:], q[1:], q[1:], ALiBi2D(2), both(place[1:]), backend="reference")
    torch.testing.assert_close(outs[0][1:], alone)


def test_positions_of_another_number_of_axes_are_refused() -> None:
    for positions in (Positions.sequence(4), both(torch.zeros(1, 4, 3).long())):
        with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed here"):
            ALiBi2D(2).logit_bias(positions).dense()
    with pytest.raises(lw.InvalidArgument, match="ALiBi2D needs at least 1 head, not 0"):
        ALiBi2D(0)
