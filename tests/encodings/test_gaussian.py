from __future__ import annotations

import math

import pytest
import torch

import lengthwise as lw
from lengthwise import Gaussian, Positions

WIDTHS = [0.5, 3.0, 1000.0]


@pytest.mark.parametrize("learned", [False, True])
def test_values_are_those_of_the_formula_near_and_far(learned: bool) -> None:
    encoding = Gaussian(3, WIDTHS, learned)
    distance = [0, 1, 2, 9, 4097, 2**20]
    for sign in (1, -1):
        got = encoding.of_distance(sign * torch.tensor(distance))
        for h, width in enumerate(WIDTHS):
            assert got[h].tolist() == pytest.approx([-(d**2) / (2 * width**2) for d in distance], rel=2e-6)


def test_with_equal_logits_the_weights_are_a_bell() -> None:
    q = torch.zeros(1, 1, 21, 4)
    weights = lw.attention_weights(q, q, Gaussian(1, 3.0), Positions.sequence(21, causal=False))[0, 0, 10]
    bell = torch.tensor([math.exp(-((j - 10) ** 2) / 18) for j in range(21)])
    torch.testing.assert_close(weights, bell / bell.sum())


def test_one_width_serves_all_heads() -> None:
    assert Gaussian(3, 5).widths == [5.0, 5.0, 5.0]
    assert Gaussian(3, learned=True).widths == pytest.approx([16.0] * 3)


def test_learned_widths_have_the_gradient_of_the_formula_and_stay_positive() -> None:
    encoding = Gaussian(2, [2.0, 5.0], learned=True).double()
    distance = torch.tensor([[0, 1], [-3, 2**10]])
    encoding.of_distance(distance).sum().backward()
    squares = distance.double().square().sum().item()
    want = [squares / width**2 for width in encoding.widths]  # d(-D exp(-2s) / 2) / ds
    assert encoding.log_width.grad.tolist() == pytest.approx(want)
    with torch.no_grad():
        encoding.log_width.fill_(-5.0)
    assert encoding.widths == pytest.approx([math.exp(-5)] * 2)
    assert encoding.of_distance(torch.zeros(2)).abs().max() == 0
    encoding.reset_parameters()
    assert encoding.widths == pytest.approx([2.0, 5.0])


def test_it_is_0_at_distance_0_symmetric_and_falls_with_the_square() -> None:
    bias = Gaussian(2, [3.0, 40.0]).of_distance(torch.arange(-50, 51))
    assert (bias[:, 50] == 0).all()
    assert torch.equal(bias, bias.flip(-1))
    assert (bias[:, 50:].diff() < 0).all()
    torch.testing.assert_close(bias[:, 70], 4 * bias[:, 60])


@pytest.mark.parametrize("learned", [False, True])
def test_a_module_in_low_precision_still_tells_far_distances_apart(learned: bool) -> None:
    bias = Gaussian(2, learned=learned).bfloat16().of_distance(torch.arange(2000, 2300))
    assert bias.dtype == torch.float32
    assert (bias.diff() < 0).all()


def test_only_learned_widths_are_parameters() -> None:
    assert list(Gaussian(2).parameters()) == []
    assert [name for name, _ in Gaussian(2, learned=True).named_parameters()] == ["log_width"]
    built = lw.build("gaussian(width=[2, 4.5], learned=True)", lw.Dims(dim=16, heads=2))
    assert repr(built) == "Gaussian(heads=2, width=[2, 4.5], learned=True)"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "Gaussian needs at least 1 head, not 0"),
        ({"heads": 2, "width": [1.0]}, "width must be one number or 2, one for each head, not 1"),
        ({"heads": 1, "width": 0}, "widths must be above 0 and finite, not 0"),
        ({"heads": 2, "width": [1.0, math.inf]}, r"widths must be above 0 and finite, not \[1.0, inf\]"),
        ({"heads": 1, "width": math.nan}, "widths must be above 0 and finite, not nan"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        Gaussian(**settings)
