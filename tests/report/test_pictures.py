"""What one encoding does, as numbers, as shades of text and as a figure."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from lengthwise.build import build
from lengthwise.dims import Dims
from lengthwise.encodings.registry import encodings, example
from lengthwise.errors import InvalidArgument
from lengthwise.report.pictures import SHADES, Picture, as_chart, as_lines, picture

DIMS = Dims(dim=16, heads=4, max_length=64)
Close = Callable[..., None]


def drawn(spec: str, length: int = 12) -> Picture:
    return picture(build(spec, DIMS), DIMS, length)


# --- the numbers ------------------------------------------------------------


def test_a_rotary_shows_the_cosine_of_each_pair_at_each_position(close: Close) -> None:
    shown = drawn("rotary")
    expected = [[math.cos(t * 10000 ** (-2 * m / 4)) for t in range(12)] for m in range(2)]
    close(shown.values.double(), torch.tensor(expected, dtype=torch.float64), of=torch.float32)
    assert (shown.x, shown.y) == ("position", "pair of dims")


def test_a_sinusoid_shows_the_vector_added_at_each_position(close: Close) -> None:
    shown = drawn("sinusoidal")
    angles = [[t * 10000 ** (-2 * (m // 2) / 16) for t in range(12)] for m in range(16)]
    expected = [[(math.cos if m % 2 else math.sin)(angle) for angle in angles[m]] for m in range(16)]
    close(shown.values.double(), torch.tensor(expected, dtype=torch.float64), of=torch.float32)
    assert (shown.x, shown.y) == ("position", "dim")


def test_a_learned_table_shows_its_rows() -> None:
    encoding = build("learned", DIMS)
    shown = picture(encoding, DIMS, 12)
    assert torch.equal(shown.values, encoding.table[:12].T)
    assert not shown.values.requires_grad


def test_alibi_shows_its_penalty_at_each_distance_for_each_head(close: Close) -> None:
    shown = drawn("alibi")
    expected = [[-(2.0 ** (-2 * (head + 1))) * distance for distance in range(12)] for head in range(4)]
    close(shown.values.double(), torch.tensor(expected, dtype=torch.float64), of=torch.float32)
    assert (shown.x, shown.y) == ("distance", "head")


def test_no_encoding_shows_what_the_mask_alone_makes() -> None:
    shown = drawn("none")
    assert torch.equal(shown.values, torch.ones(12, 12).tril())
    assert (shown.x, shown.y) == ("key", "query")


def test_a_bias_is_drawn_for_one_query_and_not_for_the_square_of_the_length() -> None:
    # 4 heads, 40,000 positions: the square of them would take 26 GB.
    shown = picture(build("alibi", DIMS), DIMS, 40_000)
    assert shown.values.shape == (4, 40_000)
    assert shown.values[0, -1] == -39_999 / 4


def test_whole_attention_of_too_many_positions_is_told() -> None:
    with pytest.raises(InvalidArgument, match="for at most 2048 positions, not 3000"):
        drawn("none", 3000)


@pytest.mark.parametrize("name", sorted(encodings))
@pytest.mark.parametrize("length", [2, 64])
def test_every_encoding_has_a_picture(name: str, length: int) -> None:
    shown = drawn(example(name), length)
    assert 1 < shown.values.shape[1] <= length
    assert bool(shown.values.isfinite().all())
    assert shown.title
    before = torch.get_rng_state()
    assert len(as_lines(shown)) >= 3
    assert torch.equal(torch.get_rng_state(), before)


# --- in text ------------------------------------------------------------


def test_shades_go_from_dark_to_bright_with_the_values() -> None:
    rising = torch.arange(6.0)
    shown = Picture("a ramp", "place", "row", torch.stack((rising, rising.flip(0))))
    assert as_lines(shown) == [
        f"a ramp: ' ' 0 to '{SHADES[-1]}' 5",
        SHADES,
        SHADES[::-1],
        "across: place 0 to 5, down: row 0 to 1",
    ]


def test_a_large_picture_is_averaged_into_the_room_there_is() -> None:
    values = torch.zeros(100, 1000)
    values[:50] = 1.0
    scale, *body, across = as_lines(Picture("halves", "x", "y", values), rows=4, columns=10)
    assert body == [SHADES[-1] * 10] * 2 + [SHADES[0] * 10] * 2
    assert scale.endswith("1")
    assert across == "across: x 0 to 999, down: y 0 to 99"


def test_a_small_picture_is_not_blown_up() -> None:
    lines = as_lines(Picture("one", "x", "y", torch.tensor([[0.0, 1.0]])))
    assert lines[1:-1] == [SHADES[0] + SHADES[-1]]


def test_a_picture_of_one_value_is_drawn() -> None:
    lines = as_lines(Picture("flat", "x", "y", torch.full((3, 5), 2.0)))
    assert lines[1:-1] == [" " * 5] * 3


# --- as a figure ------------------------------------------------------------


def test_a_figure_holds_every_value_with_the_names_of_its_axes() -> None:
    shown = Picture("what is seen", "distance", "head", torch.tensor([[0.0, -1.0, -2.0], [0.5, 0.25, 0.0]]))
    spec: dict[str, Any] = as_chart(shown, "an encoding").to_dict()
    (layer,) = spec["layer"]
    (rows,) = [value["values"] for value in _all(spec, "values") if isinstance(value.get("values"), list)]
    assert rows == [{"distance": x, "head": y, "value": float(shown.values[y, x])} for y in range(2) for x in range(3)]
    assert layer["encoding"]["x"]["title"] == "distance"
    assert layer["encoding"]["y"]["title"] == "head"
    assert spec["title"]["text"] == "an encoding"
    assert spec["title"]["subtitle"] == "what is seen"
    assert layer["encoding"]["color"]["scale"]["domainMid"] == 0


def test_values_of_one_sign_get_a_scale_of_one_direction() -> None:
    spec = as_chart(drawn("alibi"), "alibi").to_dict()
    assert spec["layer"][0]["encoding"]["color"]["scale"] == {"scheme": "viridis"}


def test_a_figure_of_a_long_picture_stays_small() -> None:
    spec = as_chart(picture(build("alibi", DIMS), DIMS, 40_000), "alibi").to_dict()
    (rows,) = [value["values"] for value in _all(spec, "values") if isinstance(value.get("values"), list)]
    assert len(rows) <= 256 * 64
    places = sorted({row["distance"] for row in rows})
    assert (places[0], places[-1]) == (0, 39_999)  # positions of the picture, not of the columns that are drawn
    slope = {row["value"] / row["distance"] for row in rows if row["head"] == 0 and row["distance"]}
    assert slope == {-1 / 4}


def _all(tree: Any, name: str) -> list[dict[str, Any]]:
    """Every mapping in a tree that has a key of that name."""
    if isinstance(tree, list):
        return [found for part in tree for found in _all(part, name)]
    if not isinstance(tree, dict):
        return []
    own = [tree] if name in tree else []
    return own + [found for part in tree.values() for found in _all(part, name)]
