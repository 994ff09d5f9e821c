"""What encodings give past the trained length: the numbers, and the figures that show them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import lengthwise as lw
from lengthwise.report.past_length import KINDS, Panel, past_length
from lengthwise.report.past_length_figures import curves, heat_maps
from lengthwise.report.theme import save

L = 8
DIMS = lw.Dims(dim=6, heads=1, head_dim=6, max_length=L)
TABLE = torch.arange(L)[:, None] * torch.tensor([1.0, -1.0, 0.5, 0.0, 2.0, 1.0])


@pytest.fixture(scope="module")
def panels() -> list[Panel]:
    made = {
        "table": lw.Learned(6, L).with_table(TABLE),
        "sines": lw.Sinusoidal(6, base=100.0),
        "turns": lw.Rotary(6, base=100.0),
    }
    return past_length(made, DIMS, L, fit="linear")


def of(panels: list[Panel], encoding: str, way: str) -> Panel:
    (found,) = [panel for panel in panels if (panel.encoding, panel.way) == (encoding, way)]
    return found


def sine(position: float, dim: int) -> float:
    angle = position * 100.0 ** (-2 * (dim // 2) / 6)
    return math.cos(angle) if dim % 2 else math.sin(angle)


def test_a_function_is_carried_on_by_itself_and_pressed_by_dividing_positions(panels: list[Panel]) -> None:
    for way, factor in (("carried on", 1), ("pressed", 2)):
        expected = torch.tensor([[sine(p / factor, dim) for p in range(2 * L)] for dim in range(6)])
        torch.testing.assert_close(of(panels, "sines", way).drawn.values, expected, rtol=0, atol=1e-6)
        cos = torch.tensor([[math.cos(p / factor * 100.0 ** (-2 * m / 6)) for p in range(2 * L)] for m in range(3)])
        torch.testing.assert_close(of(panels, "turns", way).drawn.values, cos, rtol=0, atol=1e-6)


def test_a_table_is_carried_on_by_its_trend_and_pressed_between_its_ends(panels: list[Panel]) -> None:
    line = torch.arange(2 * L)[:, None] * TABLE[1]
    torch.testing.assert_close(of(panels, "table", "carried on").drawn.values, line.T, rtol=0, atol=1e-4)
    pressed = torch.linspace(0, L - 1, 2 * L)[:, None] * TABLE[1]
    torch.testing.assert_close(of(panels, "table", "pressed").drawn.values, pressed.T, rtol=0, atol=1e-5)


def test_nothing_past_the_trained_length_ends_there(panels: list[Panel]) -> None:
    for name in ("table", "sines", "turns"):
        panel = of(panels, name, "nothing")
        assert panel.drawn.values.shape[1] == L
        assert panel.farthest is None
        assert set(panel.kinds) == {"trained"}


def test_each_position_is_said_to_be_trained_new_or_between(panels: list[Panel]) -> None:
    assert of(panels, "sines", "carried on").kinds == ["trained"] * L + ["never met in training"] * L
    assert of(panels, "sines", "pressed").kinds == ["trained", "between trained ones"] * L
    assert of(panels, "table", "pressed").kinds == ["trained", *["between trained ones"] * (2 * L - 2), "trained"]


def test_the_farthest_vector_is_told_in_steps_of_trained_neighbours(panels: list[Panel]) -> None:
    far = of(panels, "table", "carried on").farthest
    assert far == pytest.approx(L, rel=1e-4)  # the line goes on for as long as it was
    near = of(panels, "table", "pressed").farthest
    assert near is not None
    assert near < 0.5


def test_the_curve_shows_the_dim_that_leaves_its_trained_values_the_most(panels: list[Panel]) -> None:
    spec: Any = curves(panels).to_dict()
    assert len(spec["concat"]) == 9
    assert spec["columns"] == 3
    first, carried = (spec["concat"][place] for place in (0, 1))
    assert [one["title"]["text"] for one in spec["concat"][:3]] == [
        "Nothing past the trained length",
        "The function carried on",
        "The range pressed together",
    ]
    points = {"nothing": layer(first, "point"), "carried on": layer(carried, "point")}
    assert points["nothing"]["encoding"]["y"]["title"] == ["table", "dim 4"]
    rows = data(spec, points["carried on"])
    assert [row["value"] for row in rows] == pytest.approx([2.0 * p for p in range(2 * L)], abs=1e-4)
    assert [row["kind"] for row in rows] == of(panels, "table", "carried on").kinds
    assert points["nothing"]["encoding"]["color"]["scale"]["domain"] == list(KINDS)
    assert len(data(spec, points["nothing"])) == L


def test_the_heat_map_holds_every_number_and_marks_the_trained_length(panels: list[Panel]) -> None:
    spec: Any = heat_maps(panels).to_dict()
    for panel, chart in zip(panels, spec["concat"], strict=True):
        cells = [one for one in chart["layer"] if one["mark"]["type"] == "rect" and "color" in one["encoding"]]
        rows = data(spec, cells[0])
        assert len(rows) == panel.drawn.values.numel()
        row = rows[-1]
        assert row["value"] == float(panel.drawn.values[row["line"], row["position"]])
        assert data(spec, layer(chart, "rule"))[0]["from"] == L
        words = [one["mark"].get("text") for one in chart["layer"] if one["mark"]["type"] == "text"]
        assert ("no value" in words) == (panel.way == "nothing")


def test_figures_side_by_side_are_saved(panels: list[Panel], tmp_path: Any) -> None:
    text = save(curves(panels), tmp_path / "a.svg").read_text()
    assert text.startswith("<svg")
    assert "never met in training" in text


def test_bad_sizes_say_what_to_do() -> None:
    with pytest.raises(lw.InvalidArgument, match="table has a table of 8 rows, and training is said to have had 7"):
        past_length({"table": lw.Learned(6, L)}, DIMS, 7)
    with pytest.raises(lw.InvalidArgument, match="at least 2, not 1 and 8"):
        past_length({"sines": lw.Sinusoidal(6)}, DIMS, L, factor=1)


def layer(chart: Any, kind: str) -> Any:
    (found,) = [one for one in chart["layer"] if one["mark"]["type"] == kind]
    return found


def data(spec: Any, one: Any) -> Any:
    held = one["data"]
    return held["values"] if "values" in held else spec["datasets"][held["name"]]
