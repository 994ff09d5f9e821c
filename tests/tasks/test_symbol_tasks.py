"""What holds for every registered symbol task."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lengthwise.errors import InvalidArgument
from lengthwise.tasks import SymbolTask, build_task, tasks

SPECS = [name for name, maker in tasks.items() if hasattr(maker, "solve")]
SPECS += ["addition(reverse=True)", "sort(symbols=40)", "copy(symbols=2)", "repeat(symbols=1)"]
each_task = pytest.mark.parametrize("spec", SPECS)


def draw(spec: str, seed: int, batch: int, length: int):
    return build_task(spec).sample(torch.Generator().manual_seed(seed), batch, length)


def encode(task, prompt: str, answer: str) -> torch.Tensor:
    names = ["<bos>", *prompt.split(" "), "<sep>", *answer.split(" "), "<eos>"]
    return torch.tensor([list(task.vocabulary).index(name) for name in names])


def test_the_seven_first_tasks_are_registered() -> None:
    assert {"copy", "repeat", "reverse", "sort", "addition", "parity", "text"} <= set(tasks)


@each_task
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), batch=st.integers(1, 8), length=st.integers(1, 60))
def test_an_oracle_that_reads_the_prompt_is_right_in_every_example(spec, seed, batch, length) -> None:
    task = build_task(spec)
    for row in draw(spec, seed, batch, length).tokens:
        prompt, answer = task.show(row)
        assert task.solve(prompt) == answer


@each_task
@pytest.mark.parametrize("length", [1, 2, 17, 300])
def test_tokens_of_the_frame_stand_where_they_belong_and_the_answer_runs_from_sep_to_eos(spec, length) -> None:
    task = build_task(spec)
    examples = draw(spec, 0, 5, length)
    names = [[task.vocabulary[token] for token in row] for row in examples.tokens.tolist()]
    separators = {row.index("<sep>") for row in names}
    assert examples.tokens.shape == examples.answer.shape == (5, task.tokens_at(length))
    assert examples.tokens.dtype == torch.int64
    assert examples.answer.dtype == torch.bool
    assert len(separators) == 1
    for row, answer in zip(names, examples.answer.tolist(), strict=True):
        assert row[0] == "<bos>"
        assert row[-1] == "<eos>"
        assert sum(name in {"<bos>", "<sep>", "<eos>"} for name in row) == 3
        assert answer == [place > row.index("<sep>") for place in range(len(row))]


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
    assert seen == list(range(len(task.vocabulary)))
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
    with pytest.raises(InvalidArgument, match=r"length of \w+ \(.+\) must be a whole number of at least 1, not "):
        task.sample(torch.Generator(), 4, length)
    with pytest.raises(InvalidArgument, match="at least 1"):
        task.tokens_at(length)


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
