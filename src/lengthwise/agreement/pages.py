"""Results of comparisons as rows for machines and as Markdown for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import torch

from lengthwise.agreement.comparison import TOLERANCE, Comparison, Outcome
from lengthwise.agreement.place import FAR, NEAR, STARTS
from lengthwise.agreement.wording import number, paragraph
from lengthwise.spec import parse

Results = Sequence[tuple[Comparison, Sequence[Outcome]]]
CELLS = [(str(dtype).removeprefix("torch."), start) for dtype in TOLERANCE for start in STARTS]
"""Dtype and first position of each number of a row."""
TITLES = [f"{short} {where}" for short in ("fp32", "bf16") for where in ("0", "2^16", "2^20")]
"""What stands above each number."""


def names(comparison: Comparison) -> list[str]:
    """Names of the encodings and extensions that a comparison is of."""
    return [call.name for call in parse(comparison.spec)]


def cells(outcomes: Iterable[Outcome]) -> list[str]:
    """The differences of one comparison, a star at those above the tolerance; why not, where there are none."""
    found = {(outcome.dtype, outcome.start): outcome for outcome in outcomes}
    shown: list[str] = []
    for cell in CELLS:
        outcome = found.get(cell)
        if outcome is None:
            shown.append("")
        elif outcome.difference is None:
            shown.append("failed" if outcome.status == "failed" else "missing")
        else:
            shown.append(number(outcome.difference) + "*" * (outcome.status == "differs"))
    return shown


def as_rows(results: Results) -> list[dict[str, Any]]:
    """One row for each number, for JSON: a difference that is not finite is null, and says so."""
    rows: list[dict[str, Any]] = []
    for comparison, outcomes in results:
        for outcome in outcomes:
            row: dict[str, Any] = {"encoding": comparison.spec, "peer": comparison.peer, "part": comparison.part}
            row |= {"quantity": comparison.quantity, **asdict(outcome)}
            for name in ("difference", "ours_off", "theirs_off"):
                if row[name] is not None and not math.isfinite(row[name]):
                    row[name], row["note"] = None, f"{row['note']}; {name} is not finite"
            row["tolerance"] = TOLERANCE[getattr(torch, outcome.dtype)]
            rows.append(row)
    return rows


def how() -> str:
    """What is compared, in words, with the table of tolerances."""
    allowed = ", ".join(f"{number(value)} in {str(dtype).removeprefix('torch.')}" for dtype, value in TOLERANCE.items())
    return (
        f"A number is the largest |a - b| / max(1, |a|, |b|) of ours and theirs: at positions 0 to {NEAR - 1}, and at "
        f"{FAR} positions from 65,536 (2^16) and from 1,048,576 (2^20). A star: above the tolerance, {allowed}. Inputs "
        "are the same bfloat16 numbers in [-1, 1] in both dtypes. An empty field: not asked there."
    )


def table(results: Results) -> str:
    """A Markdown table, a comparison a row."""
    lines = [
        "| ours | theirs | what | " + " | ".join(TITLES) + " |",
        "|---|---|---|" + "---:|" * len(TITLES),
    ]
    for comparison, outcomes in results:
        named = f"| `{comparison.spec}` | {comparison.peer}: {comparison.part} | {comparison.quantity} | "
        lines.append(named + " | ".join(cells(outcomes)) + " |")
    return "\n".join(lines)


def paragraphs(results: Results) -> list[tuple[str, str]]:
    """What is to be said of disagreements and failures: a heading, and one paragraph for all of one cause."""
    causes: dict[str, list[tuple[Comparison, Sequence[Outcome]]]] = {}
    told: list[tuple[str, str]] = []
    for comparison, outcomes in results:
        if any(outcome.status == "differs" for outcome in outcomes):
            cause = comparison.why or _heading(comparison)
            causes.setdefault(f"{comparison.peer} {cause}", []).append((comparison, outcomes))
    for found in causes.values():
        told.append(
            (
                _heading(*(comparison for comparison, _ in found)),
                paragraph(found[0][0], [outcome for _, outcomes in found for outcome in outcomes]),
            )
        )
    failures: dict[str, list[Comparison]] = {}
    for comparison, outcomes in results:
        for note in sorted({outcome.note for outcome in outcomes if outcome.status == "failed"}):
            failures.setdefault(note, []).append(comparison)
    for note, failed in failures.items():
        of_peer = sum(comparison.peer == failed[0].peer for comparison, _ in results)
        whole = 1 < len(failed) == of_peer
        told.append((f"{failed[0].peer}: all {of_peer} comparisons" if whole else _heading(*failed), note))
    return told


def _heading(*found: Comparison) -> str:
    named = dict.fromkeys(name for comparison in found for name in names(comparison))
    return f"{', '.join(named)} / {found[0].peer}: {'; '.join(comparison.part for comparison in found)}"


def page(results: Results, versions: dict[str, str | None]) -> str:
    """The whole page in Markdown."""
    installed = ", ".join(f"{peer} {found or 'not installed'}" for peer, found in versions.items())
    agreed = sum(all(outcome.status == "agrees" for outcome in outcomes) for _, outcomes in results)
    near = [o.status for _, outcomes in results for o in outcomes if (o.dtype, o.start) == CELLS[0]]
    parts = [
        "# Who agrees with whom",
        "Measured by `lengthwise agree`; `make docs` writes `docs/agreement.md`.",
        f"Compared with {installed}. {agreed} of {len(results)} comparisons agree at all places, "
        f"{near.count('agrees')} of {len(near)} at positions 0 to {NEAR - 1} in float32.",
        how(),
        table(results),
        "## Where they do not agree",
        *(f"**{heading}.** {text}" for heading, text in paragraphs(results)),
    ]
    return "\n\n".join(parts) + "\n"
