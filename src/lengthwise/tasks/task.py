"""What a task is: examples whose answers are known, at any length.

A task draws whole sequences, prompt and answer together, and says which tokens are the answer. Because a
causal model is scored on the answer with the right tokens before each (teacher forcing), an example is answered
exactly by greedy decoding if and only if every answer token is the argmax in one forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.registry import Registry
from lengthwise.spec import Call, bind, parse_one


@dataclass(frozen=True, eq=False)
class Examples:
    """Sequences of one length, with the part that a model has to produce.

    Where examples of one length differ in tokens, the shorter ones end in more end marks, which are no answer.

    Args:
        tokens: int64 `[batch, total]`; a model reads `tokens[:, :-1]` and predicts `tokens[:, 1:]`.
        answer: bool `[batch, total]`, true where the token is part of the answer; never true in column 0.
        positions: int64 `[batch, total]`, where each token is, where the task says so; None: tokens in a row.
    """

    tokens: Int64[Tensor, "batch total"]
    answer: Bool[Tensor, "batch total"]
    positions: Int64[Tensor, "batch total"] | None = None

    def read_at(self, device: torch.device) -> Positions | None:
        """Positions of the tokens that a model reads, all but the last; None for tokens in a row.

        What may be seen goes by the order of the tokens, whatever their positions.
        """
        if self.positions is None:
            return None
        places = self.positions[:, :-1].to(device)
        return Positions.sequence(places.shape[1], device=device).replace(q=places, k=places)

    def split(self, batch: int) -> Iterator[Examples]:
        """The same examples, at most `batch` at a time."""
        for start in range(0, len(self.tokens), batch):
            rows = slice(start, start + batch)
            places = None if self.positions is None else self.positions[rows]
            yield Examples(self.tokens[rows], self.answer[rows], places)


@runtime_checkable
class Task(Protocol):
    """A source of examples. Attributes describe it to people; `sample` is all that training needs."""

    version: ClassVar[int]
    """Raised whenever the same generator would give other examples; part of every result."""
    summary: ClassVar[str]
    """One line: what the model has to do."""
    length_counts: ClassVar[str]
    """What the length of an example counts, for the axis of a figure: "symbols to sort"."""
    examples: ClassVar[Sequence[tuple[str, str]]]
    """Worked examples of the task with its defaults: a prompt and its answer as text, as `show` prints them."""
    metric: ClassVar[Literal["exact_match", "bits_per_byte"]]
    """What is reported first."""
    min_length: ClassVar[int]
    """The shortest length that makes sense."""

    @property
    def vocabulary(self) -> Sequence[str]:
        """Names of the tokens, in the order of their ids."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hex digest of the data that examples are cut from, `""` where they are drawn at random."""
        ...

    def sample(self, generator: torch.Generator, batch: int, length: int) -> Examples:
        """Draw `batch` examples of `length`; the same generator state gives the same examples.

        The tensors are on the generator's device.

        Raises:
            InvalidArgument: `length` is below `min_length`, or `batch` below 1.
            DataError: the data is shorter than `length`.
        """
        ...

    def tokens_at(self, length: int) -> int:
        """Most tokens of one whole example of `length`, from which the needed table size follows.

        Raises what `sample` raises, so that a length that can't be had is found before training starts.
        """
        ...

    def show(self, tokens: Int64[Tensor, " total"]) -> tuple[str, str]:
        """Prompt and answer of one example as text."""
        ...

    def held_out(self) -> Task:
        """The same task over data that training never sees (itself where examples are drawn at random)."""
        ...


@runtime_checkable
class SymbolTask(Task, Protocol):
    """A task whose prompts have one right answer each."""

    def solve(self, prompt: str) -> str:
        """The right answer to a prompt as text, by plain Python and independent of `sample`.

        Raises:
            InvalidArgument: the text is not a prompt of this task.
        """
        ...


tasks: Registry[type[Task]] = Registry("task", "lengthwise.tasks")

Category = Literal["primitive", "mathematics_and_reasoning", "SCAN_and_PCFG", "scratchpad"]
"""The three kinds of datasets by which the study of Kazemnejad et al. ranks encodings, and those with a scratchpad."""


@dataclass(frozen=True)
class Dataset:
    """One dataset of a published study, as a task of this package makes it, and the same scaled down to a laptop.

    Args:
        name: what the study calls it.
        category: its group in the study's rankings.
        spec: the task with the study's distribution.
        trained: lengths that the study trained on.
        tested: longer lengths that the study tested.
        small: the task with fewer symbols.
        small_trained: lengths to train `small` on.
        small_tested: longer lengths to test `small` on.
        study: the study; `kazemnejad2023` is arXiv 2305.19466.
        plain: name of the same dataset without a scratchpad; empty where this one has none.
        scratchpad: the format of its scratchpad; empty where it has none.
    """

    name: str
    category: Category
    spec: str
    trained: tuple[int, ...]
    tested: tuple[int, ...]
    small: str
    small_trained: tuple[int, ...]
    small_tested: tuple[int, ...]
    study: str = "kazemnejad2023"
    plain: str = ""
    scratchpad: str = ""


def span(first: int, last: int) -> tuple[int, ...]:
    """All lengths from `first` to `last`, both included."""
    return tuple(range(first, last + 1))


def datasets(study: str = "kazemnejad2023") -> list[Dataset]:
    """The datasets of a study that registered tasks say they make, by category and name.

    Example:
        >>> from lengthwise.tasks import datasets
        >>> len(datasets())
        17
        >>> datasets()[0].spec
        'pcfg(symbols=520)'
    """
    made: list[Dataset] = [one for _, task in tasks.items() for one in getattr(task, "datasets", ())]
    return sorted((one for one in made if one.study == study), key=lambda one: (one.category, one.name))


def build_task(spec: str) -> Task:
    """Return the task of a spec string: `"sort"`, `"addition(reverse=True)"`, `"text(paths=['book.txt'])"`.

    Raises:
        SpecError: the spec does not parse.
        UnknownName: no such task, with the nearest names.
        InvalidArgument: an argument that the task does not take.
        DataError: the task's files can't be used.
    """
    call = parse_one(spec)
    maker = tasks[call.name]
    arguments = bind(maker, call)
    for name, value in arguments.items():
        if isinstance(value, Call):
            raise InvalidArgument(
                f"{name}={value.name} of {call.name!r} must be a number, True, False or quoted text, not a name: "
                f"write {name}='{value.name}' if it is text"
            )
    return maker(**arguments)


def check_length(task: Task, length: int) -> None:
    """Raise `InvalidArgument` unless `length` is a whole number from `task.min_length` to its `max_length`, if any."""
    what = f"the length of {type(task).__name__} ({task.length_counts})"
    check_count(what, length, task.min_length)
    most: int | None = getattr(task, "max_length", None)
    if most is not None and length > most:
        raise InvalidArgument(f"{what} is at most {most} with these arguments, not {length}: {task!r}")


def check_flag(what: str, value: object) -> None:
    """Raise `InvalidArgument`, naming `what`, unless `value` is `True` or `False`."""
    if not isinstance(value, bool):
        raise InvalidArgument(f"{what} must be True or False, not {value!r}")


def check_count(what: str, value: object, least: int) -> None:
    """Raise `InvalidArgument`, naming `what`, unless `value` is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgument(f"{what} must be a whole number of at least {least}, not {value!r}")
