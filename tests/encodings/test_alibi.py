from __future__ import annotations

import math
import warnings

import pytest
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

import lengthwise as lw
from lengthwise import ALiBi, Positions
from lengthwise.slopes import alibi_slopes

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from x_transformers.x_transformers import AlibiPositionalBias


@pytest.mark.parametrize("heads", range(1, 129))
def test_slopes_are_those_of_bloom_and_mpt_for_every_head_count(heads: int) -> None:
    slopes = torch.tensor(ALiBi(heads).slopes)
    bloom = build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]  # slope times 1
    mpt = -build_mpt_alibi_tensor(heads, 2)[:, 0, 0]
    torch.testing.assert_close(slopes, bloom, rtol=2e-6, atol=0)  # BLOOM raises a float32 ratio to powers
    torch.testing.assert_close(slopes, mpt, rtol=2e-7, atol=0)


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (1, [2**-8]),
        (2, [2**-4, 2**-8]),
        (3, [2**-4, 2**-8, 2**-2]),
        (6, [0.25, 0.0625, 0.015625, 0.00390625, 0.5, 0.125]),
        (8, [2**-h for h in range(1, 9)]),
        (12, [*(2**-h for h in range(1, 9)), 0.707106781, 0.353553391, 0.176776695, 0.0883883476]),
    ],
)
def test_slopes_equal_the_numbers_of_the_formula_sheet(heads: int, expected: list[float]) -> None:
    assert alibi_slopes(heads) == pytest.approx(expected, rel=1e-8)


def test_another_maximum_bias_is_that_of_mpt() -> None:
    mpt = -build_mpt_alibi_tensor(6, 2, alibi_bias_max=16)[:, 0, 0]
    torch.testing.assert_close(torch.tensor(ALiBi(6, max_bias=16).slopes), mpt, rtol=2e-7, atol=0)


@pytest.mark.parametrize("heads", [1, 3, 8, 12])
def test_after_softmax_it_is_the_bias_of_bloom_and_mpt(heads: int) -> None:
    length = 40
    visible = torch.ones(length, length, dtype=torch.bool).tril()
    own = ALiBi(heads).logit_bias(Positions.sequence(length)).dense()
    bloom = build_alibi_tensor(torch.ones(1, length), heads, torch.float32).view(heads, 1, length).expand_as(own)
    mpt = build_mpt_alibi_tensor(heads, length).expand_as(own)
    logits = torch.randn(heads, length, length, generator=torch.Generator().manual_seed(0))
    weights = [(logits + bias).masked_fill(~visible, -math.inf).softmax(-1) for bias in (own, bloom, mpt)]
    torch.testing.assert_close(weights[0], weights[1], rtol=2e-4, atol=1e-6)
    torch.testing.assert_close(weights[0], weights[2], rtol=2e-5, atol=1e-6)


def test_it_is_zero_on_the_diagonal_linear_and_symmetric() -> None:
    bias = ALiBi(5).logit_bias(Positions.sequence(30, causal=False))
    dense, vector = bias.dense(), bias.vector()
    assert dense.diagonal(dim1=1, dim2=2).abs().max() == 0
    assert torch.equal(dense, dense.transpose(1, 2))
    assert torch.equal(vector, vector.flip(-1))
    distance = torch.arange(1, 100)
    assert torch.equal(ALiBi(5).of_distance(2 * distance), 2 * ALiBi(5).of_distance(distance))
    assert (vector <= 0).all()


def test_every_distance_has_its_own_bias_whatever_the_dtype_of_the_module() -> None:
    encoding = ALiBi(8).to(torch.bfloat16).half()
    far = Positions(torch.arange(2**20, 2**20 + 2048), torch.arange(2**20, 2**20 + 2048))
    with torch.autocast("cpu", torch.bfloat16):
        row = encoding.logit_bias(far.replace(q=far.q[-1:])).dense()
    assert row.dtype == torch.float32
    assert all(len(line.unique()) == 2048 for line in row[:, 0])
    expected = torch.tensor([2.0**-h for h in range(1, 9)])[:, None] * -torch.arange(2047, -1, -1)
    assert torch.equal(row[:, 0], expected)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "ALiBi needs at least 1 head, not 0"),
        ({"heads": 2, "max_bias": 0}, "max_bias must be above 0, not 0"),
        ({"heads": 2, "max_bias": math.nan}, "max_bias must be above 0, not nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        ALiBi(**settings)


@pytest.mark.parametrize("heads", [1, 3, 8, 12])
@pytest.mark.parametrize("learned", [False, True])
def test_it_is_the_symmetric_bias_of_x_transformers(heads: int, learned: bool) -> None:
    theirs = AlibiPositionalBias(heads)(7, 9)  # the queries are the last of the keys
    ours = ALiBi(heads, learned=learned).logit_bias(Positions.step(2, 7)).dense()
    torch.testing.assert_close(ours, theirs, rtol=2e-6, atol=0)


@pytest.mark.parametrize("heads", [1, 5, 8])
def test_learned_slopes_begin_as_the_published_ones_none_of_them_clamped(heads: int) -> None:
    encoding = ALiBi(heads, learned=True)
    assert encoding.slopes == pytest.approx(alibi_slopes(heads), rel=1e-6)
    with torch.no_grad():
        encoding.log_slopes.zero_()
    assert encoding.slopes == [1.0] * heads
    encoding.reset_parameters()
    assert encoding.slopes == pytest.approx(alibi_slopes(heads), rel=1e-6)


def test_training_moves_learned_slopes_and_leaves_them_positive() -> None:
    encoding = ALiBi(4, learned=True)
    optimizer = torch.optim.SGD(encoding.parameters(), lr=0.01)
    for _ in range(20):  # rewards a bias that rises with distance
        optimizer.zero_grad()
        (-encoding.of_distance(torch.arange(50)).mean()).backward()
        optimizer.step()
    assert all(0 < slope < first for slope, first in zip(encoding.slopes, alibi_slopes(4), strict=True))


def test_the_gradient_of_a_learned_slope_is_the_sum_over_distances() -> None:
    encoding = ALiBi(3, learned=True).double()
    distance = torch.tensor([[0, 1], [5, -7]])
    encoding.of_distance(distance).sum().backward()
    expected = torch.tensor([-13.0 * slope for slope in encoding.slopes], dtype=torch.float64)  # d(-e^s 13) / ds
    torch.testing.assert_close(encoding.log_slopes.grad, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_learned_slopes_in_low_precision_still_give_a_float32_bias(dtype: torch.dtype) -> None:
    bias = ALiBi(8, learned=True).to(dtype).of_distance(torch.tensor([2**20, 2**20 + 1]))
    assert bias.dtype == torch.float32
    assert (bias[:, 0] > bias[:, 1]).all()
    assert ALiBi(8, learned=True).double().of_distance(torch.arange(3)).dtype == torch.float64


def test_only_learned_slopes_are_parameters() -> None:
    assert list(ALiBi(4).parameters()) == []
    assert [name for name, _ in ALiBi(4, learned=True).named_parameters()] == ["log_slopes"]
    assert repr(ALiBi(4)) == "ALiBi(heads=4, max_bias=8)"
    assert repr(ALiBi(4, learned=True)) == "ALiBi(heads=4, max_bias=8, learned=True)"
