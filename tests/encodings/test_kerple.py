from __future__ import annotations

import math

import pytest
import torch

import lengthwise as lw
from lengthwise import KERPLE, ALiBi, Positions

R1, R2 = [0.3, 1.7, 0.01], [0.9, 0.02, 1.5]


def expected(kernel: str, r1: float, r2: float, distance: int) -> float:
    if kernel == "log":
        return -r1 * math.log(1 + r2 * distance)
    return -r1 * distance**r2


@pytest.mark.parametrize("kernel", ["log", "power"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_are_those_of_the_formula_near_and_far(kernel: str, dtype: torch.dtype) -> None:
    encoding = KERPLE(3, kernel).to(dtype).set(R1, R2)
    distance = [0, 1, 2, 3, 17, 1000, 2**20]
    numbers = [[expected(kernel, a, b, d) for d in distance] for a, b in zip(R1, R2, strict=True)]
    want = torch.tensor(numbers, dtype=torch.float64)
    for sign in (1, -1):
        got = encoding.of_distance(sign * torch.tensor(distance))
        assert got.dtype == dtype
        torch.testing.assert_close(got.double(), want, rtol=64 * torch.finfo(dtype).eps, atol=0)
        shaped = encoding.of_distance(sign * torch.tensor(distance[:6], dtype=dtype).view(2, 3))
        torch.testing.assert_close(shaped, got[:, :6].view(3, 2, 3), rtol=0, atol=0)


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_what_is_set_is_what_is_read(kernel: str) -> None:
    encoding = KERPLE(3, kernel).set(R1, R2)
    assert encoding.r1.tolist() == pytest.approx(R1, rel=1e-5)
    assert encoding.r2.tolist() == pytest.approx(R2, rel=1e-5)


@pytest.mark.parametrize(("kernel", "r1_below", "r2_below"), [("log", 2, 1), ("power", 1, 2)])
def test_first_values_are_uniform_in_the_published_ranges(kernel: str, r1_below: float, r2_below: float) -> None:
    torch.manual_seed(0)
    encoding = KERPLE(2000, kernel)
    for values, below in ((encoding.r1, r1_below), (encoding.r2, r2_below)):
        quarters = torch.quantile(values.detach(), torch.tensor([0.25, 0.5, 0.75])) / below
        torch.testing.assert_close(quarters, torch.tensor([0.25, 0.5, 0.75]), rtol=0, atol=0.04)
        assert values.min() >= 0.01 - 1e-6
        assert values.max() <= below


@pytest.mark.parametrize("kernel", ["log", "power"])
@pytest.mark.parametrize("reach", [-30.0, -3.0, 0.0, 3.0, 30.0])
def test_whatever_is_trained_the_bias_never_rises_and_is_0_at_distance_0(kernel: str, reach: float) -> None:
    encoding = KERPLE(2, kernel)
    torch.nn.init.constant_(encoding.free_r1, reach)
    torch.nn.init.constant_(encoding.free_r2, reach)
    bias = encoding.of_distance(torch.arange(200))
    assert bias.isfinite().all()
    assert (bias.diff() <= 0).all()
    assert (bias[:, 0] == 0).all()
    assert (encoding.r1 > 0).all()
    assert (encoding.r2 > 0).all()
    if kernel == "power":
        assert (encoding.r2 <= 2).all()


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_gradients_are_finite_on_the_diagonal_and_those_of_the_formula(kernel: str) -> None:
    encoding = KERPLE(1, kernel).double().set([0.7], [0.4])
    distance = torch.tensor([0.0, 1.0, 5.0], dtype=torch.float64, requires_grad=True)
    encoding.of_distance(distance).sum().backward()
    steps = 1e-6
    for name, other in (("free_r1", "free_r2"), ("free_r2", "free_r1")):
        ends = []
        for step in (steps, -steps):
            moved = KERPLE(1, kernel).double()
            with torch.no_grad():
                getattr(moved, other).copy_(getattr(encoding, other))
                getattr(moved, name).copy_(getattr(encoding, name) + step)
                ends.append(sum(expected(kernel, moved.r1.item(), moved.r2.item(), d) for d in (0, 1, 5)))
        assert getattr(encoding, name).grad.item() == pytest.approx((ends[0] - ends[1]) / (2 * steps), rel=1e-6)
    assert distance.grad.isfinite().all()  # the exponent is below 1, where the slope of a power at 0 is infinite


def test_the_power_kernel_with_exponent_1_is_alibi() -> None:
    alibi = ALiBi(8)
    kerple = KERPLE(8, "power").set(alibi.slopes, [1.0] * 8)
    positions = Positions.sequence(40, causal=False)
    torch.testing.assert_close(
        kerple.logit_bias(positions).dense(), alibi.logit_bias(positions).dense(), rtol=1e-5, atol=0
    )


@pytest.mark.parametrize("kernel", ["log", "power"])
def test_a_module_in_low_precision_still_tells_far_distances_apart(kernel: str) -> None:
    encoding = KERPLE(2, kernel).set([1.0, 1.0], [0.9, 0.9]).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        bias = encoding.of_distance(torch.arange(2000, 2300))
    assert bias.dtype == torch.float32
    assert (bias.diff() < 0).all()


def test_one_instance_serves_all_layers_as_published() -> None:
    assert KERPLE(2).shared


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: KERPLE(0), "KERPLE needs at least 1 head, not 0"),
        (lambda: KERPLE(1, "logarithm"), "unknown kernel 'logarithm': did you mean 'log'"),
        (lambda: KERPLE(2).set([1.0], [1.0, 1.0]), r"r1 must be 2 numbers between 0 and inf, not \[1.0\]"),
        (lambda: KERPLE(1).set([1.0], [0.0]), r"r2 must be 1 numbers between 0 and inf, not \[0.0\]"),
        (lambda: KERPLE(1, "power").set([1.0], [2.0]), r"r2 must be 1 numbers between 0 and 2, not \[2.0\]"),
        (lambda: KERPLE(1).set([math.nan], [1.0]), r"r1 must be 1 numbers between 0 and inf, not \[nan\]"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make: object, message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        make()
