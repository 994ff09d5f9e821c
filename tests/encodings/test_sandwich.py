from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import lengthwise as lw
from lengthwise import Positions, Sandwich, Sinusoidal

DISTANCES = [0, 1, 2, 16, 128, 1024]
DEFAULT = [0, -1.90631619, -6.61813945, -24.2983461, -42.7011596, -50.9157492]
FROM_ONE = [0, -1.44661851, -5.20199263, -22.3406879, -41.0083457, -50.9083411]


@pytest.mark.parametrize(("first", "numbers"), [(0, DEFAULT), (1, FROM_ONE)])
def test_values_are_those_of_the_formula_sheet(first: int, numbers: list[float]) -> None:
    bias = Sandwich(8, first=first).of_distance(torch.tensor(DISTANCES))
    for h in range(8):
        assert bias[h].tolist() == pytest.approx([value / (h + 1) for value in numbers], rel=1e-6)


def test_far_away_it_is_the_sum_in_double_precision() -> None:
    distance = [2**20, 2**20 + 1, 10**7]
    got = Sandwich(2, 64).of_distance(torch.tensor(distance))
    for h in (1, 2):
        want = [(sum(math.cos(d * 10000 ** (-k / 32)) for k in range(32)) - 32) / (8 * h / 2) for d in distance]
        assert got[h - 1].tolist() == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("start", [0, -3000, 2**40])
def test_many_whole_distances_give_the_numbers_of_each_by_itself(start: int) -> None:
    encoding, distance = Sandwich(3, 64, first=1), torch.arange(start, start + 5000)
    many = encoding.of_distance(distance.flip(0).view(2, 2500)).flatten(1).flip(1)
    torch.testing.assert_close(many, encoding.of_distance(distance.double()), rtol=1e-5, atol=0)


def test_many_distances_in_a_batch_run_under_vmap_and_without_real_numbers() -> None:
    encoding, distance = Sandwich(2, 8), torch.arange(3200).view(2, 40, 40)
    torch.testing.assert_close(torch.vmap(encoding.of_distance)(distance), encoding.of_distance(distance).movedim(1, 0))
    with FakeTensorMode():
        assert encoding.of_distance(torch.arange(3200)).shape == (2, 3200)


def test_it_is_the_inner_product_of_sinusoidal_positions_but_for_a_constant() -> None:
    x, positions = torch.zeros(1, 30, 32), Positions.sequence(30)
    table = Sinusoidal(32).embed_positions(x, positions)[0]
    product = table @ table.T
    bias = Sandwich(1, 32).logit_bias(positions).dense()[0]
    torch.testing.assert_close(8 * bias, product - 16, rtol=1e-4, atol=1e-4)


def test_it_is_symmetric_0_at_distance_0_and_not_quite_monotone() -> None:
    bias = Sandwich(4).of_distance(torch.arange(-40, 41))
    assert torch.equal(bias, bias.flip(-1))
    assert (bias[:, 40] == 0).all()
    behind = bias[0, 40:]
    rises = (behind.diff() > 0).nonzero().flatten()
    assert rises[0] == 11  # from distance 11 to 12
    assert (Sandwich(4, first=1).of_distance(torch.arange(20))[0].diff() > 0).nonzero()[0] == 13
    assert "nonincreasing" not in lw.claims(Sandwich(4))


def test_shapes_and_fractions_pass_through() -> None:
    encoding = Sandwich(3, 16)
    assert encoding.of_distance(torch.zeros(2, 4, 5, dtype=torch.int64)).shape == (3, 2, 4, 5)
    half = encoding.of_distance(torch.tensor([0.5]))[0].item()
    assert half == pytest.approx((sum(math.cos(0.5 * 10000 ** (-k / 8)) for k in range(8)) - 8) / (8 / 3), rel=1e-6)
    assert encoding.of_distance(torch.arange(3)).dtype == torch.float32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "Sandwich needs at least 1 head, not 0"),
        ({"heads": 1, "sandwich_dim": 7}, "sandwich_dim must be even and at least 2, not 7"),
        ({"heads": 1, "sandwich_dim": 0}, "sandwich_dim must be even and at least 2, not 0"),
        ({"heads": 1, "first": -1}, "first must be at least 0, not -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        Sandwich(**settings)


def test_it_is_exported_for_lengths_on_both_sides_of_where_the_table_begins() -> None:
    class Biased(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoding = Sandwich(heads=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            positions = Positions(torch.arange(x.shape[0]), torch.arange(x.shape[0]), aligned=True)
            return self.encoding.logit_bias(positions).dense()

    biased, length = Biased(), torch.export.Dim("length", min=2, max=1024)
    program = torch.export.export(biased, (torch.zeros(9),), dynamic_shapes={"x": {0: length}}, strict=False).module()
    for count in (9, 600):
        torch.testing.assert_close(program(torch.zeros(count)), biased(torch.zeros(count)))
