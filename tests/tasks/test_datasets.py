"""The seventeen datasets of Kazemnejad et al. 2023, and the distributions that they were published with."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from lengthwise.errors import InvalidArgument
from lengthwise.tasks import build_task, datasets

NAMES = {  # as the study's results name them
    "primitive": {
        "Copy V1 (repeat one token)",
        "Copy V1 2x",
        "Copy V2 (replace token)",
        "Copy V3 (random tokens)",
        "Copy V3 2x",
        "Reverse V1",
        "Reverse V1 2x",
        "Reverse V2 (reverse then copy)",
    },
    "mathematics_and_reasoning": {
        "Addition",
        "Polynomial Evaluation",
        "Summation",
        "Parity",
        "Sorting (Single Token)",
        "Sorting (Multi Token)",
        "LEGO",
    },
    "SCAN_and_PCFG": {"SCAN", "PCFG"},
}
each_dataset = pytest.mark.parametrize("dataset", datasets(), ids=lambda dataset: dataset.name)


def texts(spec: str, batch: int, length: int, seed: int = 0) -> list[tuple[str, str]]:
    task = build_task(spec)
    return [task.show(row) for row in task.sample(torch.Generator().manual_seed(seed), batch, length).tokens]


def test_the_study_has_seventeen_datasets_in_three_categories() -> None:
    found = {category: {one.name for one in datasets() if one.category == category} for category in NAMES}
    assert found == NAMES
    assert len(datasets()) == 17
    assert datasets("another study") == []


@each_dataset
def test_every_dataset_can_be_had_at_all_its_lengths_and_is_tested_past_the_trained_ones(dataset) -> None:
    for spec, trained, tested in (
        (dataset.spec, dataset.trained, dataset.tested),
        (dataset.small, dataset.small_trained, dataset.small_tested),
    ):
        task = build_task(spec)
        assert max(trained) < min(tested)
        for length in (*trained, *tested):
            assert task.share(length) > 0
        for length in (min(trained), max(trained), max(tested)):
            for row in task.sample(torch.Generator().manual_seed(0), 2, length).tokens:
                prompt, answer = task.show(row)
                assert task.solve(prompt) == answer


@pytest.mark.parametrize(
    ("name", "trained", "tested"),
    [
        ("Copy V3 (random tokens)", range(2, 21), range(21, 41)),
        ("Reverse V1", range(2, 21), range(21, 41)),
        ("Addition", range(1, 9), range(9, 17)),
        ("Polynomial Evaluation", range(1, 9), range(9, 17)),
        ("Summation", range(2, 9), range(9, 17)),
        ("Parity", range(4, 9), range(9, 17)),
        ("Sorting (Multi Token)", range(2, 9), range(9, 17)),
        ("LEGO", range(4, 9), range(9, 17)),
    ],
)
def test_lengths_are_the_published_ones(name, trained, tested) -> None:
    (dataset,) = (one for one in datasets() if one.name == name)
    assert dataset.trained == tuple(trained)
    assert dataset.tested == tuple(tested)


def test_addition_is_even_over_pairs_of_digit_counts_and_its_operands_are_even_within_each() -> None:
    counts: Counter[tuple[int, int]] = Counter()
    first: Counter[str] = Counter()
    for prompt, _ in texts("uneven_addition", 9000, 3):
        a, b = ("".join(part.split()) for part in prompt.split("+"))
        counts[len(a), len(b)] += 1
        first[a] += len(a) == 1
    expected = 9000 / 5
    assert set(counts) == {(1, 3), (2, 3), (3, 3), (3, 2), (3, 1)}
    assert all(abs(count - expected) < 5 * (expected * 0.8) ** 0.5 for count in counts.values())
    assert {number for number in first if len(number) == 1} == set("0123456789")
    task = build_task("uneven_addition")
    assert sum(task.share(length) for length in range(1, 9)) == 64
    assert sum(task.share(length) for length in range(9, 17)) == 256 - 64


def test_polynomials_have_all_coefficients_degrees_and_places() -> None:
    found = [prompt.replace("- ", "-").split() for prompt, _ in texts("polynomial", 3000, 1)]
    for column, values in ((2, "-2 -1 0 1 2"), (4, "-3 -2 -1 0 1 2 3"), (8, "0 1 2 3")):
        share = Counter(words[column] for words in found)
        assert set(share) == set(values.split())
        expected = 3000 / len(share)
        assert all(abs(count - expected) < 5 * expected**0.5 for count in share.values())


def test_summation_adds_digits_from_one_to_nine() -> None:
    found = Counter(symbol for prompt, _ in texts("summation", 2000, 5) for symbol in prompt.split(" + "))
    assert set(found) == set("123456789")
    assert all(abs(count - 10000 / 9) < 5 * (10000 / 9) ** 0.5 for count in found.values())


def test_numbers_to_sort_are_even_from_ten_to_the_largest() -> None:
    numbers = [int("".join(n.split())) for prompt, _ in texts("sort_numbers", 3000, 3) for n in prompt.split(",")]
    assert min(numbers) >= 10
    assert max(numbers) < 10_000
    assert abs(sum(number < 1000 for number in numbers) / len(numbers) - 990 / 9990) < 0.02
    assert abs(sum(numbers) / len(numbers) - 5004.5) < 5 * 2884 / 9000**0.5


@pytest.mark.parametrize(("length", "places"), [(4, {2, 3}), (5, {3, 4}), (9, {5, 6, 7, 8})])
def test_lego_asks_for_variables_of_the_second_half_and_answers_are_balanced(length, places) -> None:
    asked: Counter[int] = Counter()
    answers: Counter[str] = Counter()
    for prompt, answer in texts("lego", 2000, length):
        clauses, query = prompt.split(" ? ")
        names = [clause.split()[0] for clause in clauses.split(" , ")]
        assert len(set(names)) == length
        asked[names.index(query)] += 1
        answers[answer] += 1
    assert set(asked) == places
    assert max(asked.values()) - min(asked.values()) < 10 * 2000**0.5 / len(places) ** 0.5
    assert abs(answers["+1"] - 1000) < 5 * 500**0.5


def test_replaced_symbols_are_ordered_pairs_of_different_ones_each_as_likely() -> None:
    pairs = Counter((prompt[0], answer[0]) for prompt, answer in texts("replace(symbols=3)", 3000, 2))
    assert set(pairs) == {(a, b) for a in "abc" for b in "abc" if a != b}
    assert all(abs(count - 500) < 5 * 500**0.5 for count in pairs.values())


@pytest.mark.parametrize(
    ("spec", "prompt", "answer"),
    [
        ("copy(twice=True)", "c a b", "c a b next c a b"),
        ("repeat(twice=True)", "b b", "b b b b"),
        ("reverse(then='reverse')", "c a b", "b a c next b a c"),
        ("reverse(then='copy')", "c a b", "b a c next c a b"),
        ("polynomial", "x = 1 : - 2 * x ^ 2 + - 1 * x ^ 0 + - 3 * x ^ 3", "4"),
        ("polynomial", "x = 0 : 2 * x ^ 0", "2"),
        ("uneven_addition", "9 9 9 + 1", "1 0 0 0"),
        ("uneven_addition", "0 + 0", "0"),
    ],
)
def test_answers_of_single_prompts(spec, prompt, answer) -> None:
    assert build_task(spec).solve(prompt) == answer


@pytest.mark.parametrize(
    ("spec", "prompt"),
    [
        ("replace", "b by b in b b"),
        ("replace", "b by d in b d"),
        ("replace", "b by d in"),
        ("summation", "3 + 0"),
        ("summation", "3 3"),
        ("polynomial", "x = 3 : 1 * x ^ 1"),
        ("polynomial", "x = 1 : 4 * x ^ 1"),
        ("polynomial", "x = 1 : 1 * x ^ 1 +"),
        ("sort_numbers", "5 , 1 2"),
        ("sort_numbers(digits=2)", "1 2 3"),
        ("sort_numbers", "0 1 , 2 3"),
        ("uneven_addition", "0 1 + 2"),
        ("uneven_addition", "1 + 2 + 3"),
        ("lego", "a = + b , b = +1 ? a"),
        ("lego", "a = +1 ? b"),
        ("lego", "a = +1 , b = a ? b"),
    ],
)
def test_prompts_that_are_none_are_refused(spec, prompt) -> None:
    with pytest.raises(InvalidArgument):
        build_task(spec).solve(prompt)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("copy(twice=1)", "twice of Copy must be True or False, not 1"),
        ("repeat(twice='yes')", "twice of Repeat must be True or False, not 'yes'"),
        ("reverse(then='sort')", "then of Reverse must be '', 'reverse' or 'copy', not 'sort'"),
        ("sort_numbers(digits=19)", "at most 18"),
        ("sort_numbers(digits=1)", "at least 2"),
    ],
)
def test_a_bad_argument_is_named(spec, message) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build_task(spec)
