"""What trained models do with positions, as tables in the terminal, as JSON, and as one self-contained page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from lengthwise.analysis.summary import Looks
from lengthwise.analysis.summary_pairs import Pair
from lengthwise.files import write_whole
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.statistics import Interval, mean_interval
from lengthwise.report.colours import OUTLINES, Style, styles
from lengthwise.report.frame import render

FORMAT = 1
PROBED = (("position", "linear"), ("position", "mlp"), ("distance", "linear"), ("distance", "mlp"))


@dataclass(frozen=True, eq=False)
class Model:
    """One trained model and what was seen in it, by length; it is probed at the first one."""

    experiment: Experiment
    looks: Mapping[int, Looks]


@dataclass(frozen=True, eq=False)
class HeadMap:
    """The attention of one head to one input.

    Args:
        encoding, seed: of the model.
        layer, head: from 1.
        tokens: as text, a row and a column each.
        weights: `[queries][keys]`.
    """

    encoding: str
    seed: int
    layer: int
    head: int
    tokens: Sequence[str]
    weights: Sequence[Sequence[float]]

    @property
    def title(self) -> str:
        """A name for a small figure."""
        return f"{self.encoding}, layer {self.layer}, head {self.head}"


@dataclass(frozen=True, eq=False)
class Group:
    """Models of one task and setting.

    Args:
        title: the task and the trained length.
        length_counts: what a length counts.
        lengths: at which models were looked at.
        models: one for each encoding and seed.
        pairs: distances of attention by length; empty where there is nothing to compare.
        heads: attention of single heads.
    """

    title: str
    length_counts: str
    lengths: Sequence[int]
    models: Sequence[Model]
    pairs: Mapping[int, Sequence[Pair]]
    heads: Sequence[HeadMap]

    @property
    def encodings(self) -> list[str]:
        """Each encoding once, in the order of the alphabet."""
        return sorted({model.experiment.encoding for model in self.models})

    def mean(self, encoding: str, length: int, of: Callable[[Looks], Any]) -> np.ndarray:
        """Mean over seeds of what `of` takes from the looks of an encoding."""
        return np.mean(
            [of(one.looks[length]) for one in self.models if one.experiment.encoding == encoding], axis=0, dtype=float
        )


def r2(looks: Looks, asked: str, kind: str, shuffled: bool = False) -> list[float]:
    """R² of one kind of probe, by layer from the embedding on."""
    return [probe.r2 for probe in looks.probes if (probe.asked, probe.kind, probe.shuffled) == (asked, kind, shuffled)]


def interval(pair: Pair) -> Interval:
    """Mean distance over seeds with its interval."""
    return mean_interval(np.array([pair.distances]).T, rng=np.random.default_rng(0))


def print_analysis(groups: Sequence[Group], out: Console) -> None:
    """How far heads look, what order does, what states know, whose attention resembles whose."""
    for group in groups:
        out.print(f"\n{group.title}", style="bold")
        for length in group.lengths:
            out.print()
            out.print(_looks_table(group, length))
        out.print(
            "cosines of last states, 1 where a model knows no order: of a token when the others are moved, and of one "
            "token at all places",
            style="dim",
        )
        out.print()
        out.print(_probe_table(group))
        out.print(
            "R² on examples never probed before, embedding first; below 0: too few examples, or nothing to find\n"
            "shuffled: the largest with shuffled labels",
            style="dim",
        )
        if any(group.pairs.values()):
            out.print()
            out.print(_pair_table(group))
            out.print(
                "an encoding against itself: another seed, the control; intervals over seeds, the nearest first",
                style="dim",
            )


def write_analysis_json(groups: Sequence[Group], path: Path) -> Path:
    """Write all numbers, those of single heads included, and return the path."""
    data = {
        "format": FORMAT,
        "groups": [
            {
                "title": group.title,
                "length_counts": group.length_counts,
                "models": [
                    {
                        "experiment": model.experiment.as_dict(),
                        "by_length": {str(length): asdict(looks) for length, looks in model.looks.items()},
                    }
                    for model in group.models
                ],
                "attention_distance": {
                    str(length): [asdict(pair) for pair in found] for length, found in group.pairs.items()
                },
                "heads": [asdict(one) for one in group.heads],
            }
            for group in groups
        ],
    }
    write_whole(path, json.dumps(data, indent=1).encode())
    return path


def write_analysis_page(groups: Sequence[Group], path: Path, *, command: str | None = None) -> Path:
    """Write the page as one HTML file and return its path."""
    from lengthwise.report.analysis_figures import figures_of  # it needs the classes above

    look = styles(name for group in groups for name in group.encodings)
    figures: dict[str, Any] = {}
    parts: list[dict[str, Any]] = []
    for number, group in enumerate(groups, 1):
        shown = []
        for place, figure in enumerate(figures_of(group, look)):
            name = f"figure-{number}-{place}"
            figures[name] = {key: value for key, value in figure.spec.items() if key not in ("config", "$schema")}
            shown.append({"id": name, "title": figure.title, "caption": figure.caption})
        parts.append({"title": group.title, "about": _about(group), "figures": shown, "legend": _legend(group, look)})
    models = sum(len(group.models) for group in groups)
    text = render(
        "analysis.html",
        title="What models do with positions",
        overview=f"{_count(models, 'trained model')}.",
        figures=figures,
        parts=parts,
        command=command,
    )
    write_whole(path, text.encode("utf-8", "backslashreplace"))
    return path


def _legend(group: Group, look: Mapping[str, Style]) -> list[dict[str, str]]:
    return [
        {"label": name, "colour": look[name].colour, "path": OUTLINES[look[name].shape]} for name in group.encodings
    ]


def _about(group: Group) -> str:
    seeds = {model.experiment.seed for model in group.models}
    lengths = ", ".join(map(str, group.lengths))
    return (
        f"{_count(len(group.encodings), 'encoding')}, {_count(len(seeds), 'seed')}; looked at with "
        f"{lengths} {group.length_counts}. Means over seeds."
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _looks_table(group: Group, length: int) -> Table:
    table = _table(f"With {length} {group.length_counts}")
    for title in ("encoding", "heads look back, tokens by layer", "two orders", "one token"):
        table.add_column(title, justify="left" if title == "encoding" else "right")
    for name in group.encodings:
        back = group.mean(name, length, lambda looks: looks.mean_distance).mean(axis=-1)
        order = group.mean(name, length, lambda looks: looks.order)[-1]
        places = group.mean(name, length, lambda looks: looks.places)[-1]
        table.add_row(name, "  ".join(f"{value:.1f}" for value in back), f"{order:.3f}", f"{places:.3f}")
    return table


def _probe_table(group: Group) -> Table:
    length = group.lengths[0]
    table = _table(f"What hidden states know, with {length} {group.length_counts}")
    for title in ("encoding", "probe", "position", "distance", "shuffled"):
        table.add_column(title, justify="left" if title in ("encoding", "probe") else "right")
    for name in group.encodings:
        for kind in ("linear", "mlp"):
            cells: list[str] = []
            worst = -np.inf
            for asked in ("position", "distance"):
                known = group.mean(name, length, lambda looks, a=asked, k=kind: r2(looks, a, k))
                control = group.mean(name, length, lambda looks, a=asked, k=kind: r2(looks, a, k, True))
                cells.append(" ".join(f"{value:.2f}" for value in known))
                worst = max(worst, float(control.max()))
            table.add_row(name if kind == "linear" else "", kind, *cells, f"{worst:.2f}")
    return table


def _pair_table(group: Group) -> Table:
    table = _table("Distance of attention (nats)")
    table.add_column("encodings")
    lengths = [length for length in group.lengths if group.pairs.get(length)]
    for length in lengths:
        table.add_column(str(length), justify="right")
    found = {
        (pair.first, pair.second): [interval(other) for at in lengths for other in _same(group.pairs[at], pair)]
        for pair in group.pairs[lengths[0]]
    }
    for (first, second), values in sorted(found.items(), key=lambda item: float(item[1][0].mean[0])):
        cells = [
            f"{one.mean[0]:.3f}" + ("" if one.seeds == 1 else f" [{one.low[0]:.3f}, {one.high[0]:.3f}]")
            for one in values
        ]
        table.add_row(f"{first}, another seed" if first == second else f"{first} and {second}", *cells)
    return table


def _same(pairs: Sequence[Pair], wanted: Pair) -> list[Pair]:
    return [pair for pair in pairs if (pair.first, pair.second) == (wanted.first, wanted.second)]


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
