"""Scratchpads: five switches, their steps written out, and what they leave alone."""

from __future__ import annotations

import pytest
import torch

from lengthwise.errors import InvalidArgument
from lengthwise.tasks import build_task
from lengthwise.tasks.scratchpad import FORMATS, read_switches

FULL = {  # written by hand from the authors' description of a step
    "parity": (
        "1 1 0",
        "think in 1 comp 1 xor par = 1 xor 0 out 1 [ par = 1 ] re 1 0 "
        "# in 1 comp 1 xor par = 1 xor 1 out 0 [ par = 0 ] re 0 "
        "# in 0 comp 0 xor par = 0 xor 0 out 0 [ par = 0 ] re thus yes",
    ),
    "summation": (
        "5 + 8 + 9",
        "think in 5 comp 5 + sum = 5 + 0 = out 5 [ sum = 5 = 5 ] re 8 + 9 "
        "# in 8 comp 8 + sum = 8 + 5 = out 1 3 [ sum = 1 3 = 3 ] re 9 "
        "# in 9 comp 9 + sum = 9 + 3 = out 1 2 [ sum = 1 2 = 2 ] re thus 2",
    ),
    "polynomial": (
        "x = - 2 : - 3 * x ^ 3 + 1 * x ^ 1",
        "think in - 3 * x ^ 3 comp - 3 * - 2 ^ 3 = - 3 * - 8 out 2 4 [ sum = 0 + 2 4 = 4 ] re 1 * x ^ 1 "
        "# in 1 * x ^ 1 comp 1 * - 2 ^ 1 = 1 * - 2 out - 2 [ sum = 4 + - 2 = 2 ] re thus 2",
    ),
    "uneven_addition": (
        "9 6 + 9",
        "think in 6 , 9 comp 6 + 9 + carry = 1 5 + 0 = 1 5 out 5 [ carry = 1 ] re 9 + 0 "
        "# in 9 , 0 comp 9 + 0 + carry = 9 + 1 = 1 0 out 0 [ carry = 1 ] re + "
        "# in 0 , 0 comp 0 + 0 + carry = 0 + 1 = 1 out 1 [ carry = 0 ] re + thus 1 0 5",
    ),
    "sort": (
        "c a c",
        "think in c comp least out a re c c # in c comp least out c re c # in c comp least out c re thus a c c",
    ),
    "sort_numbers": (
        "5 3 , 1 9 , 2 0",
        "think in 5 3 comp least out 1 9 re 5 3 , 2 0 # in 5 3 comp least out 2 0 re 5 3 "
        "# in 5 3 comp least out 5 3 re thus 1 9 , 2 0 , 5 3",
    ),
    "lego": (
        "q = -1 , t = - q , c = + t , r = - c ? c",
        "think in q comp out -1 re t = - q , c = + t , r = - c # in t comp - q = - -1 out +1 re c = + t , r = - c "
        "# in c comp + t = + +1 out +1 re r = - c thus +1",
    ),
}


@pytest.mark.parametrize("name", FULL)
def test_a_full_scratchpad_is_the_one_written_by_hand(name) -> None:
    prompt, answer = FULL[name]
    assert build_task(f"{name}(scratchpad='full')").solve(prompt) == answer


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("switches", ["", *"icovr", "co", "icov", "icor", "covr", "iovr", "icvr", "ir"])
def test_each_switch_takes_out_its_part_and_nothing_else_changes(name, switches) -> None:
    parts = "icor" if name in ("sort", "sort_numbers", "lego") else "icovr"
    if not set(switches) <= set(parts):
        with pytest.raises(InvalidArgument, match="some of the letters i, c, o, r"):
            build_task(f"{name}(scratchpad='{switches}')")
        return
    task, whole = (build_task(f"{name}(scratchpad='{on}')") for on in (switches, "full"))
    rows, full_rows = (one.sample(torch.Generator().manual_seed(2), 6, 5).tokens for one in (task, whole))
    for row, full_row in zip(rows, full_rows, strict=True):
        prompt, answer = task.show(row)
        full_prompt, full_answer = whole.show(full_row)
        assert prompt == full_prompt
        assert answer == task.solve(prompt) == without(full_answer, set(parts) - set(switches))


def without(full: str, off: set[str]) -> str:
    """A full scratchpad with parts cut out of its text."""
    steps, _, answer = full.removeprefix("think ").partition(" thus ")
    if len(off) == len({"in", "comp", "out", "re", *(["["] if "[" in full else [])}):
        return answer
    opening = {"in": "i", "comp": "c", "out": "o", "[": "v", "re": "r"}
    kept_steps = []
    for step in steps.split(" # "):
        kept, now = [], ""
        for word in step.split():
            now = opening.get(word, now)
            if now not in off:
                kept.append(word)
        kept_steps.append(" ".join(kept))
    return f"think {' # '.join(kept_steps)} thus {answer}"


def test_the_study_has_eight_formats_and_six_where_there_are_no_variables() -> None:
    assert len({read_switches(switches) for switches in FORMATS.values()}) == 8
    assert FORMATS["full"] == read_switches("full")
    possible = {"".join(part for part in switches if part != "v") for switches in FORMATS.values()}
    possible -= {"ior"}  # sorting and LEGO were not run without the computation
    assert len(possible) == 6


@pytest.mark.parametrize("given", ["x", "ii", "Full", 3, None, "i c"])
def test_switches_that_are_none_are_refused(given) -> None:
    with pytest.raises(InvalidArgument, match="scratchpad must be"):
        read_switches(given)


def test_order_of_letters_does_not_matter() -> None:
    assert build_task("parity(scratchpad='rco')") == build_task("parity(scratchpad='cor')")
