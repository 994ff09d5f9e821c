"""What holds for every registered symbol task."""

from __future__ import annotations

import pytest
import torch

from lengthwise.errors import InvalidArgument
from lengthwise.tasks import SymbolTask, build_task, tasks

SPECS = [name for name, maker in tasks.items() if hasattr(maker, "solve")]
SPECS += ["addition(reverse=True)", "sort(symbols=40)", "copy(symbols=2)", "repeat(symbols=1)"]
SPECS += ["copy(twice=True)", "repeat(twice=True)", "reverse(then='reverse')", "reverse(then='copy')"]
SPECS += ["parity(bos=False)", "sort_numbers(digits=2)", "addition(reverse=True, reverse_operands=True)"]
SPECS += ["flip_flop(ignored=0.3)", "dyck(kinds=4)"]
SPECS += [
    f"{name}(scratchpad='full')"
    for name in ("parity", "summation", "polynomial", "uneven_addition", "sort", "sort_numbers", "lego")
]
each_task = pytest.mark.parametrize("spec", SPECS)


def lengths_of(task, *wanted: int) -> list[int]:
    """The lengths among `wanted` that the task has, or its first or last for those beyond."""
    last = task.max_length or max(wanted)
    nearest = {max(min(length, last), task.min_length) for length in wanted}
    return [length for length in sorted(nearest) if task.share(length)]


def draw(spec: str, seed: int, batch: int, length: int):
    return build_task(spec).sample(torch.Generator().manual_seed(seed), batch, length)


def encode(task, prompt: str, answer: str) -> torch.Tensor:
    names = ["<bos>", *prompt.split(" "), "<sep>", *answer.split(" "), "<eos>"]
    return torch.tensor([list(task.vocabulary).index(name) for name in names])


def test_tasks_are_registered_under_their_families() -> None:
    assert {"copy", "repeat", "reverse", "sort", "addition", "parity", "text"} <= set(tasks)
    assert {"mode", "count", "unique_copy", "selective_copy", "flip_flop", "recall", "dyck"} <= set(tasks)
    assert {maker.family for _, maker in tasks.items()} == {
        "arithmetic",
        "copying and reversing",
        "formal languages",
        "memory and recall",
        "ordering and counting",
        "reasoning and composition",
        "text",
    }


@each_task
def test_the_oracle_scores_everything_at_every_length(spec) -> None:
    task = build_task(spec)
    for length in lengths_of(task, *range(1, 17), 16 if "scratchpad" in spec else 45):
        for row in draw(spec, length, 6, length).tokens:
            prompt, answer = task.show(row)
            assert task.solve(prompt) == answer, length


@each_task
def test_tokens_of_the_frame_stand_where_they_belong_and_the_answer_runs_from_sep_to_the_first_eos(spec) -> None:
    task = build_task(spec)
    for length in lengths_of(task, 1, 2, 17, 20 if "scratchpad" in spec else 300):
        examples = draw(spec, 0, 5, length)
        names = [[task.vocabulary[token] for token in row] for row in examples.tokens.tolist()]
        assert examples.tokens.shape == examples.answer.shape
        assert examples.tokens.shape[1] <= task.tokens_at(length)
        assert examples.tokens.dtype == torch.int64
        assert examples.answer.dtype == torch.bool
        for row, answer in zip(names, examples.answer.tolist(), strict=True):
            start, end = row.index("<sep>"), row.index("<eos>")
            assert (row[0] == "<bos>") == task.bos == ("<bos>" in row)
            assert row.count("<bos>") <= 1
            assert row.count("<sep>") == 1
            assert set(row[end:]) == {"<eos>"}
            assert answer == [start < place <= end for place in range(len(row))]


@each_task
def test_no_example_has_more_tokens_than_the_task_says_and_some_have_nearly_as_many(spec) -> None:
    task = build_task(spec)
    for length in lengths_of(task, 3, 8):
        widest = draw(spec, 1, 500, length).tokens.shape[1]
        assert 0.6 * task.tokens_at(length) <= widest <= task.tokens_at(length)


@pytest.mark.parametrize("name", [name for name in SPECS if "(" not in name])
def test_without_bos_the_same_examples_begin_with_their_prompts(name) -> None:
    task, bare = build_task(name), build_task(f"{name}(bos=False)")
    length = lengths_of(task, 6)[0]
    with_bos, without = draw(name, 5, 20, length), draw(f"{name}(bos=False)", 5, 20, length)
    assert torch.equal(with_bos.tokens[:, 1:], without.tokens)
    assert torch.equal(with_bos.answer[:, 1:], without.answer)
    assert bare.tokens_at(length) == task.tokens_at(length) - 1
    assert [task.show(row) for row in with_bos.tokens] == [bare.show(row) for row in without.tokens]


