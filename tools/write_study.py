"""Write docs/study.md from the results of the study at small scale."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from small_png import shrink

from lengthwise.report.colours import styles
from lengthwise.report.study import CATEGORIES, Findings, accuracy_rows, findings, format_rows, rank_rows
from lengthwise.report.theme import save
from lengthwise.studies import Choice, studies
from lengthwise.studies.attention import AttentionFiles
from lengthwise.studies.outcome import TRAINED, best_on, by_dataset
from lengthwise.studies.study import ResultFiles
from lengthwise.tasks.scratchpad import FORMATS

ROOT = Path(__file__).parents[1]
NAME = "kazemnejad2023"
FOLDER = ROOT / "results" / f"{NAME}-small"


def main() -> None:
    """Read, compute, write."""
    stored = ResultFiles(FOLDER)
    formats = tuple(name for name, switches in FORMATS.items() if switches)
    study = studies[NAME](Choice(settings=stored.settings(), scratchpads=formats))
    results = stored.read(study.trials)
    plain = [trial for trial in study.trials if not trial.dataset.plain]
    files = AttentionFiles(FOLDER)
    found = findings(study, results, files.distances(), files.reach())
    tried = json.loads((FOLDER / "settings.json").read_text(encoding="utf-8"))["tried"]
    parts = [
        HEAD.format(done=progress([trial in results for trial in plain])),
        *accuracies(found),
        *ranks(found),
    ]
    parts += [
        "## The paper's claims",
        *(claim_lines(found)),
        *scratchpads(found),
        *attention(found),
        *reach(found),
        *settings(found, tried),
    ]
    draw(found)
    (ROOT / "docs" / "study.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def progress(done: Sequence[bool]) -> str:
    """How much of the study there is."""
    if all(done):
        return f"all {len(done)} trials, three seeds each"
    return f"{sum(done)} of {len(done)} trials so far, which go through all datasets with one seed after another"


HEAD = """# The study of Kazemnejad et al. 2023, repeated small

*The Impact of Positional Encoding on Length Generalization in Transformers* (arXiv 2305.19466): which encoding goes
furthest past the trained length, on 17 datasets. Here with models of width 64 and shorter lengths:
{done}.

    lengthwise study kazemnejad2023 --search      # one setting a dataset for all encodings, on trained lengths alone
    lengthwise study kazemnejad2023               # all trials, study.html; goes on from results/ where it was stopped
    python tools/write_study.py                   # this page, from results/kazemnejad2023-small

