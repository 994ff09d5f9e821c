from __future__ import annotations

import csv
import io
import math
from dataclasses import replace

import polars as pl
import pytest
from rich.console import Console

from lengthwise.report.comparison import comparisons
from lengthwise.report.tables import as_rich, long_frame, summary


def table(results):
    (group,) = comparisons(results)
    return summary(group)


def test_the_long_frame_holds_every_score_of_every_run(sort_results, text_results):
    results = [*sort_results(["none", "t5"], seeds=3), *text_results(["alibi"], seeds=2)]
    frame = long_frame(results)
    assert frame.height == 2 * 3 * 5 * 2 + 2 * 4
    run = results[1]
    rows = frame.filter(pl.col("address") == run.experiment.address, pl.col("metric") == "exact_match")
    assert rows["length"].to_list() == [10, 11, 13, 15, 20]
    assert rows["score"].to_list() == list(run.scores["exact_match"])
    assert rows["seed"].unique().to_list() == [1]


def test_columns_are_tested_lengths_at_or_near_the_ratios_and_the_longest(sort_results, text_results):
    assert [column.title for column in table(sort_results()).columns] == ["10 (trained)", "15 (1.5×)", "20 (2×)"]
    # Nothing lies near 1.5 times 128, and the longest is more than 4 times it.
    titles = [column.title for column in table(text_results()).columns]
    assert titles == ["128 (trained)", "256 (2×)", "512 (4×)", "1024 (8×)"]
    titles = [column.title for column in table(sort_results(lengths=(10, 14, 21, 38))).columns]
    assert titles == ["10 (trained)", "14 (1.4×)", "21 (2.1×)", "38 (3.8×)"]


def test_the_trained_length_has_a_column_though_it_was_not_tested(sort_results):
    found = table(sort_results(["none"], lengths=(11, 20)))
    assert found.columns[0].title == "10 (trained)"
    assert found.rows[0][1][0].text == "–"


def test_cells_hold_mean_and_interval_counted_by_hand(sort_results):
    runs = sort_results(["none"], seeds=2, lengths=(10, 20))
    rows = [(1.0, 0.25), (1.0, 0.75)]
    found = table([replace(run, scores={"exact_match": row}) for run, row in zip(runs, rows, strict=True)])
    assert [cell.text for cell in found.rows[0][1]] == ["100.0 [100.0–100.0]", "50.0 [25.0–75.0]"]
    single = table([replace(runs[0], scores={"exact_match": (1.0, 0.25)})])
    assert single.rows[0][1][1].text == "25.0"
    assert math.isnan(single.rows[0][1][1].low)


def test_the_best_of_each_column_is_marked_in_the_metrics_own_direction(text_results):
    found = table(text_results())
    best = [[label for label, cells in found.rows if cells[place].best] for place in range(4)]
    assert best == [["rotary"], ["alibi"], ["alibi"], ["alibi"]]


def test_untrained_rows_few_seeds_and_divergence_are_said(text_results):
    learned, none = text_results(["learned"]), text_results(["none"])
    broken = [replace(run, scores={"bits_per_byte": (math.inf, *run.scores["bits_per_byte"][1:])}) for run in none]
    found = table([*learned, *broken])
    assert any("of the table's 1024 rows only the first 128 were trained" in note for note in found.notes)
    assert "2 seeds: the interval spans what was seen, not what is to be expected." in found.notes
    cells = dict(found.rows)
    assert [cell.untrained for cell in cells["learned †"]] == [False, True, True, True]
    assert cells["none"][0].text == "diverged"


def test_markdown_holds_every_cell_in_its_place_and_keeps_bars_apart(sort_results):
    found = table(sort_results(["none", "rotary(layout='a|b')"]))
    lines = [line for line in found.to_markdown().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.replace("\\|", "\0").strip("|").split("|")] for line in lines]
    assert [row[0].replace("\0", "|") for row in cells[2:]] == [label for label, _ in found.rows]
    assert [row[1:] for row in cells[2:]] == [[cell.text for cell in row] for _, row in found.rows]
    assert {len(row) for row in cells} == {1 + len(found.columns)}


def test_csv_gives_every_number_back_exactly(text_results):
    found = table(text_results())
    rows = list(csv.DictReader(io.StringIO(found.to_csv())))
    cells = [
        (label, column, cell) for label, row in found.rows for column, cell in zip(found.columns, row, strict=True)
    ]
    assert len(rows) == len(cells)
    for row, (label, column, cell) in zip(rows, cells, strict=True):
        assert (row["encoding"], int(row["length"])) == (label.removesuffix(" †"), column.length)
        assert [float(row[key]) for key in ("mean", "low", "high")] == [cell.mean, cell.low, cell.high]


def test_the_terminal_shows_every_cell_whole_and_does_not_read_brackets_as_markup(sort_results):
    found = table(sort_results(["none", "t5"]))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(as_rich(found, title="[sort]"))
    shown = console.export_text()
    assert all(part in shown for _, cells in found.rows for cell in cells for part in cell.text.split(" ", 1))
    assert "[sort]" in shown
    assert pytest.approx(found.rows[0][1][0].mean) == 1.0


def test_five_lengths_with_their_intervals_fit_into_80_columns(text_results):
    found = table(text_results(["none", "sinusoidal"]))
    wide = replace(
        found,
        columns=(*found.columns, found.columns[-1]),
        rows=tuple((label, (*cells, cells[-1])) for label, cells in found.rows),
    )
    assert len(wide.columns) == 5
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(as_rich(wide, title="text"))
    shown = console.export_text()
    assert "…" not in shown
    for _, cells in wide.rows:
        interval = cells[-1].text.split(" ", 1)[1]
        assert shown.count(interval) >= 2
