"""Scratchpads in the unified format of Kazemnejad et al. 2023 (arXiv 2305.19466): steps before the answer.

A scratchpad is `think STEP # STEP # ... thus ANSWER`. A step has up to five parts, each with a switch of its own:

    i  input         in ...      what the step works on
    c  computation   comp ...    how
    o  output        out ...     what comes out
    v  variables     [ ... ]     what is carried to later steps
    r  remaining     re ...      the input that is left

The parts, their order and their contents follow the authors' code; the phrases `Thinking step by step:` and `Thus,` are
one symbol each here, and so are the marks. Exact match counts the whole scratchpad; the study parsed the answer only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Bool, Int64
from torch import Tensor

from lengthwise.errors import InvalidArgument
from lengthwise.tasks.layout import BLANK, beside

PARTS = "icovr"
OPENING = {"i": "in", "c": "comp", "o": "out", "v": "[", "r": "re"}
CLOSING = {"v": "]"}

FORMATS: Mapping[str, str] = {
    "none": "",
    "minimal": "co",
    "full": "icovr",
    "no input": "covr",
    "no computation": "iovr",
    "no output": "icvr",
    "no variables": "icor",
    "no remaining": "icov",
}
"""The eight formats of the study by name; sorting and LEGO have no variables, and six of them."""


def read_switches(given: object, parts: str = PARTS) -> str:
    """The switches of a scratchpad in order: `"full"`, `"minimal"`, or letters such as `"icr"`; `""` for none.

    Raises:
        InvalidArgument: another word or letter, or one that is not among the `parts` of this task.

    Example:
        >>> read_switches("oc"), read_switches("full", parts="icor")
        ('co', 'icor')
    """
    if given == "full":
        return parts
    wanted = FORMATS["minimal"] if given == "minimal" else given
    if not isinstance(wanted, str) or len(set(wanted)) != len(wanted) or not set(wanted) <= set(parts):
        raise InvalidArgument(
            f"scratchpad must be '', 'full', 'minimal' or some of the letters {', '.join(parts)}, not {given!r}"
        )
    return "".join(part for part in parts if part in wanted)


def marks(switches: str) -> tuple[str, ...]:
    """The marks of a scratchpad with these switches, which a vocabulary ends in; none where there is no scratchpad.

    Example:
        >>> marks("ov")
        ('think', 'thus', '#', 'out', '[', ']')
    """
    if not switches:
        return ()
    around = [mark for part in switches for mark in (OPENING[part], CLOSING.get(part)) if mark is not None]
    return ("think", "thus", "#", *around)


def lay_out(
    switches: str,
    first_mark: int,
    steps: Sequence[Mapping[str, Tensor]],
    answer: Int64[Tensor, "batch columns"],
    present: Sequence[Bool[Tensor, " batch"] | None] = (),
) -> Int64[Tensor, "batch all_columns"]:
    """Scratchpad and answer of each row.

    Args:
        switches: what `read_switches` gave.
        first_mark: symbol id of the first of `marks(switches)`.
        steps: for each step the symbols of its parts by letter, `[batch, columns]`.
        answer: the symbols of the final answer.
        present: for each step which rows have it; None or left out: all.
    """
    batch = len(answer)
    ids = {mark: first_mark + place for place, mark in enumerate(marks(switches))}
    pieces: list[Tensor] = []
    for number, step in enumerate(steps):
        row: list[int | Tensor] = [ids["#"]] if number else []
        for part in switches:
            row += [ids[OPENING[part]], step[part], *([ids[CLOSING[part]]] if part in CLOSING else [])]
        columns = beside(batch, *row)
        has_it = present[number] if number < len(present) else None
        pieces.append(columns if has_it is None else columns.where(has_it[:, None], BLANK))
    return beside(batch, ids["think"], *pieces, ids["thus"], answer)


def write_out(switches: str, steps: Sequence[Mapping[str, str]], answer: str) -> str:
    """The same as text, from the parts of each step as text."""
    written: list[str] = []
    for step in steps:
        words: list[str] = []
        for part in switches:
            words += [OPENING[part], step[part], CLOSING.get(part, "")]
        written.append(" ".join(word for word in words if word))
    return f"think {' # '.join(written)} thus {answer}"


def most_symbols(switches: str, steps: int, sizes: Mapping[str, int], remaining: int) -> int:
    """Most symbols of a scratchpad without its answer.

    Args:
        switches: what `read_switches` gave.
        steps: number of steps.
        sizes: most symbols of each part of one step, without marks; `r` is not looked at.
        remaining: most symbols of all remaining inputs together.
    """
    one = sum(sizes[part] + 1 + (part in CLOSING) for part in switches if part != "r")
    return 2 + steps * one + steps - 1 + ((steps + remaining) if "r" in switches else 0)
