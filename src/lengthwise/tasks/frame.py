"""The frame that all symbol tasks share: `<bos> prompt <sep> answer <eos>`.

`<eos>` is part of the answer: a model that does not know where to stop has not solved the task. As text, a prompt or
an answer is the names of its symbols with a space between each two. With `bos=False` a sequence starts with its prompt,
as in the study of Kazemnejad et al. 2023 (arXiv 2305.19466), where the constant first word of a prompt played `<bos>`.

Examples of one length may differ in tokens: a draw then has `BLANK` where an example has no symbol. Blanks are closed
up, and the shorter examples of a batch are filled with `<eos>` at their ends, which are not part of the answer.
"""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, final

import torch
from jaxtyping import Int64
from torch import Tensor

from lengthwise.errors import InvalidArgument, nearest
from lengthwise.tasks.layout import BLANK
from lengthwise.tasks.task import Dataset, Examples, check_count, check_length

BOS, SEP, EOS = range(3)
SPECIAL = ("<bos>", "<sep>", "<eos>")


@dataclass(frozen=True, kw_only=True)
class Framed(ABC):
    """Half of a symbol task: a leaf, a frozen dataclass, adds descriptions, `symbol_names`, `sizes`, `draw`, `solve`.

    Token ids are 0, 1, 2 for `<bos>`, `<sep>`, `<eos>`, and 3 onwards for the symbols.

    Args:
        bos: whether sequences begin with `<bos>`.
    """

    version: ClassVar[int]
    summary: ClassVar[str]
    length_counts: ClassVar[str]
    examples: ClassVar[Sequence[tuple[str, str]]]
    metric: ClassVar[Literal["exact_match", "bits_per_byte"]] = "exact_match"
    min_length: ClassVar[int] = 1
    family: ClassVar[str] = "others"
    """The heading that the task is listed under."""
    datasets: ClassVar[Sequence[Dataset]] = ()
    """The datasets of published studies that this task makes."""

    bos: bool = True

    @property
    def max_length(self) -> int | None:
        """The longest length that there is with these arguments; None where any will do."""
        return None

    def share(self, length: int) -> float:
        """How much of the published training data has this length, in proportion to others; 0: no such examples.

        1 at every length where the published data is even over lengths, or where there is none.
        """
        check_length(self, length)
        return 1.0

    @property
    @abstractmethod
    def symbol_names(self) -> tuple[str, ...]:
        """Names of the symbols, without spaces, in the order of their ids in `draw`."""

    @abstractmethod
    def sizes(self, length: int) -> tuple[int, int]:
        """Number of symbols of the prompt and of the answer, both without their frame; where they differ, the most."""

    @abstractmethod
    def draw(
        self, generator: torch.Generator, batch: int, length: int
    ) -> tuple[Int64[Tensor, "batch prompt"], Int64[Tensor, "batch answer"]]:
        """Draw prompts and their answers as symbol ids, which count from 0, on the generator's device.

        `BLANK` stands where a row has no symbol; what remains of a row is closed up.
        """

    @property
    def largest_position(self) -> int | None:
        """Largest of the positions that the task gives, all met in training; None where tokens stand in a row."""
        return None

    def positions_of(
        self, tokens: Int64[Tensor, "batch total"], length: int, generator: torch.Generator
    ) -> Int64[Tensor, "batch total"] | None:
        """Positions of the tokens of drawn examples; None for tokens in a row."""
        del tokens, length, generator
        return None

    @abstractmethod
    def solve(self, prompt: str) -> str:
        """The right answer to a prompt as text, by plain Python and independent of `draw`."""

    @property
    @final
    def vocabulary(self) -> tuple[str, ...]:
        """Names of the tokens, in the order of their ids."""
        return SPECIAL + self.symbol_names

    @property
    @final
    def fingerprint(self) -> str:
        """Empty: examples are drawn, not read."""
        return ""

    @final
    def sample(self, generator: torch.Generator, batch: int, length: int) -> Examples:
        """Draw `batch` framed examples of `length`."""
        check_length(self, length)
        check_count("batch", batch, 1)
        prompt, answer = self.draw(generator, batch, length)
        is_blank = torch.cat([prompt < 0, answer < 0], dim=1)
        bos, sep, eos = (prompt.new_full((batch, 1), mark) for mark in (BOS, SEP, EOS))
        head = [bos] if self.bos else []
        tokens = torch.cat([*head, prompt + len(SPECIAL), sep, answer + len(SPECIAL), eos], dim=1)
        first = len(head) + prompt.shape[1] + 1
        is_answer = (torch.arange(tokens.shape[1], device=tokens.device) >= first).expand(batch, -1)
        if not bool(is_blank.any()):
            return Examples(tokens, is_answer, self.positions_of(tokens, length, generator))
        kept = torch.ones_like(tokens, dtype=torch.bool)
        kept[:, len(head) : first - 1] = prompt != BLANK
        kept[:, first:-1] = answer != BLANK
        tokens, is_answer = _close_up(tokens, is_answer, kept)
        return Examples(tokens, is_answer, self.positions_of(tokens, length, generator))

    @final
    def tokens_at(self, length: int) -> int:
        """Most tokens of one whole example of `length`."""
        check_length(self, length)
        return sum(self.sizes(length)) + len(SPECIAL) - (not self.bos)

    @final
    def show(self, tokens: Int64[Tensor, " total"]) -> tuple[str, str]:
        """Prompt and answer as text; the answer ends at its first `<eos>`, or in `...` where a model wrote none."""
        vocabulary = self.vocabulary
        names = [vocabulary[token] for token in tokens.tolist()]
        if "<sep>" not in names:
            raise InvalidArgument("these tokens hold no <sep>, so that no prompt ends: show takes a whole example")
        start = names.index("<sep>")
        answer = names[start + 1 :]
        answer = answer[: answer.index("<eos>")] if "<eos>" in answer else [*answer, "..."]
        return " ".join(names[names[0] == "<bos>" : start]), " ".join(answer)

    def held_out(self) -> Self:
        """The task itself: every draw is new."""
        return self


def _close_up(tokens: Tensor, is_answer: Tensor, kept: Tensor) -> tuple[Tensor, Tensor]:
    """Move the kept tokens of each row to its left, and fill the rest with `<eos>`."""
    place = kept.cumsum(1) - 1
    width = int(place[:, -1].max()) + 1
    place = place.where(kept, width)  # one column more takes what is dropped
    closed = tokens.new_full((len(tokens), width + 1), EOS).scatter_(1, place, tokens)
    answer = torch.zeros_like(closed, dtype=torch.bool).scatter_(1, place, is_answer)
    return closed[:, :width], answer[:, :width]


def symbol_names(count: int) -> tuple[str, ...]:
    """Names for `count` symbols, which sort as their ids do: letters, or numbers of one width past 26."""
    if count <= len(string.ascii_lowercase):
        return tuple(string.ascii_lowercase[:count])
    width = len(str(count - 1))
    return tuple(f"{number:0{width}d}" for number in range(count))


def read_symbols(prompt: str, allowed: Collection[str]) -> list[str]:
    """Split the text of a prompt into its symbols.

    Raises:
        InvalidArgument: no symbols, or one that is not `allowed`.
    """
    symbols = prompt.split()
    if not symbols:
        raise InvalidArgument("the prompt is empty: write symbols with a space between each two")
    for symbol in symbols:
        if symbol not in allowed:
            raise InvalidArgument(f"{symbol!r} can't stand in this prompt: {nearest(symbol, allowed)}")
    return symbols
