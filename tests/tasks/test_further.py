"""Tasks beyond the study: what their answers are and how their prompts are drawn."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from lengthwise.errors import InvalidArgument
from lengthwise.models import Decoder, ModelConfig
from lengthwise.positions import Positions
from lengthwise.tasks import build_task
from lengthwise.token_positions import abacus_offset, coupling_start


def texts(spec: str, batch: int, length: int) -> list[tuple[str, str]]:
    task = build_task(spec)
    return [task.show(row) for row in task.sample(torch.Generator().manual_seed(4), batch, length).tokens]


@pytest.mark.parametrize(
    ("spec", "prompt", "answer"),
    [
        ("mode", "b a b a c", "a"),
        ("mode", "p", "p"),
        ("count", "158 159", "158 159"),
        ("count", "003 003", "003"),
        ("selective_copy", "_ c _", "c"),
        ("flip_flop", "write 0 read 0 read 0 write 1 ignore 0 ignore 0 read", "1"),
        ("recall", "003 4 004 4 005 0 ? 005", "0"),
        ("dyck", "( ( ) [ [ ]", "] )"),
        ("dyck(kinds=4)", "{ < >", "}"),
        ("even_pairs", "b", "yes"),
        ("even_pairs", "b a a b a", "no"),
        ("cycle_navigation", "back", "4"),
        ("cycle_navigation(places=3)", "forward forward forward stay back", "2"),
        ("modular_arithmetic", "0 - 2 * 3 - 1", "3"),
        ("modular_arithmetic", "4 * 4 * 4", "4"),
        ("modular_arithmetic(modulus=10)", "9 + 9 * 9", "0"),
        ("addition(reverse=True, reverse_operands=True)", "7 4 + 5 8", "2 3 1"),
    ],
)
def test_answers_of_single_prompts(spec, prompt, answer) -> None:
    assert build_task(spec).solve(prompt) == answer


@pytest.mark.parametrize(
    ("spec", "prompt"),
    [
        ("count", "004 003"),
        ("count", "004"),
        ("unique_copy", "003 003"),
        ("selective_copy", "_ _"),
        ("flip_flop", "ignore 0 read"),
        ("flip_flop", "write 0 read 1 read"),
        ("flip_flop", "write 0"),
        ("recall", "003 4 004 5 ? 005"),
        ("recall", "003 4 003 5 ? 003"),
        ("recall", "003 4 004 ? 003"),
        ("dyck", "( ]"),
        ("dyck", "( )"),
        ("modular_arithmetic", "1 +"),
        ("modular_arithmetic", "1 1 + 1"),
    ],
)
def test_prompts_that_are_none_are_refused(spec, prompt) -> None:
    with pytest.raises(InvalidArgument):
        build_task(spec).solve(prompt)


@pytest.mark.parametrize(
    "spec",
    [
        "mode(symbols=1)",
        "count(numbers=1)",
        "unique_copy(symbols=1)",
        "selective_copy(kept=0)",
        "flip_flop(ignored=1.5)",
        "flip_flop(ignored=True)",
        "recall(keys=1)",
        "dyck(kinds=5)",
        "modular_arithmetic(modulus=11)",
        "cycle_navigation(places=1)",
        "addition(reverse_operands=1)",
    ],
)
def test_bad_arguments_are_refused(spec) -> None:
    with pytest.raises(InvalidArgument):
        build_task(spec)


@pytest.mark.parametrize("ignored", [0.8, 0.1])
def test_flip_flop_has_the_published_shares_of_instructions(ignored) -> None:
    inner = Counter(word for prompt, _ in texts(f"flip_flop(ignored={ignored})", 400, 22) for word in prompt.split())
    found = {"ignore": inner["ignore"], "write": inner["write"] - 400, "read": inner["read"] - 400}
    for kind, share in (("ignore", ignored), ("write", (1 - ignored) / 2), ("read", (1 - ignored) / 2)):
        assert abs(found[kind] - 8000 * share) < 5 * (8000 * share * (1 - share)) ** 0.5


@pytest.mark.parametrize(
    "spec", ["flip_flop", "recall", "modular_arithmetic", "modular_arithmetic(modulus=2)", "mode", "dyck", "even_pairs"]
)
def test_no_constant_answer_is_right_often(spec) -> None:
    answers = Counter(answer for _, answer in texts(spec, 1000, 12))
    assert answers.most_common(1)[0][1] < 850


def test_unique_copy_draws_every_order_of_every_choice_as_often() -> None:
    found = Counter(prompt for prompt, _ in texts("unique_copy(symbols=4)", 2400, 2))
    assert len(found) == 12
    assert all(abs(count - 200) < 5 * 200**0.5 for count in found.values())


def test_blanks_of_selective_copy_are_as_many_as_the_length_and_stand_anywhere() -> None:
    places = Counter()
    for prompt, answer in texts("selective_copy(kept=2)", 2000, 3):
        words = prompt.split()
        assert words.count("_") == 3
        assert [word for word in words if word != "_"] == answer.split()
        places[tuple(place for place, word in enumerate(words) if word != "_")] += 1
    assert len(places) == 10
    assert all(abs(count - 200) < 5 * 200**0.5 for count in places.values())


def test_every_prefix_of_brackets_of_length_three_that_leaves_some_open_occurs() -> None:
    shapes = Counter(prompt for prompt, _ in texts("dyck(kinds=1)", 2000, 3))
    assert set(shapes) == {"( ( (", "( ( )", "( ) ("}
    assert abs(shapes["( ) ("] - 1000) < 5 * 500**0.5


def test_coupled_digits_of_equal_weight_share_a_position_whole_or_while_an_answer_is_written() -> None:
    for reverse in (False, True):
        task = build_task(f"addition(reverse={reverse})")
        tokens = task.sample(torch.Generator().manual_seed(0), 4, 3).tokens
        start = coupling_start(4, 20, reversed_answer=reverse, rows=4, generator=torch.Generator().manual_seed(1))
        places = task.coupled_positions(tokens, start=start)
        operands, answer = places[:, 1:8], places[:, 9:13]
        assert torch.equal(operands[:, :3], operands[:, 4:])
        assert torch.equal((answer if reverse else answer.flip(1))[:, :3], operands[:, :3].flip(1))
        assert torch.equal(task.coupled_positions(tokens[:, :10], start=start), places[:, :10])
        bare = build_task(f"addition(reverse={reverse}, bos=False)")
        assert torch.equal(bare.coupled_positions(tokens[:, 1:], start=start), places[:, 1:])


def test_abacus_places_count_digits_within_each_number() -> None:
    task = build_task("addition(reverse=True, reverse_operands=True)")
    tokens = task.sample(torch.Generator().manual_seed(0), 2, 3).tokens
    offset = abacus_offset(torch.Generator().manual_seed(0))
    assert task.abacus_positions(tokens).tolist() == [[0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 4, 0]] * 2
    shifted = task.abacus_positions(tokens, offset=offset)
    assert torch.equal(shifted, torch.where(task.abacus_positions(tokens) > 0, shifted, 0))


def test_positions_are_refused_where_digits_stand_the_wrong_way_round() -> None:
    tokens = torch.zeros(1, 4, dtype=torch.int64)
    with pytest.raises(InvalidArgument, match="least significant digit first"):
        build_task("addition(reverse=True)").abacus_positions(tokens)
    with pytest.raises(InvalidArgument, match="most significant digit first"):
        build_task("addition(reverse_operands=True)").coupled_positions(tokens)


def test_a_model_takes_the_positions_of_its_task() -> None:
    import lengthwise as lw

    task = build_task("addition(reverse=True)")
    tokens = task.sample(torch.Generator().manual_seed(0), 3, 2).tokens[:, :-1]
    places = task.coupled_positions(tokens)
    positions = Positions.sequence(tokens.shape[1]).replace(q=places, k=places)
    config = ModelConfig(vocabulary=len(task.vocabulary), dim=16, layers=1, heads=2)
    torch.manual_seed(0)
    model = Decoder(config, lw.build("learned", config.dims(8)))
    with_places, without = model(tokens, positions), model(tokens[:, :5])
    assert with_places.shape == (3, 10, len(task.vocabulary))
    assert not torch.allclose(with_places[:, :5], without)
