"""Numbers of an analysis reach the tables, the JSON and the figures of the page unchanged."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import vl_convert
from rich.console import Console

from lengthwise.analysis.summary import Looks, Probe
from lengthwise.analysis.summary_pairs import Pair
from lengthwise.lab.experiment import Experiment
from lengthwise.report.analysis import Group, HeadMap, Model, print_analysis, write_analysis_json, write_analysis_page


def looks(shift: float, probed: bool = True) -> Looks:
    probes = [
        Probe(asked, kind, layer, shuffled, -0.1 if shuffled else 0.25 + 0.5 * layer + shift, 1.0)  # pyright: ignore[reportArgumentType]
        for asked in ("position", "distance")
        for kind in ("linear", "mlp")
        for layer in (0, 1)
        for shuffled in (False, True)
    ]
    return Looks(
        9, [[0.7, 0.3]], [[1.0 + shift, 3.0 + shift]], probes if probed else [], [1.0, 0.5 + shift], 0.5, [1.0, 0.8]
    )


def group(encodings: tuple[str, ...] = ("none", "rotary")) -> Group:
    models = [
        Model(Experiment(name, "sort", 4, (4, 8), seed=seed), {4: looks(0.1 * seed), 8: looks(0.2, probed=False)})
        for name in encodings
        for seed in (0, 1)
    ]
    pairs = [Pair("none", "none", (0.3,), ((0, 1),)), Pair("none", "rotary", (0.1, 0.2), ((0, 0), (1, 1)))]
    head = HeadMap("none", 0, 1, 2, ["<bos>", "'", "</script>"], [[1.0, 0, 0], [0.25, 0.75, 0], [0.1, 0.2, 0.7]])
    return Group("sort, trained at 4 symbols", "symbols to sort", (4, 8), models, {4: pairs, 8: pairs}, [head])


def figures(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def test_tables_hold_means_over_seeds_and_intervals() -> None:
    out = io.StringIO()
    print_analysis([group()], Console(file=out, width=160))
    text = out.getvalue()
    assert re.search(r"none +2\.[01] +0\.550 +0\.800", text)  # mean of 2.0 and 2.1, of 0.5 and 0.6
    assert "0.30 0.80" in text
    assert re.search(r"none and rotary +0\.150 \[0\.100, 0\.200\]", text)
    assert "none, another seed" in text


def test_json_holds_every_number(tmp_path: Path) -> None:
    data = json.loads(write_analysis_json([group()], tmp_path / "a.json").read_text())["groups"][0]
    assert data["models"][1]["by_length"]["4"]["mean_distance"] == [[1.1, 3.1]]
    assert data["attention_distance"]["8"][1]["distances"] == [0.1, 0.2]
    assert data["heads"][0]["weights"][1] == [0.25, 0.75, 0]


def test_a_page_needs_nothing_from_elsewhere_and_all_its_figures_can_be_drawn(tmp_path: Path) -> None:
    page = write_analysis_page([group()], tmp_path / "page.html", command="lengthwise analyze runs").read_text()
    assert not any(f'{attribute}="http' in page for attribute in ("src", "href"))
    assert "lengthwise analyze runs" in page
    data = figures(page)
    assert len(data["figures"]) == 8
    assert all(f'id="{name}"' in page for name in data["figures"])
    for spec in data["figures"].values():
        assert "<svg" in vl_convert.vegalite_to_svg({**spec, "config": data["themes"]["dark"]})


def test_a_page_of_one_encoding_has_no_figure_of_resemblance(tmp_path: Path) -> None:
    one = group(("none",))
    alone = Group(one.title, one.length_counts, one.lengths, one.models, {}, one.heads)
    page = write_analysis_page([alone], tmp_path / "page.html").read_text()
    assert "Whose attention" not in page
    assert len(figures(page)["figures"]) == 7


@pytest.mark.parametrize("name", ["'", "\\", "\n", "é", '"'])
def test_any_token_can_stand_in_a_picture_of_a_head(name: str) -> None:
    from lengthwise.report.analysis_figures import head_figure

    one = group()
    head = HeadMap("none", 0, 1, 1, [name], [[1.0]])
    only = Group(one.title, one.length_counts, one.lengths, one.models, {}, [head])
    assert "<svg" in vl_convert.vegalite_to_svg(head_figure(only).to_dict(validate=False))
