"""SCAN: turn commands of a small English grammar into the actions that they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar

import torch
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.frame import Framed, read_symbols
from lengthwise.tasks.layout import BLANK, beside
from lengthwise.tasks.task import Dataset, check_length, span, tasks

VERBS = ("walk", "look", "run", "jump")
WORDS = (*VERBS, "turn", "left", "right", "opposite", "around", "twice", "thrice", "and", "after")
ACTIONS = ("WALK", "LOOK", "RUN", "JUMP", "LEFT", "RIGHT")
AND = len(WORDS) - 2
LONGEST = 48


@tasks.register("scan")
@dataclass(frozen=True)
class Scan(Framed):
    """Write the actions of a command: `jump left twice and walk` gives `LEFT JUMP LEFT JUMP WALK`.

    Lake and Baroni 2018 (arXiv 1711.00350). A phrase is a verb or `turn` with a direction, `opposite` (turn twice
    first) or `around` (four times turn and act), and `twice` or `thrice`; there are 102. A command is a phrase or two:
    `x and y` does x first, `x after y` does y first. That makes 20,910 commands, of which every one with `length`
    actions is as likely. No command has 23 actions, nor 29, 31, 34, 35, 37 to 39 or 41 to 47: see `share`.

    Kazemnejad et al. 2023 (arXiv 2305.19466) trained on up to 25 actions, 17,774 commands, each of which stood in the
    training data or the validation data once; here a command may come again.
    """

    version: ClassVar[int] = 1
    summary: ClassVar[str] = "turn commands in simple English into actions"
    length_counts: ClassVar[str] = "actions of the answer"
    examples: ClassVar[Sequence[tuple[str, str]]] = (
        ("walk after turn right", "RIGHT WALK"),
        ("jump around left and look opposite right", "LEFT JUMP LEFT JUMP LEFT JUMP LEFT JUMP RIGHT RIGHT LOOK"),
    )
    family: ClassVar[str] = "reasoning and composition"
    datasets: ClassVar[Sequence[Dataset]] = (
        Dataset(
            "SCAN",
            "SCAN_and_PCFG",
            "scan",
            tuple(length for length in span(1, 25) if length != 23),
            (26, 27, 28, 30, 32, 33, 36, 40, 48),
            "scan",
            span(1, 12),
            (13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 24),
        ),
    )

    _words: Tensor = field(init=False, repr=False, compare=False)
    """Ids of the words of every phrase `[102, 4]`, and of its actions `[102, 24]`, with blanks."""
    _actions: Tensor = field(init=False, repr=False, compare=False)
    _shares: tuple[float, ...] = field(init=False, repr=False, compare=False)
    """Number of commands by number of actions."""

    def __post_init__(self) -> None:
        phrases = _phrases()
        for name, width, ids in (("_words", 4, WORDS), ("_actions", LONGEST // 2, (*WORDS, *ACTIONS))):
            rows = [[ids.index(word) for word in phrase[name == "_actions"]] for phrase in phrases]
            table = torch.tensor([row + [BLANK] * (width - len(row)) for row in rows])
            object.__setattr__(self, name, table)
        counts = (self._actions != BLANK).sum(1)
        pairs = (counts[:, None] + counts).flatten().bincount(minlength=LONGEST + 1)
        shares = counts.bincount(minlength=LONGEST + 1) + 2 * pairs
        object.__setattr__(self, "_shares", tuple(map(float, shares.tolist())))

    @property
    def max_length(self) -> int:
        """Two phrases of 24 actions."""
        return LONGEST

    @property
    def symbol_names(self) -> tuple[str, ...]:
        """The words of commands, then the actions."""
        return (*WORDS, *ACTIONS)

    def share(self, length: int) -> float:
        """The number of commands with `length` actions."""
        check_length(self, length)
        return self._shares[length]

    def sizes(self, length: int) -> tuple[int, int]:
        """Two phrases of up to four words and the word between them; `length` actions."""
        return 9, length

    def draw(self, generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
        """Draw commands with that many actions, each as likely."""
        single, pairs = self._commands(length)
        if not len(single) + len(pairs):
            there = [other for other in span(1, LONGEST) if self.share(other)]
            near = min(there, key=lambda other: abs(other - length))
            raise InvalidArgument(f"no command of Scan has {length} actions; the nearest number is {near}")
        device = generator.device
        drawn = torch.randint(len(single) + len(pairs), (batch,), generator=generator, device=device).cpu()
        is_pair = drawn >= len(single)
        pair = pairs[(drawn - len(single)).clamp(min=0)] if len(pairs) else torch.zeros(batch, 3, dtype=torch.int64)
        lone = single[drawn.clamp(max=len(single) - 1)] if len(single) else pair[:, 0]
        first, second = torch.where(is_pair, pair[:, 0], lone), pair[:, 1]
        joined = AND + pair[:, 2]
        words = self._words[second].masked_fill(~is_pair[:, None], BLANK)
        prompt = beside(batch, self._words[first], joined.masked_fill(~is_pair, BLANK), words)
        before = self._actions[first]
        behind = self._actions[second].masked_fill(~is_pair[:, None], BLANK)
        swapped = (is_pair & (joined > AND))[:, None]
        answer = beside(batch, torch.where(swapped, behind, before), torch.where(swapped, before, behind))
        return prompt.to(device), answer[answer != BLANK].view(batch, length).to(device)

    def solve(self, prompt: str) -> str:
        """Read the command by the grammar."""
        words = read_symbols(prompt, WORDS)
        for joint in ("and", "after"):
            if joint in words:
                place = words.index(joint)
                halves = [_act(words[:place], prompt), _act(words[place + 1 :], prompt)]
                return " ".join(halves if joint == "and" else reversed(halves))
        return _act(words, prompt)

    def _commands(self, length: int) -> tuple[Tensor, Tensor]:
        """The phrases that alone have `length` actions, and pairs (first, second, 0 for `and` or 1 for `after`)."""
        counts = (self._actions != BLANK).sum(1)
        pairs = (counts[:, None] + counts == length).nonzero()  # [found, 2]
        joints = torch.arange(2).repeat_interleave(len(pairs))
        return (counts == length).nonzero()[:, 0], torch.cat([pairs.repeat(2, 1), joints[:, None]], dim=1)


def _phrases() -> list[tuple[list[str], list[str]]]:
    """Words and actions of the 102 phrases."""
    found: list[tuple[list[str], list[str]]] = []
    for verb, manner, way in product((*VERBS, "turn"), ("", "opposite", "around"), ("", "left", "right")):
        if not way and (manner or verb == "turn"):
            continue
        turn, act = [way.upper()] * bool(way), [verb.upper()] * (verb != "turn")
        once = {"": turn + act, "opposite": turn * 2 + act, "around": (turn + act) * 4}[manner]
        words = [word for word in (verb, manner, way) if word]
        found += [(words + often, once * times) for times, often in ((1, []), (2, ["twice"]), (3, ["thrice"]))]
    return found


def _act(words: Sequence[str], prompt: str) -> str:
    """The actions of one phrase."""
    rest = list(words)
    times = {"twice": 2, "thrice": 3}.get(rest[-1], 1) if rest else 1
    rest = rest[: len(rest) - (times > 1)]
    verb, *how = rest or [""]
    turn, act = {"left": "LEFT", "right": "RIGHT"}.get(rest[-1], "") if rest else "", verb.upper()
    if verb == "turn":
        act = ""
    manner = how[0] if len(how) == 2 else ""
    known = verb in (*VERBS, "turn") and len(how) <= 2 and manner in ("", "opposite", "around")
    if not known or (how and not turn) or (verb == "turn" and not how):
        raise InvalidArgument(f"{' '.join(words)!r} is no phrase of SCAN, in {prompt!r}")
    once = {"": f"{turn} {act}", "opposite": f"{turn} {turn} {act}", "around": f"{turn} {act} " * 4}[manner]
    return " ".join((f"{once} " * times).split())
