"""Biases whose distances are divided, by a fixed number or by how long the sequence is."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.extension import DynamicInterpolate, Interpolate

L = 30
INDEX = torch.arange(L, dtype=torch.float64)
FAR = (INDEX[:, None] - INDEX).clamp(min=0)
SEEN = torch.ones(L, L, dtype=torch.bool).tril()


def at_four(encoding: torch.nn.Module) -> Tensor:
    """The bias at a quarter of the distances, visible pairs only."""
    with torch.no_grad():
        return lw.extend(encoding, Interpolate(4)).logit_bias(lw.Positions.sequence(L)).dense() * SEEN


def same(values: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(values.double(), expected * SEEN, rtol=1e-5, atol=1e-5)


def test_interpolated_alibi_has_slopes_over_the_factor() -> None:
    slopes = torch.tensor([2.0 ** (-8 * h / 4) for h in (1, 2, 3, 4)], dtype=torch.float64)
    same(at_four(lw.ALiBi(4)), -slopes[:, None, None] / 4 * FAR)


def test_interpolated_kerple_is_its_formula_at_distance_over_the_factor() -> None:
    log = lw.KERPLE(2).set(r1=[1.0, 0.5], r2=[2.0, 0.25])
    r1, r2 = (torch.tensor(x, dtype=torch.float64)[:, None, None] for x in ([1.0, 0.5], [2.0, 0.25]))
    same(at_four(log), -r1 * torch.log1p(r2 * FAR / 4))
    power = lw.KERPLE(2, kernel="power").set(r1=[1.0, 0.5], r2=[1.5, 0.25])
    r2 = torch.tensor([1.5, 0.25], dtype=torch.float64)[:, None, None]
    same(at_four(power), -r1 * (FAR / 4) ** r2)


def test_interpolated_sandwich_is_its_sum_at_distance_over_the_factor() -> None:
    total = sum(torch.cos(FAR / 4 / 10000 ** (2 * k / 16)) for k in range(8)) - 8
    same(at_four(lw.Sandwich(2, sandwich_dim=16)), torch.stack((total / 4, total / 8)))


def test_interpolated_fire_is_its_formula_at_both_positions_over_the_factor() -> None:
    fire = lw.FIRE(2, threshold=3.0)
    c, limit = fire.c.item(), fire.multiplier.item() * 3.0
    whole = torch.log1p(c * torch.maximum(torch.tensor(limit), INDEX / 4))[:, None] + 1e-6
    x = torch.log1p(c * FAR / 4) / whole
    hidden = torch.relu(x[..., None] * fire.hidden_weight.detach().double() + fire.hidden_bias.detach().double())
    expected = hidden @ fire.head_weight.detach().double().T + fire.head_bias.detach().double()
    same(at_four(fire), expected.movedim(-1, 0))


def _bucket(distance: int) -> int:
    """T5's causal bucket of 32, from its definition."""
    if distance < 16:
        return distance
    return min(31, 16 + int(math.log(distance / 16) / math.log(128 / 16) * 16))


def test_interpolated_t5_has_the_bucket_of_the_whole_part_of_distance_over_the_factor() -> None:
    t5 = lw.T5Bias(2)
    distance = torch.arange(1200)
    with torch.no_grad():
        values = lw.extend(t5, Interpolate(4)).of_distance(distance)
    buckets = torch.tensor([_bucket(d // 4) for d in range(1200)])
    assert torch.equal(values, t5.table.detach()[buckets].T)
    assert len(set(buckets.tolist())) == 32


BIASES = ["alibi", "kerple", "kerple(kernel='power')", "t5", "sandwich", "alibi(learned=True)"]


@pytest.mark.parametrize("spec", BIASES)
def test_past_the_trained_length_dynamic_interpolation_is_interpolation_by_the_ratio(spec: str) -> None:
    plain = lw.build(spec, lw.Dims(dim=32, heads=4))
    at = lw.Positions.sequence(L)
    with torch.no_grad():
        dynamic = lw.extend(plain, DynamicInterpolate(original_length=12)).logit_bias(at).dense()
        fixed = lw.extend(plain, Interpolate(L / 12)).logit_bias(at).dense()
    torch.testing.assert_close(dynamic * SEEN, fixed * SEEN)
    assert not torch.allclose(dynamic * SEEN, plain.logit_bias(at).dense() * SEEN)


@pytest.mark.parametrize("spec", BIASES)
def test_up_to_the_trained_length_dynamic_interpolation_changes_no_bit(spec: str) -> None:
    plain = lw.build(spec, lw.Dims(dim=32, heads=4))
    for length in (1, 7, L):
        at = lw.Positions.sequence(length)
        longer = lw.extend(plain, DynamicInterpolate(original_length=L)).logit_bias(at)
        assert isinstance(longer, lw.DistanceBias)
        assert torch.equal(longer.dense(), plain.logit_bias(at).dense())


def test_with_a_fixed_target_the_last_row_of_one_pass_is_a_step() -> None:
    encoding = lw.extend(lw.ALiBi(4), DynamicInterpolate(original_length=5))
    whole = encoding.logit_bias(lw.Positions.sequence(9).with_target(9)).dense()
    step = encoding.logit_bias(lw.Positions.step(6).with_target(9)).dense()
    assert torch.equal(step[:, 0], whole[:, 6, :7])
    free = encoding.logit_bias(lw.Positions.step(6)).dense()
    assert not torch.equal(free[:, 0], whole[:, 6, :7])
    assert encoding.cached_keys == "rotated_at_target_length"


def test_the_length_of_padded_rows_is_that_of_their_positions() -> None:
    encoding = lw.extend(lw.ALiBi(1, max_bias=1), DynamicInterpolate(original_length=2))
    mask = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1]])  # four tokens, twice the trained length
    bias = encoding.logit_bias(lw.Positions.padded(mask)).dense()
    assert float(bias[0, 0, 7, 4]) == -0.5 * 3 / 2


def test_bad_settings_and_encodings_say_what_to_do() -> None:
    with pytest.raises(lw.InvalidArgument, match="at least 1, and is 0"):
        DynamicInterpolate(0)
    with pytest.raises(lw.InvalidArgument, match="DynamicInterpolate can't extend FIRE: it changes a bias of distance"):
        lw.extend(lw.FIRE(4), DynamicInterpolate(16))


def test_a_spec_takes_the_trained_length_of_the_model() -> None:
    encoding = lw.build("alibi + dynamic_interpolate()", lw.Dims(dim=32, heads=4, max_length=64))
    assert encoding.method == DynamicInterpolate(original_length=64)
