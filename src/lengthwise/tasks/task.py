"""What a task is: examples whose answers are known, at any length.

A task draws whole sequences, prompt and answer together, and says which tokens are the answer. Because a
causal model is scored on the answer with the right tokens before each (teacher forcing), an example is answered
exactly by greedy decoding if and only if every answer token is the argmax in one forward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.registry import Registry
from lengthwise.spec import bind, parse_one


@dataclass(frozen=True, eq=False)
class Examples:
    """Sequences of one length, with the part that a model has to produce.

    Args:
        tokens: int64 `[batch, total]`; a model reads `tokens[:, :-1]` and predicts `tokens[:, 1:]`.
        answer: bool `[batch, total]`, true where the token is part of the answer; never true in column 0.
    """

    tokens: Int64[Tensor, "batch total"]
    answer: Bool[Tensor, "batch total"]


class Task(Protocol):
    """A source of examples. Attributes describe it to people; `sample` is all that training needs."""

    version: ClassVar[int]
    """Raised whenever the same generator would give other examples; part of every result."""
    summary: ClassVar[str]
    """One line: what the model has to do."""
    length_counts: ClassVar[str]
    """What the length of an example counts, for the axis of a figure: "symbols to sort"."""
    examples: ClassVar[Sequence[tuple[str, str]]]
    """Worked examples: a prompt as text and its answer as text, as `show` prints them."""
    metric: ClassVar[Literal["exact_match", "bits_per_byte"]]
    """What is reported first."""
    min_length: ClassVar[int]
    """The shortest length that makes sense."""

    @property
    def vocabulary(self) -> Sequence[str]:
        """Names of the tokens, in the order of their ids."""
        ...

    def sample(self, generator: torch.Generator, batch: int, length: int) -> Examples:
        """Draw `batch` examples of `length`; the same generator state gives the same examples."""
        ...

    def tokens_at(self, length: int) -> int:
        """Number of tokens of one whole example of `length`, from which the needed table size follows."""
        ...

    def show(self, tokens: Int64[Tensor, " total"]) -> tuple[str, str]:
        """Prompt and answer of one example as text."""
        ...

    def solve(self, prompt: str) -> str:
        """The right answer to a prompt as text, by plain Python and independent of `sample`."""
        ...

    def held_out(self) -> Task:
        """The same task over data that training never sees (itself where examples are drawn at random)."""
        ...


tasks: Registry[type[Task]] = Registry("task", "lengthwise.tasks")


def build_task(spec: str) -> Task:
    """Return the task of a spec string: `"sort"`, `"addition(reverse=True)"`.

    Raises:
        SpecError: the spec does not parse.
        UnknownName: no such task, with the nearest names.
        InvalidArgument: an argument that the task does not take.
    """
    call = parse_one(spec)
    maker = tasks[call.name]
    return maker(**bind(maker, call))


def check_length(task: Task, length: int) -> None:
    """Raise `InvalidArgument` unless `length` is a whole number of at least `task.min_length`."""
    if length < task.min_length:
        name = type(task).__name__
        raise InvalidArgument(f"{name} needs a length of at least {task.min_length}, not {length}")
