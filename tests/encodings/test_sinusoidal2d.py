from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from transformers.models.aimv2.modeling_aimv2 import build_2d_sinusoidal_position_embedding

import lengthwise as lw
from lengthwise import Positions, Sinusoidal2D


def grid(height: int, width: int) -> Tensor:
    """Points (row, column), row by row: `[1, height * width, 2]`."""
    return torch.cartesian_prod(torch.arange(height), torch.arange(width))[None]


def published(row: float, column: float, dim: int, base: float = 10000.0) -> list[float]:
    """MAE's vector of a patch in float64: the half called h is fed the column, since the grid is made width first."""
    quarter = dim // 4
    out: list[float] = []
    for coordinate in (column, row):
        angles = [coordinate / base ** (m / quarter) for m in range(quarter)]
        out += [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
    return out


@pytest.mark.parametrize("base", [10000.0, 100.0])
def test_the_default_is_the_published_table_with_the_column_first(base: float) -> None:
    place = grid(5, 7)
    table = Sinusoidal2D(16, base).table(place)[0]
    expected = torch.tensor([published(r, c, 16, base) for r, c in place[0].tolist()])
    torch.testing.assert_close(table, expected, rtol=0, atol=3e-7)


@pytest.mark.parametrize(("height", "width"), [(3, 5), (4, 4), (1, 6)])
def test_row_first_is_the_table_of_transformers_with_the_height_first(height: int, width: int) -> None:
    theirs = build_2d_sinusoidal_position_embedding(height, width, embed_dim=32)
    table = Sinusoidal2D(32, first="row").table(grid(height, width))[0]
    torch.testing.assert_close(table, theirs.reshape(height * width, 32))


def test_the_two_orders_swap_the_halves() -> None:
    place = grid(3, 4)
    column, row = (Sinusoidal2D(8, first=first).table(place) for first in ("column", "row"))
    assert torch.equal(column, torch.cat((row[..., 4:], row[..., :4]), -1))
    assert not torch.equal(column, row)


def test_the_product_of_two_patches_depends_on_their_differences_alone() -> None:
    table = Sinusoidal2D(32).table(grid(6, 6))[0].double().reshape(6, 6, 32)
    here = (table[1, 2] * table[0, 5]).sum()
    there = (table[5, 2] * table[4, 5]).sum()
    assert here.item() == pytest.approx(there.item(), abs=1e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_each_row_of_a_batch_gets_its_own_points_in_the_dtype_of_the_embeddings(dtype: torch.dtype) -> None:
    place = torch.stack((grid(2, 3)[0], grid(3, 2)[0]))
    encoding = Sinusoidal2D(8)
    x = torch.ones(2, 6, 8, dtype=dtype)
    out = encoding.embed_positions(x, Positions(place, place, causal=False))
    assert out.dtype == dtype
    for row in range(2):
        alone = encoding.embed_positions(x[:1], Positions(place[row : row + 1], place[row : row + 1], causal=False))
        assert torch.equal(out[row], alone[0])
        assert torch.equal(out[row], (x[row] + encoding.table(place[row]).to(dtype)))


def test_positions_of_another_number_of_axes_are_refused() -> None:
    x = torch.zeros(1, 6, 8)
    three = torch.zeros(1, 6, 3).long()
    for positions in (Positions.sequence(6), Positions(three, three)):
        with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed"):
            Sinusoidal2D(8).embed_positions(x, positions)
    with pytest.raises(lw.InvalidArgument, match="do not match positions of"):
        Sinusoidal2D(8).embed_positions(x, Positions(grid(1, 5), grid(1, 5)))
    assert Sinusoidal2D(8).axes == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 6}, "a dim that 4 divides, for a sine and a cosine of each coordinate, not 6"),
        ({"dim": 0}, "not 0"),
        ({"dim": 8, "base": -1.0}, r"base must be above 0, not -1\.0"),
        ({"dim": 8, "first": "colum"}, r"unknown first 'colum': did you mean 'column'\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        Sinusoidal2D(**settings)
