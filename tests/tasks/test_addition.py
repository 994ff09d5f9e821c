from __future__ import annotations

import pytest
import torch

from lengthwise.errors import InvalidArgument
from lengthwise.tasks import build_task


def numbers(spec: str, batch: int, length: int) -> list[tuple[str, str, str]]:
    """Operands and answer of each example, as their digits without spaces."""
    task = build_task(spec)
    rows = task.sample(torch.Generator().manual_seed(0), batch, length).tokens
    texts = ["".join(task.vocabulary[token] for token in row) for row in rows.tolist()]
    found = []
    for text in texts:
        prompt, answer = text.removeprefix("<bos>").removesuffix("<eos>").split("<sep>")
        found.append((*prompt.split("+"), answer))
    return found


@pytest.mark.parametrize("length", [1, 2, 3, 9, 40])
def test_the_answer_is_the_sum_with_its_leading_zero_kept(length) -> None:
    for a, b, total in numbers("addition", 200, length):
        assert len(a) == len(b) == length
        assert len(total) == length + 1
        assert int(a) + int(b) == int(total)


@pytest.mark.parametrize("length", [1, 2, 9])
def test_reversed_the_answer_is_written_from_its_least_digit(length) -> None:
    for (a, b, total), (_, _, reverse) in zip(
        numbers("addition", 50, length), numbers("addition(reverse=True)", 50, length), strict=True
    ):
        assert reverse == total[::-1]
        assert int(reverse[::-1]) == int(a) + int(b)


def test_operands_have_exactly_their_number_of_digits_and_zero_has_one() -> None:
    for length in (2, 3):
        longer = [number for a, b, _ in numbers("addition", 400, length) for number in (a, b)]
        assert all(10 ** (length - 1) <= int(number) < 10**length for number in longer)
        assert {number[0] for number in longer} == set("123456789")
    assert {a for a, _, _ in numbers("addition", 400, 1)} == set("0123456789")


def test_carries_occur_at_the_top_and_run_through_nines() -> None:
    found = numbers("addition", 3000, 3)
    top = sum(total[0] == "1" for _, _, total in found) / len(found)
    expected = sum(a + b >= 1000 for a in range(100, 1000) for b in range(100, 1000)) / 900**2
    assert top == pytest.approx(expected, abs=4 * (expected * (1 - expected) / len(found)) ** 0.5)
    assert any(int(a[1]) + int(b[1]) == 9 and int(a[2]) + int(b[2]) > 9 for a, b, _ in found)


@pytest.mark.parametrize("prompt", ["1 2 + 3", "1 2", "1 + 2 + 3", "+", "1 2 +"])
def test_a_prompt_that_is_not_two_numbers_of_one_length_is_refused(prompt) -> None:
    with pytest.raises(InvalidArgument, match="two numbers of as many digits"):
        build_task("addition").solve(prompt)


def test_solve_follows_the_way_the_answer_is_written() -> None:
    assert build_task("addition(reverse=True)").solve("9 9 + 0 1") == "0 0 1"


def test_examples_bring_coupled_positions_from_random_starts_in_training_and_from_the_first_in_tests() -> None:
    task = build_task("addition(reverse=True, positions='coupled', max_position=20)")
    drawn = task.sample(torch.Generator().manual_seed(0), 500, 3)
    places = drawn.positions
    assert places is not None
    digits = places[:, 1:4]  # of the first operand
    assert torch.equal(digits, places[:, 5:8])
    assert torch.equal(digits.flip(1), places[:, 9:12])
    assert set(places[:, 4].tolist()) == set(range(1, 17)), "every start at which the answer fits is drawn"
    assert places.max() == 20
    tested = task.held_out().sample(torch.Generator().manual_seed(0), 500, 3)
    assert tested.positions is not None
    assert set(map(tuple, tested.positions.tolist())) == {(0, 4, 3, 2, 1, 4, 3, 2, 1, 2, 3, 4, 5, 0)}
    assert torch.equal(tested.tokens, drawn.tokens), "the same examples"


def test_examples_bring_abacus_positions() -> None:
    task = build_task("addition(reverse=True, reverse_operands=True, positions='abacus', max_position=9)")
    generator = torch.Generator().manual_seed(0)
    firsts: set[int] = set()
    for _ in range(100):
        places = task.sample(generator, 2, 3).positions
        assert places is not None
        firsts.add(int(places[0, 1]))
    assert firsts == set(range(1, 7))
    tested = task.held_out().sample(generator, 1, 3).positions
    assert tested is not None
    assert tested.tolist() == [[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 0]]


@pytest.mark.parametrize("positions", ["coupled", "abacus"])
def test_the_longest_numbers_are_those_whose_positions_fit(positions: str) -> None:
    both = "reverse_operands=True, " if positions == "abacus" else ""
    task = build_task(f"addition(reverse=True, {both}positions='{positions}', max_position=12)")
    most = task.max_length
    places = task.sample(torch.Generator().manual_seed(0), 50, most).positions
    assert places is not None
    assert places.max() <= 12
    with pytest.raises(InvalidArgument, match=f"at most {most}"):
        task.sample(torch.Generator().manual_seed(0), 1, most + 1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("addition(positions='couple')", "'', 'coupled' or 'abacus'"),
        ("addition(positions='abacus')", "least significant digit first"),
        ("addition(reverse_operands=True, positions='coupled')", "most significant digit first"),
        ("addition(positions='coupled', max_position=3)", "at least 4"),
    ],
)
def test_positions_that_do_not_go_with_the_digits_are_refused(spec: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build_task(spec)
