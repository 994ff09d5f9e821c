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
