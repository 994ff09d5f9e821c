"""An outcome in words and cells, the same for the terminal and the page."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping

from lengthwise.hf.stretch.bootstrap import Gap
from lengthwise.hf.stretch.candidate import UNTOUCHED
from lengthwise.hf.stretch.outcome import Outcome
from lengthwise.report.stretch import Line, Retrieval, StretchPage


def as_page(outcome: Outcome, *, name: str, use: str, command: str) -> StretchPage:
    """All that the page shows of an outcome.

    Args:
        outcome: what was found.
        name: of the model.
        use: how to load what was written; may be empty.
        command: that made it.
    """
    plan = outcome.plan
    head, rows, best = table(outcome)
    text = outcome.facts.get("text", "the given text")
    return StretchPage(
        title=f"{name} from {plan.trained} to {plan.target} tokens",
        overview=f"{len(outcome.rows)} ways, {_count(plan.windows, 'window')} of {plan.target} tokens of {text}.",
        verdict=verdict(outcome),
        chosen=outcome.winner,
        trained=plan.trained,
        head=head,
        rows=rows,
        best=best,
        notes=notes(outcome),
        lines=[Line(row.label, outcome.curves[row.label]) for row in outcome.rows],
        retrievals=[Retrieval(label, _cells(outcome, label)) for label in outcome.answers],
        use=use,
        facts=outcome.facts,
        command=command,
    )


def table(outcome: Outcome) -> tuple[list[str], list[list[str]], list[tuple[int, int]]]:
    """Column heads, cells, and which cells are the best of their column."""
    plan = outcome.plan
    asked = [length for length in plan.lengths if any(length in row.passkeys for row in outcome.rows)]
    head = ["Method", *(f"to {end}" for end in plan.lengths), "cost", "behind"]
    head += [f"keys {length}" for length in asked] + ["windows", "config"]
    rows: list[list[str]] = []
    for row in outcome.rows:
        cells = [row.label, *(_number(value) for value in row.perplexity), _gap(row.cost), _gap(row.behind)]
        cells += [f"{row.passkeys[length]:.0%}" if length in row.passkeys else "" for length in asked]
        rows.append([*cells, str(row.windows), "yes" if row.exported else "no"])
    best: list[tuple[int, int]] = []
    for column in range(len(plan.lengths)):
        values = [row.perplexity[column] for row in outcome.rows]
        least = min((value for value in values if math.isfinite(value)), default=math.nan)
        best += [(number, column + 1) for number, value in enumerate(values) if _number(value) == _number(least)]
    return head, rows, best


def verdict(outcome: Outcome) -> str:
    """The outcome in a few sentences."""
    winner, trained = outcome.row(outcome.winner), outcome.plan.trained
    first = next(row for row in outcome.rows if row.label != UNTOUCHED)
    loss = outcome.untouched_is_better
    keep = loss is not None and loss >= 0.005
    advice = "The model is better left as it is. Of the methods" if keep else "Use"
    words = [f"{advice} {winner.label}: perplexity {_number(winner.perplexity[-1])} at the far end"]
    if any(row.label == UNTOUCHED for row in outcome.rows):
        words[0] += f", {_number(outcome.row(UNTOUCHED).perplexity[-1])} untouched"
    if winner.cost is not None:
        words[0] += f"; within {trained} tokens it {_costs(winner.cost)}"
    words[0] += "."
    if keep:
        words.append(f"Past {trained} the untouched model is better by {loss:.2f} % on this text.")
    if winner is not first:
        words.append(f"{first.label} is as good past {trained}, and retrieves or costs no better.")
    ties = [
        row.label
        for row in outcome.rows
        if row.behind is not None and not row.behind.separated and row.label not in (winner.label, first.label)
    ]
    if ties:
        words.append(f"Not told apart from the best by this text: {', '.join(ties)}.")
    if outcome.written is None:
        words.append(f"No config of transformers can say any of these methods ({winner.why_not}).")
    elif outcome.written != outcome.winner:
        second = outcome.row(outcome.written)
        words.append(
            f"A config can't say it ({winner.why_not}); the written model uses {second.label}, "
            f"{_number(second.perplexity[-1])} at the far end."
        )
    return " ".join(words)


def notes(outcome: Outcome) -> list[str]:
    """What a reader must know."""
    plan = outcome.plan
    found = [
        "'to N' is the perplexity of the tokens from the length before up to N, each with all the text before it.",
        f"'cost' is against the untouched model up to {plan.trained} tokens, 'behind' against the best method past "
        "them: percent of perplexity, with the 95 % interval of a paired bootstrap over blocks of 256 tokens within "
        "the windows, which covers the choice of passages, not of other texts.",
    ]
    if plan.windows < 4:
        found.append(f"{plan.windows} of at least 4 windows: the intervals are likely too narrow.")
    if any(row.windows < plan.windows for row in outcome.rows):
        found.append(
            "Methods on fewer windows were clearly worse there (by more than 1 %) and left, the untouched model after "
            "one in any case; their perplexities stand in relation to the best one on the same windows."
        )
    if outcome.answers:
        found.append(
            f"'keys N' is the part of {plan.keys} five-digit numbers, hidden in {_count(plan.haystacks, 'text')} of N "
            "tokens, that the model gives back whole: perplexity alone hardly measures use of the far context. "
            "Lengths that they would fill by more than half are not asked."
        )
    return found


def _cells(outcome: Outcome, label: str) -> list[tuple[int, float, float]]:
    """Part found by length and depth, of the texts together."""
    sums: Mapping[tuple[int, int], list[bool]] = defaultdict(list)
    for length in outcome.plan.lengths:
        here = [answer for answer in outcome.answers[label] if answer.length == length]
        for number, answer in enumerate(here):
            place = number % outcome.plan.keys  # each text asks for the same depths in the same order
            sums[length, place].append(answer.exact)
    keys = outcome.plan.keys
    return [
        (length, 100 * (place + 0.5) / keys, sum(exact) / len(exact)) for (length, place), exact in sorted(sums.items())
    ]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "–"
    return f"{value:.3f}" if value < 100 else f"{value:.0f}" if value < 1e5 else f"{value:.1e}"


def _gap(gap: Gap | None) -> str:
    if gap is None:
        return "–"
    mean, low, high = gap.percent
    if max(map(abs, (mean, low, high))) < 0.005:
        return "0 %"
    return f"{_percent(mean)}\n{_percent(low)[:-2]} to {_percent(high)[:-2]}"


def _percent(value: float) -> str:
    return f"{value:+.2f} %" if abs(value) < 10 else f"{value:+.0f} %" if abs(value) < 1e5 else f"{value:+.0e} %"


def _costs(gap: Gap) -> str:
    mean = gap.percent[0]
    if _gap(gap) == "0 %":
        return "costs nothing"
    if not gap.separated:
        return "costs nothing that this text can tell"
    return f"costs {_percent(mean)}" if mean >= 0 else f"gains {_percent(-mean)}"