What differs from the publication: size, steps, lengths and vocabularies are those of a laptop; examples are drawn as
training goes on; a mark begins each sequence; T5's logits are scaled as everyone's are (the arm "T5, not scaled"
leaves that out). NoPE, T5, ALiBi, Rotary and APE are `none`, `t5`, `alibi`, `rotary` on a quarter of each head, and
sinusoids in halves, as the authors had them. What was decided, and why: [decisions/study.md](decisions/study.md);
further figures, negative ones too, in the [log](log.md)."""


def draw(found: Findings) -> None:
    """docs/study.png: exact match by length on each dataset."""
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for dataset, rows in by_dataset(found.scores).items():
        mine, published = accuracy_rows(found.study, rows, dataset.name)
        ours += [{"dataset": dataset.name, "kind": "ours"} | row for row in mine]
        theirs += [{"dataset": dataset.name, "kind": "published"} | row for row in published]
    look, arms = styles(found.study.arms.values()), list(found.study.arms)
    colours = [look[found.study.arms[arm]].colour for arm in arms]
    colour = alt.Color("arm:N", title=None, sort=arms, scale=alt.Scale(domain=arms, range=colours))
    x = alt.X("length:Q", title="length / trained length", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=4))
    y = alt.Y("mean:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%", tickCount=3))
    base = alt.Chart().encode(color=colour)
    here, there = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("ours", "published"))
    layers = [
        there.mark_line(strokeWidth=0.8, strokeDash=[3, 2]).encode(x=x, y=y),
        here.mark_area(opacity=0.15).encode(x=x, y="low:Q", y2="high:Q"),
        here.mark_line(strokeWidth=2).encode(x=x, y=y),
    ]
    panels = alt.layer(*layers, data=alt.Data(values=ours + theirs)).properties(width=165, height=110)
    header = alt.Header(title=None, labelFontSize=11)
    order = [dataset.name for dataset in by_dataset(found.scores)]
    whole = panels.facet(alt.Facet("dataset:N", sort=order, header=header), columns=4).resolve_scale(x="independent")
    path = save(whole, ROOT / "docs" / "study.png")
    path.write_bytes(shrink(path.read_bytes()))


def accuracies(found: Findings) -> list[str]:
    """Mean exact match past the trained length."""
    arms, best = list(found.study.arms), best_on(found.study, found.scores)
    rows = [["dataset", *arms, "lengths"]]
    for dataset, trials in by_dataset(found.scores).items():
        cells: list[str] = []
        for arm in arms:
            some = trials.get(arm, [])
            mean = f"{100 * float(np.mean([one.past for one in some])):.1f}" if some else "–"
            mean = f"**{mean}**" if arm in best.get(dataset.name, []) else mean
            theirs = found.study.published["datasets"].get(dataset.plain or dataset.name, {}).get("pooled", {}).get(arm)
            weak = "*" if any(one.undertrained for one in some) else ""
            cells.append(mean + weak + ("" if theirs is None or dataset.plain else f" ({100 * theirs:.0f})"))
        near, far = dataset.small_trained, dataset.small_tested
        rows.append([dataset.name, *cells, f"{near[0]}–{near[-1]}, then to {far[-1]}"])
    note = (
        "In parentheses: as published, at the published lengths. Each longer length has the same weight. Bold: the "
        f"best. *: some seed is below {TRAINED:.0%} at trained "
        "lengths: it had not learned the task, and its place says little."
    )
    picture = "![Exact match by length on each dataset](study.png)"
    lines = (
        "Bold lines: here, with 95 % intervals over seeds. Thin and dashed: as published, by length over the longest "
        "trained one."
    )
    return ["## Exact match past the trained length (%)", markdown(rows), note, picture, lines]


def ranks(found: Findings) -> list[str]:
    """Mean reciprocal ranks, ours and published, and correlations."""
    rows = [["datasets", "", *found.study.ranked]]
    for category, name in CATEGORIES.items():
        rows += [[name if row[0] == "all trials" else "", *row] for row in rank_rows(found, category)]
    lines = [
        f"- {name}: {one.mean:+.2f} [{one.low:+.2f}, {one.high:+.2f}] over {one.datasets} datasets"
        for category, name in CATEGORIES.items()
        if (one := found.agreements[category]) is not None
    ]
    note = (
        "Within each dataset and seed the encodings are ranked by accuracy past the trained length, rounded to four "
        "decimals; ties get the mean of their ranks, or by the published rule the order of the table."
    )
    terms = (
        f"Trained only: without each dataset and seed where any encoding is below {TRAINED:.0%} at trained lengths. "
        "Told where to stop: the end mark does not count. The correlation leaves out Addition, where all are alike."
    )
    heading = (
        "Rank correlation with the publication (Spearman, mean over datasets, 95 % bootstrap interval over datasets):"
    )
    return ["## Mean reciprocal rank", markdown(rows), note, terms, heading, "\n".join(lines)]


def claim_lines(found: Findings) -> list[str]:
    """A table of the claims with the answers."""
    rows = [["", "claim", "here", "because"]]
    rows += [[f"({one.letter})", one.text, f"**{one.answer}**", one.because] for one in found.claims]
    note = (
        "A claim on ranks holds here where the 95 % bootstrap interval over datasets of the difference lies above "
        "zero, does not where it lies below, and can't be told where it holds zero."
    )
    return [markdown(rows), note]


def scratchpads(found: Findings) -> list[str]:
    """The formats, ranked within each dataset."""
    rows = [["dataset", "scratchpad", "exact match, %", "mean reciprocal rank", "published"], *format_rows(found)]
    note = (
        "Within each dataset, encoding and seed that has all of them the formats are ranked by exact match past the "
        "trained length. The published ranks are among all eight formats (six for LEGO and sorting), and by the answer "
        "behind the scratchpad; here the whole of it counts."
    )
    return ["## Which scratchpad helps", markdown(rows), note] if found.formats else []


def reach(found: Findings) -> list[str]:
    """How far heads look, in five parts."""
    if not found.reach:
        return []
    shares = {arm: np.mean(np.array(seeds), axis=0).reshape(5, -1).sum(axis=1) for arm, seeds in found.reach.items()}
    rows = [["arm", *(f"{place / 5:.1f} to {(place + 1) / 5:.1f}" for place in range(5))]]
    rows += [[arm, *(f"{share:.1%}" for share in five)] for arm, five in shares.items()]
    note = (
        f"On {found.looked_at}: the distance to the key that a head attends to most, divided by the tokens seen (0 is "
        "the token itself, 1 the first one); shares of all queries, heads, layers and tested lengths."
    )
    return ["## How far heads look", note, markdown(rows)]


def attention(found: Findings) -> list[str]:
    """Distance of each arm's attention from NoPE's."""
    parts: list[str] = []
    for variant, series in found.distances.items():
        every = sorted({length for rows in series.values() for length in rows})
        if not every:
            continue
        lengths = [every[place] for place in sorted({*np.linspace(0, len(every) - 1, 7).round().astype(int).tolist()})]
        rows = [["arm", *map(str, lengths)]]
        rows += [
            [arm, *(f"{np.mean(values):.3f}" if (values := by_length.get(length)) else "–" for length in lengths)]
            for arm, by_length in series.items()
        ]
        parts += [f"Jensen-Shannon distance to NoPE's attention in nats, by length ({variant}):", markdown(rows)]
    note = (
        "On SCAN, by length: for each layer the least divergence of two heads' rows, mean over queries, layers and "
        "examples. The claim goes by the true divergence over all pairs of heads; the authors swapped its arguments "
        "and took pairs i < j only. Another seed of NoPE is the control, and farther off than T5 of the same seed: "
        "models of one seed begin with the same weights elsewhere."
    )
    return ["## Whose attention resembles NoPE's", note, *parts] if parts else []


def settings(found: Findings, tried: Sequence[dict[str, Any]]) -> list[str]:
    """What the search found, and the time that all took."""
    rows = [["dataset", "layers", "steps", "rate", "worst in the search", "worst encoding here", "seconds"]]
    total = whole = 0.0
    for dataset, arms in by_dataset(found.scores).items():
        one = next(iter(arms.values()))[0]
        model, training = one.trial.experiment.model, one.trial.experiment.training
        chosen = {"layers": model.layers, "steps": training.steps, "learning_rate": training.learning_rate}
        searched = [row["reached"] for row in tried if (row["dataset"], row["setting"]) == (dataset.name, chosen)]
        worst = min(float(np.mean([one.seen for one in trials])) for trials in arms.values())
        seconds = [one.seconds for trials in arms.values() for one in trials]
        total, whole = total + float(np.median(seconds)) * len(seconds), whole + sum(seconds)
        numbers = [f"{value:g}" for value in chosen.values()]
        before = f"{min(searched[0].values()):.3f}" if searched else "not tried"
        rows.append([dataset.name, *numbers, before, f"{worst:.3f}", f"{np.median(seconds):.0f}"])
    note = (
        "Exact match at trained lengths, weighed as training draws them: the worst encoding of the search's seed, and "
        "the worst mean over seeds here. The last rung is taken where no other does, without a try. "
        "Seconds: the median of the trials, two at a time on two cores, other work beside them now and then. All "
        f"trials took {whole / 7200:.1f} hours of both cores, {total / 7200:.1f} if each is counted as its median."
    )
    return ["## Settings and time", markdown(rows), note]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table; the first row is its head."""
    head, *body = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])


if __name__ == "__main__":
    main()
