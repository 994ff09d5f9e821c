from __future__ import annotations

from dataclasses import replace

import pytest

from lengthwise.errors import InvalidArgument, StorageError
from lengthwise.report.colours import styles
from lengthwise.report.comparison import comparisons
from lengthwise.report.figures import bits_by_position, heat_map, loss_by_step, score_by_length
from lengthwise.report.theme import save


def spec_of(chart):
    spec = chart.to_dict()
    for layer in spec["layer"]:
        layer["rows"] = spec["datasets"][layer["data"]["name"]]
    return spec


def layers(spec, kind):
    return [layer for layer in spec["layer"] if layer["mark"]["type"] == kind]


@pytest.fixture(scope="module")
def sort(sort_results):
    return comparisons(sort_results())[0]


@pytest.fixture(scope="module")
def text(text_results):
    return comparisons(text_results())[0]


@pytest.fixture(scope="module")
def curves(sort, text):
    return {group.task: spec_of(score_by_length(group)) for group in (sort, text)}


def test_the_curve_marks_the_trained_length_and_names_its_axes_with_units(sort, text, curves):
    for group, x, y in (
        (sort, "Length (symbols to sort)", "Exact match (% of examples)"),
        (text, "Length (bytes of context)", "Bits per byte (less is better)"),
    ):
        spec = curves[group.task]
        (rule,), (line,) = layers(spec, "rule"), layers(spec, "line")
        assert rule["rows"] == [{"at": group.train_length, "mark": f"trained to {group.train_length}"}]
        assert rule["encoding"]["x"]["field"] == "at"
        assert layers(spec, "text")[0]["encoding"]["text"]["field"] == "mark"
        assert (line["encoding"]["x"]["title"], line["encoding"]["y"]["title"]) == (x, y)


def test_bytes_have_a_logarithmic_axis_and_symbols_a_plain_one(curves):
    def scale(task):
        return layers(curves[task], "line")[0]["encoding"]["x"]["scale"]

    assert (scale("text")["type"], scale("text")["base"]) == ("log", 2)
    assert scale("sort")["type"] == "linear"


def test_the_curve_draws_the_intervals_that_the_statistics_give(sort, curves):
    (band,) = layers(curves["sort"], "area")
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")
    (row,) = [row for row in band["rows"] if (row["encoding"], row["length"]) == ("t5", 20)]
    scores = sort.at("t5", 20).values()
    assert (row["low"], row["high"]) == (min(scores), max(scores))


def test_points_that_read_untrained_rows_are_hollow(curves):
    full, hollow = layers(curves["text"], "point")
    untrained = [(row["encoding"], row["length"]) for row in hollow["rows"] if row["untrained"]]
    assert untrained == [("learned †", 256), ("learned †", 512), ("learned †", 1024)]
    assert (full["mark"]["filled"], hollow["mark"]["filled"]) == (True, False)
    assert (full["transform"], hollow["transform"]) == (
        [{"filter": "!datum.untrained"}],
        [{"filter": "datum.untrained"}],
    )


def test_one_seed_has_no_band(sort_results):
    (group,) = comparisons(sort_results(seeds=1))
    (band,) = layers(spec_of(score_by_length(group)), "area")
    assert {row["low"] for row in band["rows"]} == {None}


def test_colours_are_those_of_the_page_in_every_figure(sort, text):
    look = styles(["zzz", *sort.encodings])
    for chart in (loss_by_step(sort, look), bits_by_position(text, look)):
        scale = layers(spec_of(chart), "line")[0]["encoding"]["color"]["scale"]
        labels = [label.removesuffix(" †") for label in scale["domain"]]
        assert scale["range"] == [look[label].colour for label in labels]


def test_the_heat_map_shows_every_mean_as_text_and_the_strongest_fill_is_the_best(text):
    spec = spec_of(heat_map(text))
    (fill,) = layers(spec, "rect")
    assert len(fill["rows"]) == 6 * 4
    best = max(fill["rows"], key=lambda row: row["good"])
    assert float(best["text"]) == min(float(row["text"]) for row in fill["rows"])
    assert layers(spec, "rule")[0]["rows"][0]["length"] == 128
    assert layers(spec, "text")[0]["encoding"]["text"]["field"] == "text"


def test_the_loss_draws_every_seed_and_a_mean_only_as_far_as_all_of_them_went(sort_results):
    long, short = sort_results(["none"], seeds=2)
    short = replace(short, steps=short.steps[:10], losses=short.losses[:10])
    faint, bold = layers(spec_of(loss_by_step(comparisons([long, short])[0])), "line")
    assert len(faint["rows"]) == 40 + 10
    assert [row["step"] for row in bold["rows"]] == list(short.steps)
    assert bold["rows"][3]["loss"] == pytest.approx((long.losses[3] + short.losses[3]) / 2)
    assert faint["encoding"]["y"]["scale"]["type"] == "log"


def test_bits_by_position_stand_at_the_middle_of_their_bins_and_only_text_has_them(text, sort):
    spec = spec_of(bits_by_position(text))
    rows = [row for row in layers(spec, "line")[0]["rows"] if row["encoding"] == "alibi"]
    assert [row["position"] for row in rows] == [96, 160, 224, 384, 768]
    assert rows[0]["bytes"] == "64 to 127"
    assert layers(spec, "rule")[0]["rows"][0]["at"] == 128
    assert bits_by_position(sort) is None


def test_a_legend_and_a_parameter_bring_one_encoding_out(curves):
    names = {parameter["name"] for parameter in curves["sort"]["params"]}
    assert names == {"focus", "picked"}


def test_a_figure_is_saved_by_the_ending_of_its_path(text, tmp_path):
    chart = heat_map(text)
    assert save(chart, tmp_path / "new" / "a.svg").read_text().startswith("<svg")
    assert save(chart, tmp_path / "a.png", theme="dark", scale=1).read_bytes().startswith(b"\x89PNG")
    html = save(chart, tmp_path / "a.html").read_text()
    assert "<script src" not in html
    assert len(html) > 500_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.png", "new"]


def test_an_unknown_ending_and_a_place_that_can_not_be_written_are_clear_errors(text, tmp_path):
    with pytest.raises(InvalidArgument, match=r"\.html, \.png or \.svg"):
        save(heat_map(text), tmp_path / "a.gif")
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="can't write"):
        save(heat_map(text), tmp_path / "file" / "a.svg")
