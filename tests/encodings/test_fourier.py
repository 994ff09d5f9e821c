from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import LearnableFourier, Positions

NAMES = ("frequencies", "hidden_weight", "hidden_bias", "out_weight", "out_bias")


def grid(height: int, width: int) -> Tensor:
    return torch.cartesian_prod(torch.arange(height), torch.arange(width))[None]


def by_hand(encoding: LearnableFourier, place: list[float]) -> list[float]:
    """The formula for one position in plain Python."""
    W_r, W_1, b_1, W_2, b_2 = (getattr(encoding, name).double().tolist() for name in NAMES)
    angles = [sum(w * p for w, p in zip(row, place, strict=True)) for row in W_r]
    f = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
    f = [value / math.sqrt(len(f)) for value in f]
    hidden = [sum(w * x for w, x in zip(row, f, strict=True)) + b for row, b in zip(W_1, b_1, strict=True)]
    hidden = [h * 0.5 * (1 + math.erf(h / math.sqrt(2))) for h in hidden]
    return [sum(w * x for w, x in zip(row, hidden, strict=True)) + b for row, b in zip(W_2, b_2, strict=True)]


@pytest.mark.parametrize(("axes", "place"), [(1, [4095.0]), (2, [3.0, 17.0]), (3, [5.0, 0.0, 30.0])])
def test_it_equals_the_formula_in_float64(axes: int, place: list[float]) -> None:
    torch.manual_seed(axes)
    encoding = LearnableFourier(dim=6, axes=axes, features=10, hidden=4, gamma=2.0)
    points = torch.tensor([[place]])  # [1, 1, axes]
    with torch.no_grad():
        out = encoding.embed_positions(torch.zeros(1, 1, 6), Positions(points, points, causal=False))
        double = encoding.double().vectors(points)
    assert out[0, 0].tolist() == pytest.approx(by_hand(encoding, place), abs=1e-6)
    assert double[0, 0].tolist() == pytest.approx(by_hand(encoding, place), abs=1e-12)


def test_it_is_a_perceptron_of_torch_on_the_features() -> None:
    torch.manual_seed(0)
    encoding = LearnableFourier(dim=6, axes=2)
    perceptron = nn.Sequential(nn.Linear(768, 32), nn.GELU(), nn.Linear(32, 6))
    names = dict(zip(NAMES[1:], ("0.weight", "0.bias", "2.weight", "2.bias"), strict=True))
    perceptron.load_state_dict({theirs: getattr(encoding, ours) for ours, theirs in names.items()})
    place = grid(3, 4)
    with torch.no_grad():
        torch.testing.assert_close(encoding.vectors(place), perceptron(encoding.fourier(place).float()))


def test_the_product_of_features_depends_on_the_difference_alone_and_is_gaussian_on_average_at_first() -> None:
    torch.manual_seed(0)
    encoding = LearnableFourier(dim=2, axes=2, features=100_000, gamma=3.0)
    with torch.no_grad():
        place = torch.tensor([[0.0, 0.0], [2.0, 1.0], [50.0, 40.0], [52.0, 41.0], [0.0, 4.0]])
        f = encoding.fourier(place)
    product = f @ f.T
    assert product[0, 1].item() == pytest.approx(product[2, 3].item(), abs=1e-9)
    for one, other in ((0, 1), (0, 4), (1, 4)):
        distance = (place[one] - place[other]).square().sum().item()
        expected = 0.5 * math.exp(-distance / (2 * 3.0**2))
        assert product[one, other].item() == pytest.approx(expected, abs=4 / math.sqrt(100_000))


def test_the_first_values_are_those_of_the_ports() -> None:
    torch.manual_seed(0)
    encoding = LearnableFourier(dim=16, gamma=10.0)
    assert {name: tuple(part.shape) for name, part in encoding.named_parameters()} == {
        "frequencies": (384, 1),
        "hidden_weight": (32, 768),
        "hidden_bias": (32,),
        "out_weight": (16, 32),
        "out_bias": (16,),
    }
    assert encoding.frequencies.std().item() == pytest.approx(0.1, rel=0.15)
    assert all(part.dtype == torch.float32 for part in encoding.parameters())
    for weight in (encoding.hidden_weight, encoding.out_weight):  # uniform within 1 / sqrt(inputs), as nn.Linear
        bound = weight.shape[1] ** -0.5
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.1)


def test_one_axis_takes_plain_padded_and_packed_positions() -> None:
    encoding = LearnableFourier(dim=4, features=8, hidden=4)
    with torch.no_grad():
        vectors = encoding.vectors(torch.arange(5).unsqueeze(-1))
        x = torch.zeros(2, 5, 4)
        assert torch.equal(encoding.embed_positions(x, Positions.sequence(5)), vectors.expand(2, 5, 4))
        packed = encoding.embed_positions(x[:1], Positions.packed([3, 2]))
        torch.testing.assert_close(packed[0], vectors[[0, 1, 2, 0, 1]])
        padded = encoding.embed_positions(x, Positions.padded(torch.tensor([[0, 0, 1, 1, 1], [1] * 5])))
        torch.testing.assert_close(padded[0, 2:], vectors[:3])
        torch.testing.assert_close(padded[1], vectors)


def test_fractions_are_positions_like_others() -> None:
    encoding = LearnableFourier(dim=4, features=8, hidden=4)
    half = torch.tensor([0.5, 1.5])
    out = encoding.embed_positions(torch.zeros(1, 2, 4), Positions(half, half))
    assert out[0, 1].tolist() == pytest.approx(by_hand(encoding, [1.5]), abs=1e-6)


def test_every_parameter_has_its_gradient_in_float64() -> None:
    torch.manual_seed(0)
    encoding = LearnableFourier(dim=3, axes=2, features=6, hidden=4).double()
    encoding.forward = lambda: encoding.vectors(grid(2, 2))

    def output(*values: Tensor) -> Tensor:
        return torch.func.functional_call(encoding, dict(zip(NAMES, values, strict=True)), ())

    assert torch.autograd.gradcheck(output, tuple(getattr(encoding, name) for name in NAMES))


def test_neither_autocast_nor_a_module_in_low_precision_narrows_the_angles() -> None:
    torch.manual_seed(0)
    encoding = LearnableFourier(dim=4)
    place = torch.tensor([[100_000.0], [100_001.0]])
    with torch.no_grad():
        plain = encoding.vectors(place)
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(encoding.vectors(place), plain)
        low = encoding.bfloat16()
        assert low.vectors(place).dtype == torch.float32
        torch.testing.assert_close(low.vectors(place).double(), low.double().vectors(place), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(plain[0], plain[1], atol=1e-3)


def test_positions_of_another_number_of_axes_are_refused() -> None:
    x = torch.zeros(1, 6, 4)
    with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed"):
        LearnableFourier(4, axes=2).embed_positions(x, Positions.sequence(6))
    with pytest.raises(lw.InvalidArgument, match="positions of one axis are needed"):
        LearnableFourier(4).embed_positions(x, Positions(grid(2, 3), grid(2, 3)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0}, "needs dim of at least 1, not 0"),
        ({"dim": 4, "axes": 0}, "needs axes of at least 1, not 0"),
        ({"dim": 4, "hidden": 0}, "needs hidden of at least 1, not 0"),
        ({"dim": 4, "features": 7}, "features must be even, for a cosine and a sine each, not 7"),
        ({"dim": 4, "gamma": 0.0}, r"gamma is a distance between positions, above 0 and finite, not 0\.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        LearnableFourier(**settings)
