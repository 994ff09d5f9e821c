"""A study as tables in the terminal and as one self-contained page, beside what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lengthwise.files import write_whole
from lengthwise.lab.result import Result
from lengthwise.lab.statistics import mean_interval
from lengthwise.report.colours import OUTLINES, Style, styles
from lengthwise.report.frame import render
from lengthwise.report.sections import duration
from lengthwise.studies.attention import LOOKED_AT, Reach, Series
from lengthwise.studies.claims import Claim, claims
from lengthwise.studies.outcome import (
    TRAINED,
    Agreement,
    Ranking,
    Scored,
    agreement,
    best_on,
    by_dataset,
    ranking,
    scored,
)
from lengthwise.studies.scratchpads import Formats, formats
from lengthwise.studies.study import Study, Trial

CATEGORIES: Mapping[str | None, str] = {
    None: "all",
    "primitive": "primitive",
    "mathematics_and_reasoning": "mathematics and reasoning",
    "SCAN_and_PCFG": "SCAN and PCFG",
    "scratchpad": "with a scratchpad (not among all)",
}
"""Groups of datasets as the publication ranks them, and their names."""


@dataclass(frozen=True, eq=False)
class Findings:
    """All numbers of a study's report.

    Args:
        study: what was asked.
        scores: of the trials that are done.
        ranks: by category: as run, without undertrained trials, told where to stop; None where there is nothing.
        agreements: by category, with the published accuracies.
        claims: of the publication.
        distances: of attention from NoPE's, by variant.
        formats: of scratchpads, ranked within each dataset that was run with one.
        looked_at: the dataset on which it was measured how far heads look; empty where there is none.
        reach: there, by arm, a histogram a seed of the distance attended to.
    """

    study: Study
    scores: Sequence[Scored]
    ranks: Mapping[str | None, Mapping[str, Ranking | None]]
    agreements: Mapping[str | None, Agreement | None]
    claims: Sequence[Claim]
    distances: Mapping[str, Series]
    formats: Sequence[Formats]
    looked_at: str
    reach: Mapping[str, Sequence[Sequence[float]]]


def findings(
    study: Study, results: Mapping[Trial, Result], distances: Mapping[str, Series], reach: Reach | None = None
) -> Findings:
    """Compute everything that is shown, from results alone."""
    scores = [scored(trial, results[trial]) for trial in study.trials if trial in results]
    published = {name: data["pooled"] for name, data in study.published.get("datasets", {}).items()}
    ranks = {
        category: {
            "all trials": ranking(study, scores, category=category),
            "trained only": ranking(study, scores, category=category, trained_only=True),
            "told where to stop": ranking(study, scores, category=category, told=True),
            "published rule for ties": ranking(study, scores, category=category, ties="first"),
        }
        for category in CATEGORIES
    }
    agreements = {category: agreement(study, scores, published, category) for category in CATEGORIES}
    reach = reach or {}
    looked_at = next((name for name in LOOKED_AT if reach.get(name, {}).keys() & study.arms.keys()), "")
    return Findings(
        study=study,
        scores=scores,
        ranks=ranks,
        agreements=agreements,
        claims=claims(study, scores, distances),
        distances=distances,
        formats=formats(study, scores),
        looked_at=looked_at,
        reach={arm: seeds for arm, seeds in reach.get(looked_at, {}).items() if arm in study.arms},
    )


def print_study(found: Findings, out: Console) -> None:
    """Accuracies by dataset, ranks beside the published ones, and the claims."""
    table = Table(title="Exact match past the trained length (%)", box=None, pad_edge=False, header_style="bold")
    arms = list(found.study.arms)
    for title in ("dataset", *arms):
        table.add_column(title, justify="left" if title == "dataset" else "right", no_wrap=True)
    best = best_on(found.study, found.scores)
    for dataset, rows in by_dataset(found.scores).items():
        cells = [_cell(rows.get(arm, []), arm in best.get(dataset.name, [])) for arm in arms]
        table.add_row(dataset.name, *cells)
    out.print(table)
    out.print(
        f"* some seed is below {TRAINED:.0%} at trained lengths; the best of the ranked arms is bold", style="dim"
    )
    out.print()
    table = Table(title="Mean reciprocal rank", box=None, pad_edge=False, header_style="bold")
    for title in ("datasets", "", *found.study.ranked):
        table.add_column(title, justify="left" if title in ("datasets", "") else "right", no_wrap=True)
    for category, name in CATEGORIES.items():
        for row in rank_rows(found, category):
            table.add_row(name if row[0] == "all trials" else "", *row)
    out.print(table)
    if others := unranked(found):
        out.print(f"not ranked, for the publication has no such arm: {others}", style="dim", highlight=False)
    for category, name in CATEGORIES.items():
        one = found.agreements[category]
        if one is not None:
            out.print(f"rank correlation with the publication, {name}: {_agreement(one)}", highlight=False)
    out.print()
    for claim in found.claims:
        out.print(Text.assemble(f"({claim.letter}) {claim.text}: ", (claim.answer, "bold"), f". {claim.because}"))


def write_study_page(found: Findings, path: Path, *, command: str | None = None) -> Path:
    """Write the page of a study as one HTML file and return its path."""
    look = styles(found.study.arms.values())
    style = {arm: look[spec] for arm, spec in found.study.arms.items()}
    groups = by_dataset(found.scores)
    figures: dict[str, Any] = {}
    if any(ranks is not None for ranks in (found.ranks[None]["all trials"],)):
        figures["figure-ranks"] = _spec(ranks_figure(found))
    for variant, series in found.distances.items():
        if series:
            figures[f"figure-attention-{variant}"] = _spec(attention_figure(found, variant))
    if found.formats:
        figures["figure-formats"] = _spec(formats_figure(found))
    if found.reach:
        figures["figure-reach"] = _spec(reach_figure(found))
    parts: list[dict[str, Any]] = []
    for number, (dataset, rows) in enumerate(groups.items()):
        figures[f"figure-{number}"] = _spec(accuracy_figure(found.study, rows, dataset.name, style))
        weak = sorted({arm for arm, trials in rows.items() if any(one.undertrained for one in trials)})
        parts.append({"id": f"figure-{number}", "name": dataset.name, "task": dataset.small, "weak": ", ".join(weak)})
    seconds = sum(one.seconds for one in found.scores)
    text = render(
        "study.html",
        title=f"{found.study.title}, repeated {found.study.scale}",
        overview=f"{len(found.scores)} of {len(found.study.trials)} trials; {duration(seconds)} of computing in all.",
        figures=figures,
        arms=[
            {"label": arm, "spec": spec, "colour": style[arm].colour, "path": OUTLINES[style[arm].shape]}
            for arm, spec in found.study.arms.items()
        ],
        ranked=found.study.ranked,
        unranked=unranked(found),
        rank_tables=[(name, rank_rows(found, category)) for category, name in CATEGORIES.items()],
        agreements=[
            (name, _agreement(one))
            for category, name in CATEGORIES.items()
            if (one := found.agreements[category]) is not None
        ],
        claims=found.claims,
        parts=parts,
        has_ranks="figure-ranks" in figures,
        variants=[variant for variant in ("true", "authors") if f"figure-attention-{variant}" in figures],
        format_tables=format_rows(found),
        looked_at=found.looked_at,
        trained=f"{TRAINED:.0%}",
        command=command,
    )
    write_whole(path, text.encode("utf-8", "backslashreplace"))
    return path


def unranked(found: Findings) -> str:
    """Names of the arms that are not ranked; empty where all are."""
    return ", ".join(arm for arm in found.study.arms if arm not in found.study.ranked)


def rank_rows(found: Findings, category: str | None) -> list[list[str]]:
    """A line for each way of ranking, and the published one: its name, and a number an arm."""
    rows = [
        [name, *(f"{mean:.3f}" for mean in ranks.mean)]
        for name, ranks in found.ranks[category].items()
        if ranks is not None
    ]
    key = category or "all"
    theirs = found.study.published.get("mean_reciprocal_rank", {}).get(key)
    if theirs is not None and rows and set(theirs) == set(found.study.ranked):  # ranks among others say nothing
        rows.append(["published", *(f"{theirs[arm]:.3f}" for arm in found.study.ranked)])
    return rows


def accuracy_rows(
    study: Study, rows: Mapping[str, Sequence[Scored]], name: str
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Exact match by length over the trained one: ours with the interval over seeds, and the published curves."""
    ours: list[dict[str, Any]] = []
    for arm, trials in rows.items():
        trained = trials[0].trial.experiment.train_length
        lengths = sorted(set.intersection(*(set(one.by_length) for one in trials)))
        interval = mean_interval(
            np.array([[one.by_length[length] for length in lengths] for one in trials]), rng=np.random.default_rng(0)
        )
        for place, length in enumerate(lengths):
            low, high = interval.low[place], interval.high[place]
            mean = interval.mean[place]
            ours.append(
                {
                    "arm": arm,
                    "length": length / trained,
                    "tokens": length,
                    "mean": mean,
                    "low": mean if np.isnan(low) else low,
                    "high": mean if np.isnan(high) else high,
                }
            )
    data = study.published.get("datasets", {}).get(name, {"by_length": {}})["by_length"]
    longest = next(iter(rows.values()))[0].trial.dataset.trained[-1]
    furthest = max((float(row["length"]) for row in ours), default=1.0)
    theirs = [
        {"arm": arm, "length": int(length) / longest, "mean": value}
        for arm, curve in data.items()
        if arm in rows
        for length, value in curve.items()
        if int(length) / longest <= furthest
    ]
    return ours, theirs