@each_task
def test_the_same_generator_state_gives_the_same_examples_and_the_next_draw_others(spec) -> None:
    task = build_task(spec)
    generator = torch.Generator().manual_seed(3)
    first = task.sample(generator, 64, 12).tokens
    second = task.sample(generator, 64, 12).tokens
    assert torch.equal(draw(spec, 3, 64, 12).tokens, first)
    if spec != "repeat(symbols=1)":
        assert not torch.equal(first, second)
        assert not torch.equal(first, draw(spec, 4, 64, 12).tokens)


@each_task
def test_sampling_leaves_the_global_generator_alone(spec) -> None:
    before = torch.get_rng_state()
    draw(spec, 0, 4, 9)
    assert torch.equal(torch.get_rng_state(), before)


@each_task
def test_every_symbol_of_the_vocabulary_occurs(spec) -> None:
    task = build_task(spec)
    seen = draw(spec, 0, 2000, 6).tokens.unique().tolist()
    assert seen == list(range(0 if task.bos else 1, len(task.vocabulary)))
    assert len(set(task.vocabulary)) == len(task.vocabulary)


@pytest.mark.parametrize("name", [name for name in SPECS if "(" not in name])
def test_worked_examples_are_right_by_solve_and_by_their_tokens(name) -> None:
    task = build_task(name)
    assert isinstance(task, SymbolTask)
    assert len(task.examples) == 2
    for prompt, answer in task.examples:
        assert task.solve(prompt) == answer
        assert task.show(encode(task, prompt, answer)) == (prompt, answer)


@each_task
def test_a_task_describes_itself_and_has_no_data_to_hold_out(spec) -> None:
    task = build_task(spec)
    assert task.metric == "exact_match"
    assert task.version >= 1
    assert "\n" not in task.summary + task.length_counts
    assert task.summary
    assert task.length_counts
    assert task.fingerprint == ""
    assert task.held_out() is task
    assert build_task(spec) == task


@each_task
@pytest.mark.parametrize("length", [0, -3, 2.5, True, "7"])
def test_a_length_that_makes_no_sense_is_refused_by_sample_and_by_tokens_at(spec, length) -> None:
    task = build_task(spec)
    with pytest.raises(InvalidArgument, match=r"length of \w+ \(.+\) must be a whole number of at least \d, not "):
        task.sample(torch.Generator(), 4, length)
    with pytest.raises(InvalidArgument, match="at least"):
        task.tokens_at(length)
    with pytest.raises(InvalidArgument, match="at least"):
        task.share(length)


@each_task
def test_a_length_outside_what_the_task_has_is_refused(spec) -> None:
    task = build_task(spec)
    for length in (task.min_length - 1, *([task.max_length + 1] if task.max_length else [])):
        with pytest.raises(InvalidArgument, match="length of"):
            task.sample(torch.Generator(), 4, length)


@each_task
def test_an_empty_batch_is_refused(spec) -> None:
    with pytest.raises(InvalidArgument, match="batch must be a whole number of at least 1, not 0"):
        build_task(spec).sample(torch.Generator(), 0, 4)


@each_task
@pytest.mark.parametrize("prompt", ["", "  ", "<sep>", "a ? b", "yes"])
def test_a_prompt_that_is_none_is_refused_by_solve(spec, prompt) -> None:
    with pytest.raises(InvalidArgument) as caught:
        build_task(spec).solve(prompt)
    assert "\n" not in str(caught.value)


@each_task
def test_an_answer_without_an_end_is_shown_as_open_and_one_with_more_behind_its_end_is_cut(spec) -> None:
    task = build_task(spec)
    row = draw(spec, 0, 1, 5).tokens[0]
    prompt, answer = task.show(row)
    assert task.show(row[:-1]) == (prompt, answer + " ...")
    assert task.show(torch.cat([row, row[1:4]])) == (prompt, answer)


def test_tokens_without_a_separator_can_not_be_shown() -> None:
    with pytest.raises(InvalidArgument, match="no <sep>"):
        build_task("sort").show(torch.tensor([0, 3, 4]))
