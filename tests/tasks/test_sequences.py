"""Copy, repeat, reverse and sort, by their tokens."""

from __future__ import annotations

import pytest
import torch

from lengthwise.errors import InvalidArgument
from lengthwise.tasks import build_task


def halves(spec: str, batch: int, length: int) -> tuple[list[list[int]], list[list[int]]]:
    tokens = build_task(spec).sample(torch.Generator().manual_seed(5), batch, length).tokens
    return tokens[:, 1 : length + 1].tolist(), tokens[:, length + 2 : -1].tolist()


@pytest.mark.parametrize(
    ("spec", "solve"),
    [("copy", list), ("reverse", lambda row: row[::-1]), ("sort", sorted), ("repeat", lambda row: [row[0]] * len(row))],
)
@pytest.mark.parametrize("length", [1, 2, 50])
def test_the_answer_tokens_are_the_prompt_tokens_put_in_order(spec, solve, length) -> None:
    prompts, answers = halves(spec, 100, length)
    assert answers == [solve(prompt) for prompt in prompts]


@pytest.mark.parametrize("spec", ["copy", "reverse", "sort"])
def test_each_symbol_is_as_likely_at_each_place(spec) -> None:
    prompts, _ = halves(spec, 8000, 3)
    counts = torch.stack([row.bincount(minlength=19)[3:] for row in torch.tensor(prompts).T])
    spread = (8000 * (1 / 16) * (15 / 16)) ** 0.5
    assert counts.shape == (3, 16)
    assert (counts - 8000 / 16).abs().max() < 5 * spread


def test_sort_meets_equal_symbols_and_already_differs_from_copy_at_length_two() -> None:
    prompts, answers = halves("sort", 500, 2)
    assert any(first == second for first, second in prompts)
    assert prompts != answers


def test_repeat_draws_one_symbol_an_example_and_all_of_them_over_many() -> None:
    prompts, _ = halves("repeat", 500, 7)
    assert {len(set(prompt)) for prompt in prompts} == {1}
    assert {prompt[0] for prompt in prompts} == set(range(3, 19))


def test_repeat_refuses_a_prompt_of_two_symbols() -> None:
    with pytest.raises(InvalidArgument, match="one symbol only"):
        build_task("repeat").solve("a a b")


def test_more_symbols_than_letters_are_numbers_of_one_width_that_sort_as_their_ids() -> None:
    names = build_task("sort(symbols=101)").vocabulary[3:]
    assert names[0] == "000"
    assert names[-1] == "100"
    assert list(names) == sorted(names)
    assert build_task("sort(symbols=101)").solve("100 020 003") == "003 020 100"
