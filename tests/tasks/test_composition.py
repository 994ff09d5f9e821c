"""SCAN and PCFG: commands and programs as published, and how they are drawn."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from lengthwise.errors import InvalidArgument
from lengthwise.tasks import build_task
from lengthwise.tasks.strings import FUNCTIONS, LEAF, UNARY, draw_trees

SCAN = [  # from the published data, actions by our names
    ("walk", "WALK"),
    ("turn left", "LEFT"),
    ("jump left twice", "LEFT JUMP LEFT JUMP"),
    ("turn opposite right", "RIGHT RIGHT"),
    ("look opposite left thrice", "LEFT LEFT LOOK LEFT LEFT LOOK LEFT LEFT LOOK"),
    ("turn around left", "LEFT LEFT LEFT LEFT"),
    ("run around right", "RIGHT RUN RIGHT RUN RIGHT RUN RIGHT RUN"),
    ("walk after turn right", "RIGHT WALK"),
    ("jump thrice after run left", "LEFT RUN JUMP JUMP JUMP"),
]
PCFG = [  # four lines of the published productivity test, whose symbols are A1 to Z20
    (
        "append X6 Z11 T16 H9 , reverse remove_second Q13 Y2 C11 , repeat repeat prepend append L8 P13 X1 , "
        "D8 U1 V18 , remove_second V10 J5 I8 , copy I10 K18 J18 C4",
        "X6 Z11 T16 H9 C11 Y2 Q13",
    ),
    (
        "swap_first_last repeat append repeat remove_first echo swap_first_last copy B10 V8 A7 W14 A14 , "
        "K16 H5 B8 , repeat Z12 F16 H19 S5",
        "S5 H5 B8 K16 H5 B8 Z12 F16 H19 S5 Z12 F16 H19 S5 K16 H5 B8 K16 H5 B8 Z12 F16 H19 S5 Z12 F16 H19 K16",
    ),
    (
        "reverse append prepend shift echo reverse Q10 D9 C11 I18 G19 , repeat reverse H6 B15 L1 , "
        "prepend C12 O15 S5 , E8 T8 X12 W6",
        "S5 O15 C12 W6 X12 T8 E8 G19 Q10 Q10 D9 C11 I18 H6 B15 L1 H6 B15 L1",
    ),
    (
        "remove_first shift remove_second S13 E4 M11 A7 , swap_first_last remove_second L13 M18 , M7 X4 , "
        "remove_second remove_first remove_second E10 E3 U4 H7 Z2 , remove_second N7 G11 D1 I19 , M9 D7 , U15 F2 , "
        "F8 J19 B19 D9 M16",
        "U15 F2",
    ),
]


def renamed(text: str) -> str:
    """Symbols of the published data as numbers from 000 to 519."""
    words = [
        word if word in (*FUNCTIONS, ",") else f"{20 * (ord(word[0]) - ord('A')) + int(word[1:]) - 1:03d}"
        for word in text.split()
    ]
    return " ".join(words)


@pytest.mark.parametrize(("command", "actions"), SCAN)
def test_commands_of_scan_ask_for_the_published_actions(command, actions) -> None:
    assert build_task("scan").solve(command) == actions


def test_scan_has_the_published_numbers_of_commands_in_its_length_split() -> None:
    task = build_task("scan")
    counts = {length: task.share(length) for length in range(1, 49)}
    assert sum(counts.values()) == 20_910
    assert sum(counts[length] for length in range(1, 26)) == 15_997 + 1_777
    assert sum(counts[length] for length in range(26, 49)) == 3_136
    assert [length for length in range(26, 49) if counts[length]] == [26, 27, 28, 30, 32, 33, 36, 40, 48]


@pytest.mark.parametrize("length", [1, 2, 25, 36])
def test_every_command_of_a_length_is_drawn_and_each_as_often(length) -> None:
    task = build_task("scan")
    count = int(task.share(length))
    rows = task.sample(torch.Generator().manual_seed(1), 60 * count, length).tokens
    found = Counter(task.show(row)[0] for row in rows)
    assert len(found) == count
    assert all(abs(times - 60) < 6 * 60**0.5 for times in found.values())


def test_a_number_of_actions_that_no_command_has_is_refused_with_the_nearest_that_one_has() -> None:
    task = build_task("scan")
    assert task.share(23) == 0
    with pytest.raises(InvalidArgument, match="no command of Scan has 38 actions; the nearest number is 36"):
        task.sample(torch.Generator(), 2, 38)


@pytest.mark.parametrize(
    "command", ["turn", "walk opposite", "walk left right", "twice", "walk and", "left", "and walk", "walk twice twice"]
)
def test_what_the_grammar_of_scan_does_not_make_is_refused(command) -> None:
    with pytest.raises(InvalidArgument):
        build_task("scan").solve(command)


@pytest.mark.parametrize(("program", "value"), PCFG)
def test_programs_of_pcfg_have_the_published_values(program, value) -> None:
    assert build_task("pcfg(symbols=520)").solve(renamed(program)) == renamed(value)


@pytest.mark.parametrize("length", [1, 8, 35])
def test_programs_have_as_many_functions_as_their_length_and_answers_that_fit(length) -> None:
    task = build_task("pcfg(longest=30)")
    for row in task.sample(torch.Generator().manual_seed(0), 50, length).tokens:
        program, value = task.show(row)
        assert sum(word in FUNCTIONS for word in program.split()) == length
        assert len(value.split()) <= 30
        assert task.solve(program) == value


def test_functions_are_even_and_so_are_trees_with_the_same_functions() -> None:
    nodes, strings = draw_trees(torch.Generator().manual_seed(0), 20_000, 3, symbols=4)
    functions = nodes[(nodes >= 0) & (nodes < LEAF)].bincount(minlength=len(FUNCTIONS))
    assert (functions - 6000).abs().max() < 5 * (6000 * 0.9) ** 0.5
    # Shapes: u one string, b two, x a leaf. Of two functions of two strings and one of one there are ten trees.
    names = ["u" if node < len(UNARY) else "b" if node < LEAF else "x" for node in range(LEAF + 1)]
    shapes = Counter("".join(names[node] for node in row if node >= 0) for row in nodes.tolist())
    mixed = {shape: count for shape, count in shapes.items() if (shape.count("u"), shape.count("b")) == (1, 2)}
    assert len(mixed) == 10
    expected = sum(mixed.values()) / 10
    assert all(abs(count - expected) < 5 * expected**0.5 for count in mixed.values())
    lengths = (strings >= 0).sum(2)[nodes == LEAF].bincount()
    assert lengths.nonzero()[:, 0].tolist() == [2, 3, 4, 5]


@pytest.mark.parametrize("program", ["append a b", "copy", ", a", "a b , c", "append a b , c d e , f", "reverse , a"])
def test_what_is_no_program_is_refused(program) -> None:
    with pytest.raises(InvalidArgument):
        build_task("pcfg").solve(program)