def accuracy_figure(
    study: Study, rows: Mapping[str, Sequence[Scored]], name: str, style: Mapping[str, Style]
) -> alt.LayerChart:
    """Exact match by length: ours with the interval over seeds, the published curve as a thin line."""
    ours, theirs = accuracy_rows(study, rows, name)
    arms = list(rows)
    colour = alt.Color("arm:N", scale=alt.Scale(domain=arms, range=[style[arm].colour for arm in arms]), legend=None)
    x = alt.X("length:Q", title="length / trained length", scale=alt.Scale(nice=False))
    y = alt.Y("mean:Q", title="exact match", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    base = alt.Chart(alt.NamedData("ours"))
    tips = ["arm:N", alt.Tooltip("tokens:Q", title="length"), alt.Tooltip("mean:Q", format=".1%")]
    layers = [
        base.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        base.mark_line(strokeWidth=2.4).encode(x=x, y=y, color=colour, tooltip=tips),
        base.mark_point(size=30, filled=True, opacity=1).encode(x=x, y=y, color=colour, tooltip=tips),
        alt.Chart(alt.NamedData("theirs")).mark_line(strokeWidth=0.9, strokeDash=[3, 2]).encode(x=x, y=y, color=colour),
        alt.Chart(alt.NamedData("edge")).mark_rule(strokeDash=[4, 3]).encode(x="length:Q"),
    ]
    data_of = {"ours": ours, "theirs": theirs, "edge": [{"length": 1.0}]}
    return alt.LayerChart(layer=layers, datasets=data_of).properties(width="container", height=190)


def ranks_figure(found: Findings) -> alt.LayerChart:
    """Mean reciprocal rank of each arm with its interval over datasets, beside the published one, by category."""
    rows: list[dict[str, object]] = []
    published = found.study.published.get("mean_reciprocal_rank", {})
    for category, name in CATEGORIES.items():
        ranks = found.ranks[category]["all trials"]
        if ranks is None:
            continue
        for place, arm in enumerate(ranks.arms):
            spread = {"low": ranks.low[place], "high": ranks.high[place]}
            theirs = published.get(category or "all", {}).get(arm)
            rows.append({"place": f"{name}: {arm}", "mean": ranks.mean[place], "theirs": theirs, **spread})
    return _bars(rows)


def format_rows(found: Findings) -> list[list[str]]:
    """A line for each dataset and format: both names, exact match, mean reciprocal rank, and the published one."""
    rows: list[list[str]] = []
    for one in found.formats:
        theirs = _published_formats(found, one.dataset)
        rows += [
            [
                one.dataset,
                name,
                f"{100 * one.past[name]:.1f}",
                f"{one.rank[name]:.3f}",
                f"{theirs[name]:.2f}" if name in theirs else "–",
            ]
            for name in one.rank
        ]
    return rows


def formats_figure(found: Findings) -> alt.LayerChart:
    """Mean reciprocal rank of each format within its dataset, beside the published one among all eight."""
    rows: list[dict[str, object]] = []
    for one in found.formats:
        theirs = _published_formats(found, one.dataset)
        for name, rank in one.rank.items():
            rows.append({"place": f"{one.dataset}: {name}", "mean": rank, "theirs": theirs.get(name)})
    return _bars(rows)


def _published_formats(found: Findings, dataset: str) -> Mapping[str, float]:
    return found.study.published.get("formats", {}).get("rank", {}).get(dataset, {})


def _bars(rows: list[dict[str, object]]) -> alt.LayerChart:
    """Mean reciprocal ranks, a bar each; its interval is a line where there is one, the published number a mark."""
    base = alt.Chart(alt.NamedData("rows")).encode(
        y=alt.Y("place:N", title=None, sort=[str(row["place"]) for row in rows], axis=alt.Axis(labelLimit=260))
    )
    x = alt.X("mean:Q", title="mean reciprocal rank", scale=alt.Scale(domain=[0, 1]))
    layers = [
        base.mark_bar(height=11, color="#0072b2", opacity=0.6).encode(x=x, tooltip=["place:N", "mean:Q", "theirs:Q"]),
        *([base.mark_rule(strokeWidth=1.5).encode(x="low:Q", x2="high:Q")] if "low" in rows[0] else []),
        base.mark_tick(color="#d55e00", thickness=4, height=17).encode(x="theirs:Q"),
    ]
    return alt.LayerChart(layer=layers, datasets={"rows": rows}).properties(width="container", height=18 * len(rows))


def reach_figure(found: Findings) -> alt.LayerChart:
    """Shares of queries by the normalized distance of the key attended to most, an arm a line, mean over seeds."""
    rows: list[dict[str, object]] = []
    for arm, seeds in found.reach.items():
        shares = np.mean(np.array(seeds), axis=0)
        for place, share in enumerate(shares):
            rows.append({"arm": arm, "distance": (place + 0.5) / len(shares), "share": float(share)})
    look, arms = styles(found.study.arms.values()), list(found.reach)
    colours = [look[found.study.arms[arm]].colour for arm in arms]
    colour = alt.Color("arm:N", scale=alt.Scale(domain=arms, range=colours), legend=alt.Legend(title=None))
    x = alt.X("distance:Q", title="attended distance / tokens seen", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y(
        "share:Q", title="share of queries", scale=alt.Scale(type="symlog", constant=0.01), axis=alt.Axis(format="%")
    )
    base = alt.Chart(alt.NamedData("rows")).encode(
        x=x, y=y, color=colour, tooltip=["arm:N", "distance:Q", alt.Tooltip("share:Q", format=".1%")]
    )
    layers = [base.mark_line(strokeWidth=2.2, interpolate="monotone"), base.mark_point(size=24, filled=True)]
    return alt.LayerChart(layer=layers, datasets={"rows": rows}).properties(width="container", height=260)


def attention_figure(found: Findings, variant: str) -> alt.LayerChart:
    """Distance of each arm's attention from NoPE's by length, ours and the published one as a thin line."""
    ours = [
        {"arm": arm, "length": length, "distance": value}
        for arm, rows in found.distances[variant].items()
        for length, values in rows.items()
        for value in values
    ]
    theirs = [
        {"arm": arm, "length": int(length), "distance": value}
        for arm, curve in found.study.published.get("attention_distance", {}).get("series", {}).items()
        for length, value in curve.items()
        if variant == "authors"
    ]
    look = styles(found.study.arms.values())
    arms = list(found.distances[variant])
    colours = [look[found.study.arms[arm]].colour if arm in found.study.arms else "#888888" for arm in arms]
    colour = alt.Color("arm:N", scale=alt.Scale(domain=arms, range=colours), legend=alt.Legend(title=None))
    x = alt.X("length:Q", title="length")
    y = alt.Y("distance:Q", title="distance to NoPE (nats)")
    base = alt.Chart(alt.NamedData("ours"))
    layers = [
        base.mark_errorband(extent="ci").encode(x=x, y=y, color=colour),
        base.mark_line(strokeWidth=2.2).encode(
            x=x, y=alt.Y("mean(distance):Q", title="distance to NoPE (nats)"), color=colour
        ),
        alt.Chart(alt.NamedData("theirs")).mark_line(strokeWidth=0.9, strokeDash=[3, 2]).encode(x=x, y=y, color=colour),
    ]
    return alt.LayerChart(layer=layers, datasets={"ours": ours, "theirs": theirs}).properties(
        width="container", height=260
    )


def _spec(chart: alt.LayerChart) -> dict[str, Any]:
    return {key: value for key, value in chart.to_dict(validate=False).items() if key not in ("config", "$schema")}


def _agreement(one: Agreement) -> str:
    return f"{one.mean:+.2f} [{one.low:+.2f}, {one.high:+.2f}] over {one.datasets} datasets"


def _cell(trials: Sequence[Scored], best: bool) -> Text:
    if not trials:
        return Text("–")
    mark = "*" if any(one.undertrained for one in trials) else ""
    text = f"{100 * float(np.mean([one.past for one in trials])):.1f}{mark}"
    return Text(text, style="bold" if best else "")
