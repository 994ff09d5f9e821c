"""Tables and the page of extensions: gain beside cost, the untouched model first, and nothing from the network."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console

from lengthwise.lab.extend import Extended, Run
from lengthwise.lab.extend_store import UNTOUCHED, Measured
from lengthwise.lab.result import Result
from lengthwise.report.colours import styles
from lengthwise.report.extension import BETTER, WORSE, Panel, overview, panel_as_rich, panels
from lengthwise.report.extension_page import (
    brought_out,
    ends_of,
    overviews,
    render_extensions,
    score_by_length,
    write_extensions,
)

NAN = float("nan")
LENGTHS = (64, 128, 256, 1024)
AS_IS = (2.7, 2.6, 3.4, 4.2)
WAYS = {
    "yarn(factor=8)": (2.9, 2.8, 2.9, 3.0),
    "log_n": (2.7, 2.6, 3.5, 4.3),
    "clamp(length=127)": (2.7, 2.6, 3.3, 4.1),
    "drope": (3.9, 3.9, 3.8, 3.8),
    "<b>&odd": (2.7, 2.6, 3.4, 4.2),
    "far(1)": (5.0, 5.0, 5.0, 9.0),
}
Found = Callable[..., list[Extended]]


@pytest.fixture
def found(text_results: Callable[..., list[Result]]) -> Found:
    """`found(seeds=2)`: an encoding as it is and by made-up methods, each seed a little different."""

    def make(
        encodings: Sequence[str] = ("rotary",),
        seeds: int = 2,
        as_is: Sequence[float] = AS_IS,
        untrained: Sequence[str] = (),
        **ways: Sequence[float],
    ) -> list[Extended]:
        out: list[Extended] = []
        for result in text_results(list(encodings), seeds=seeds):
            shift = 0.04 * result.experiment.seed
            rows = {
                label: tuple(Measured({"bits_per_byte": score + shift}, label in untrained) for score in scores)
                for label, scores in {UNTOUCHED: as_is, **WAYS, **ways}.items()
            }
            out.append(Extended(Run(Path("runs"), result), LENGTHS, rows, {"pose": "it acts in training"}))
        return out

    return make


def cell(panel: Panel, label: str, length: int) -> str:
    place = [column.length for column in panel.columns].index(length)
    return dict(panel.rows)[label][place].text


def test_the_untouched_model_stands_first_and_the_others_by_how_they_do_past_the_trained_length(found: Found) -> None:
    (panel,) = panels(found())
    labels = [label for label, _ in panel.rows]
    assert labels[:3] == [UNTOUCHED, "yarn(factor=8)", "clamp(length=127)"]
    assert labels[-1] == "far(1)"


def test_every_tested_length_has_a_column_the_trained_and_shorter_ones_too(found: Found) -> None:
    (panel,) = panels(found())
    assert [column.title for column in panel.columns] == ["64 (0.5×)", "128 (trained)", "256 (2×)", "1024 (8×)"]


def test_marks_say_what_is_separated_from_the_untouched_model_and_which_way(found: Found) -> None:
    (panel,) = panels(found())
    assert cell(panel, "yarn(factor=8)", 1024) == f"3.02{BETTER} [3.00–3.04]"
    assert cell(panel, "yarn(factor=8)", 128) == f"2.82{WORSE} [2.80–2.84]"
    assert cell(panel, "log_n", 128) == "2.62 [2.60–2.64]"
    assert not set(cell(panel, UNTOUCHED, 1024)) & {BETTER, WORSE}


def test_a_difference_that_would_be_shown_as_0_has_no_mark(found: Found) -> None:
    (panel,) = panels(found(small=(2.7, 2.6, 3.401, 4.2), seen=(2.7, 2.6, 3.41, 4.2)))
    assert cell(panel, "small", 256) == "3.42 [3.40–3.44]"
    assert WORSE in cell(panel, "seen", 256)


def test_of_one_seed_nothing_is_separated(found: Found) -> None:
    (panel,) = panels(found(seeds=1))
    assert not set(panel.to_markdown().split("\n\n")[0]) & {BETTER, WORSE}
    assert "1 seed: no interval" in " ".join(panel.notes)


def test_the_verdict_says_the_gain_and_the_cost_of_the_best(found: Found) -> None:
    (panel,) = panels(found())
    assert panel.best == "yarn(factor=8)"
    assert "better by 0.85 than the model as it is (separated)" in panel.verdict
    assert "At 128 it costs 0.20 bits per byte." in panel.verdict


def test_the_verdict_says_where_no_method_is_better(found: Found) -> None:
    (panel,) = panels(found(as_is=(2.0, 2.0, 2.0, 2.0)))
    assert panel.verdict.startswith("No method is better past 128 than the model as it is: 2.02 bits per byte")


def test_a_table_that_ends_is_a_dash_and_untrained_rows_have_a_dagger(found: Found) -> None:
    (panel,) = panels(found(["learned"], untrained=[UNTOUCHED], ends=(3.0, 3.0, NAN, NAN)))
    assert cell(panel, "ends", 256) == "–"
    assert panel.rows[0][0] == f"{UNTOUCHED} †"
    assert [one.untrained for one in panel.rows[0][1]] == [False, False, True, True]
    assert any("only the first 128 of 1024 were trained" in note for note in panel.notes)


def test_what_was_left_out_is_told_with_the_reason(found: Found) -> None:
    (panel,) = panels(found())
    assert "Left out: pose (it acts in training)." in panel.notes


def test_the_overview_has_each_encoding_as_it_is_and_by_its_best_method(found: Found) -> None:
    shown = panels(found(["rotary", "alibi"]))
    assert [label for label, _ in overview(shown)] == [
        "rotary",
        "rotary + yarn(factor=8)",
        "alibi",
        "alibi + yarn(factor=8)",
    ]
    (one,) = overviews(shown)
    assert one.title == "text, trained at 128: Bits per byte (less is better)"


def test_a_terminal_shows_the_table_the_verdict_and_the_notes(found: Found) -> None:
    (panel,) = panels(found())
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(panel_as_rich(panel))
    text = console.export_text()
    assert "rotary: text, trained at 128 bytes of context" in text
    assert f"3.02{BETTER}" in text
    assert "Left out: pose" in text


def test_the_figure_brings_out_the_untouched_model_and_the_best_and_draws_all(found: Found) -> None:
    shown = panels(found())
    chosen = brought_out(shown[0])
    assert chosen[0] == "yarn(factor=8)"
    assert UNTOUCHED not in chosen
    spec = score_by_length(shown[0], styles(chosen), ends_of(shown[0], shown)).to_dict()
    drawn = {row["method"] for row in spec["datasets"]["rows"]}
    assert drawn == {UNTOUCHED, *chosen}
    assert {row["method"] for row in spec["datasets"]["rest"]} == {*WAYS} - drawn
    assert spec["datasets"]["trained"] == [{"at": 128, "mark": "trained to 128"}]


def test_all_figures_of_a_page_share_the_axis_of_scores(found: Found) -> None:
    shown = panels([*found(["rotary"]), *found(["alibi"], as_is=(1.0, 1.0, 1.0, 1.0))])
    ends = {ends_of(panel, shown) for panel in shown}
    assert len(ends) == 1
    low, high = ends.pop()
    assert low < 1.0
    assert high > 4.2


def test_the_page_stands_alone_and_holds_every_number_of_the_table(found: Found, tmp_path: Path) -> None:
    shown = panels(found(["rotary", "learned"]))
    path = write_extensions(shown, tmp_path / "extend.html", command="lengthwise extend 'my runs'")
    page = path.read_text(encoding="utf-8")
    assert page == render_extensions(shown, command="lengthwise extend 'my runs'")
    body = page[: page.index("</main>")]
    assert not re.search(r"(src|href)=.?(https?:)?//", body)
    assert "lengthwise extend &#39;my runs&#39;" in body
    assert "<b>&odd" not in body
    for panel in shown:
        for label, cells in panel.rows:
            assert label.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in body
            assert all(one.text.split(" ")[0] in body for one in cells)
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])  # pyright: ignore
    assert set(data["figures"]) == set(re.findall(r'class="chart" id="([^"]+)"', body))
    assert set(data["texts"]) == set(re.findall(r'data-copy="([^"]+)"', body))
