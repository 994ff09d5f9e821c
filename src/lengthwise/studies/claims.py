"""The claims of Kazemnejad et al. 2023 (2305.19466), each held against what a repetition found.

A claim on ranks "holds here" where the 95 % bootstrap interval over datasets of the difference in mean reciprocal rank
lies above zero, "does not" where it lies below, and "can't be told" where it holds zero. That encodings matter with a
scratchpad can only hold or not be told: no sample shows that nothing matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from lengthwise.analysis.constructions import absolute_position, read_positions
from lengthwise.studies.attention import Series, order_of_arms
from lengthwise.studies.outcome import Scored, rank_difference, ranking, spread_of_ranks
from lengthwise.studies.scratchpads import gain
from lengthwise.studies.study import Study

Answer = Literal["holds here", "does not", "can't be told"]

NOT_RUN = "no trials with scratchpads were made"
"""Why the last two claims can't be told."""
LITTLE = 0.05
"""A gain in exact match that counts as none."""


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


def _scratchpad_helps(scores: Sequence[Scored]) -> Claim:
    """By the gain over all formats that were run: choosing the best one would find a gain where there is none."""
    text = "A scratchpad helps addition only"
    names = list(dict.fromkeys(one.trial.dataset.plain for one in scores if one.trial.dataset.plain))
    if not names:
        return Claim("f", text, "can't be told", NOT_RUN)
    gains = {name: found for name in names if (found := gain(scores, name)) is not None}
    others = [found for name, found in gains.items() if name != "Addition"]
    told = ", ".join(
        f"{name} {100 * middle:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
        for name, (middle, low, high) in gains.items()
    )
    if "Addition" not in gains or not others:
        few = "too few pairs of trained models, with and without, on Addition and another dataset"
        return Claim("f", text, "can't be told", f"{few}; points of exact match: {told or 'none'}")
    _, low, high = gains["Addition"]
    answer: Answer = "can't be told"
    if high < 0 or any(one[1] > 0 for one in others):
        answer = "does not"
    elif low > 0 and all(one[2] < LITTLE for one in others):
        answer = "holds here"
    return Claim("f", text, answer, f"points of exact match that they add, the whole scratchpad counted: {told}")


def _scratchpad_ranks(study: Study, scores: Sequence[Scored]) -> Claim:
    text = "With a scratchpad the choice of encoding still matters"
    if not any(one.trial.dataset.plain for one in scores):
        return Claim("g", text, "can't be told", NOT_RUN)
    ranks, spread = ranking(study, scores, category="scratchpad"), spread_of_ranks(study, scores, "scratchpad")
    if ranks is None or spread is None or len(ranks.arms) < 2:
        return Claim("g", text, "can't be told", "not all of the encodings were run on the same datasets")
    order = sorted(zip(ranks.mean, ranks.arms, strict=True), reverse=True)
    listed = ", ".join(f"{arm} {mean:.3f}" for mean, arm in order)
    because = f"mean reciprocal rank {listed}; chance spreads them as far in {100 * spread[1]:.1f} % of draws"
    return Claim("g", text, "holds here" if spread[1] < 0.05 else "can't be told", because)


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
