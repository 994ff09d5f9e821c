"""The claims of Kazemnejad et al. 2023 (2305.19466), each held against what a repetition found.

A claim on ranks "holds here" where the 95 % bootstrap interval over datasets of the difference in mean reciprocal rank
lies above zero, "does not" where it lies below, and "can't be told" where it holds zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from lengthwise.analysis.constructions import absolute_position, read_positions
from lengthwise.studies.attention import Series, order_of_arms
from lengthwise.studies.outcome import Scored, gain, rank_difference, ranking
from lengthwise.studies.study import Study

Answer = Literal["holds here", "does not", "can't be told"]


@dataclass(frozen=True)
class Claim:
    """One claim with the answer of a repetition.

    Args:
        letter: (a) to (g).
        text: the claim.
        answer: what this repetition says.
        because: the number that says so.
    """

    letter: str
    text: str
    answer: Answer
    because: str


def claims(study: Study, scores: Sequence[Scored], distances: Mapping[str, Series]) -> list[Claim]:
    """All claims; those that need trials which are not there can't be told."""
    ranks = ranking(study, scores)
    mean = {} if ranks is None else dict(zip(ranks.arms, ranks.mean, strict=True))
    made = [
        _rank(
            study,
            scores,
            mean,
            "a",
            "NoPE beats every explicit encoding on average",
            "NoPE",
            ("T5", "ALiBi", "Rotary", "APE"),
        ),
        _rank(
            study,
            scores,
            mean,
            "b",
            "T5 comes second; ALiBi, Rotary and APE do poorly",
            "T5",
            ("ALiBi", "Rotary", "APE"),
        ),
        _worst(study, scores, mean),
        _theorem(),
        _resembles(distances),
    ]
    return [*made, _scratchpad_helps(scores), _scratchpad_ranks(study, scores)]


def _rank(
    study: Study,
    scores: Sequence[Scored],
    mean: Mapping[str, float],
    letter: str,
    text: str,
    best: str,
    others: Sequence[str],
) -> Claim:
    if best not in mean or any(other not in mean for other in others):
        return Claim(letter, text, "can't be told", "not all of these encodings were run on the same datasets")
    rival = max(others, key=lambda other: mean[other])
    return _between(letter, text, best, rival, mean, rank_difference(study, scores, best, rival))


def _worst(study: Study, scores: Sequence[Scored], mean: Mapping[str, float]) -> Claim:
    text = "APE is the worst"
    if "APE" not in mean or len(mean) < 2:
        return Claim("c", text, "can't be told", "not all of these encodings were run on the same datasets")
    rival = min((arm for arm in mean if arm != "APE"), key=lambda arm: mean[arm])
    return _between("c", text, rival, "APE", mean, rank_difference(study, scores, rival, "APE"))


NOT_RUN = "no trials with scratchpads were made"


def _scratchpad_helps(scores: Sequence[Scored]) -> Claim:
    """By the best format of each dataset: its gain for addition, and for the others."""
    text = "A scratchpad helps addition only, and its format matters"
    names = [one.trial.dataset.name.partition(" | ") for one in scores]
    forms: dict[str, list[str]] = {}
    for name, bar, form in names:
        if bar and form not in forms.setdefault(name, []):
            forms[name].append(form)
    best: dict[str, tuple[float, float, float]] = {}
    told: list[str] = []
    for name, some in forms.items():
        gains = {form: found for form in some if (found := gain(scores, name, form)) is not None}
        if gains:
            form = max(gains, key=lambda form: gains[form][0])
            middle, low, high = best[name] = gains[form]
            told.append(f"{name} {100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] ({form})")
    if "Addition" not in best or len(best) < 2:
        return Claim("f", text, "can't be told", NOT_RUN)
    others = [value for name, value in best.items() if name != "Addition"]
    _, low, high = best["Addition"]
    refuted = high < 0 or any(one[1] > 0 for one in others)
    answer: Answer = "does not" if refuted else "holds here" if low > 0 else "can't be told"
    return Claim("f", text, answer, "points of exact match that the best format adds: " + ", ".join(told))


def _scratchpad_ranks(study: Study, scores: Sequence[Scored]) -> Claim:
    text = "With a scratchpad the choice of encoding still matters"
    ranks = ranking(study, scores, category="scratchpad")
    if ranks is None or len(ranks.arms) < 2:
        return Claim("g", text, "can't be told", NOT_RUN)
    mean = dict(zip(ranks.arms, ranks.mean, strict=True))
    order = sorted(mean, key=lambda arm: -mean[arm])
    difference = rank_difference(study, scores, order[0], order[-1], "scratchpad")
    return _between("g", text, order[0], order[-1], mean, difference)


def _between(
    letter: str, text: str, better: str, worse: str, mean: Mapping[str, float], difference: tuple[float, float, float]
) -> Claim:
    middle, low, high = difference
    answer: Answer = "holds here" if low > 0 else "does not" if high < 0 else "can't be told"
    ranks = f"mean reciprocal rank {better} {mean[better]:.3f}, {worse} {mean[worse]:.3f}"
    because = f"{ranks}: {middle:+.3f} [{low:+.3f}, {high:+.3f}]"
    return Claim(letter, text, answer, because)


def _theorem() -> Claim:
    tokens = torch.randint(1, 16, (4, 64), generator=torch.Generator().manual_seed(0))
    tokens[:, 0] = 0
    error = float((read_positions(absolute_position(64), tokens) - torch.arange(1, 65)).abs().max())
    answer: Answer = "holds here" if error < 1e-9 else "does not"
    because = f"weights set by hand read every position up to 64 with an error of at most {error:.0e} in float64"
    return Claim("d", "NoPE can represent absolute and relative positions (the theorems)", answer, because)


def _resembles(distances: Mapping[str, Series]) -> Claim:
    text = "Trained NoPE attends most as T5's bias does"
    order = [pair for pair in order_of_arms(distances.get("true", {})) if not pair[0].startswith("NoPE")]
    if len(order) < 2:
        return Claim("e", text, "can't be told", "the attention of fewer than two encodings was held against NoPE's")
    because = "mean Jensen-Shannon distance to NoPE: " + ", ".join(f"{arm} {value:.3f}" for arm, value in order)
    return Claim("e", text, "holds here" if order[0][0] == "T5" else "does not", because)
