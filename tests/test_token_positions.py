from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import lengthwise as lw
from lengthwise import Positions
from lengthwise.token_positions import abacus_offset, abacus_positions, coupled_positions, coupling_start

PLUS, EQUALS, PAD = 10, 11, 12
DIGITS = range(10)


def encode(text: str) -> list[int]:
    return [{"+": PLUS, "=": EQUALS, " ": PAD}.get(letter) or int(letter) for letter in text]


def coupled_by_hand(a: str, b: str, c: str, start: int, reversed_answer: bool) -> list[int]:
    """The ids of the published data, number by number; `c` as it is written."""
    ids = [start + len(a) - i for i in range(len(a))]  # the last digit has weight 0 and id start + 1
    ids.append(start)
    ids += [start + len(b) - i for i in range(len(b))]
    ids.append(start if reversed_answer else start + len(c) + 1)
    ids += [start + 1 + i if reversed_answer else start + len(c) - i for i in range(len(c))]
    return ids


# --- Abacus -----------------------------------------------------------------------------------------------------------


def test_digits_count_from_one_in_each_number_and_other_tokens_are_zero() -> None:
    tokens = torch.tensor([encode("74+58=231"), encode("  7+8=51 "), encode("123456789")])
    assert abacus_positions(tokens, DIGITS).tolist() == [
        [1, 2, 0, 1, 2, 0, 1, 2, 3],
        [0, 0, 1, 0, 1, 0, 1, 2, 0],
        [1, 2, 3, 4, 5, 6, 7, 8, 9],
    ]


@given(st.lists(st.lists(st.integers(0, 12), min_size=7, max_size=7), min_size=1, max_size=4), st.integers(0, 99))
def test_abacus_places_are_those_of_a_loop_over_the_tokens(rows: list[list[int]], offset: int) -> None:
    expected = []
    for row in rows:
        place, places = 0, []
        for token in row:
            place = place + 1 if token < 10 else 0
            places.append(place + offset if place else 0)
        expected.append(places)
    assert abacus_positions(torch.tensor(rows), DIGITS, offset=offset).tolist() == expected


def test_digit_ids_may_be_any_tokens() -> None:
    assert abacus_positions(torch.tensor([[50, 3, 71, 50]]), [50, 71]).tolist() == [[1, 0, 1, 2]]
    assert abacus_positions(torch.zeros(2, 0).long(), DIGITS).shape == (2, 0)


def test_offsets_are_drawn_evenly_and_the_largest_too() -> None:
    generator = torch.Generator().manual_seed(0)
    state = torch.random.get_rng_state()
    counts = torch.tensor([abacus_offset(generator, largest=3) for _ in range(4000)]).bincount().double()
    assert len(counts) == 4
    assert ((counts - 1000).abs() < 5 * 1000**0.5).all()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert abacus_offset(generator, largest=0) == 0


def test_a_learned_table_takes_abacus_places_and_causality_goes_by_order() -> None:
    tokens = torch.tensor([encode("74+58=231"), encode("1+2=3    ")])
    places = abacus_positions(tokens, DIGITS, offset=4)
    positions = Positions.sequence(9).replace(q=places, k=places)
    table = lw.Learned(4, 16)
    out = table.embed_positions(torch.zeros(2, 9, 4), positions)
    assert torch.equal(out, table.table[places])
    assert torch.equal(positions.visible(), torch.ones(9, 9).tril().bool())
    step = Positions.step(8, 1).replace(q=places[:, 8:], k=places)
    assert torch.equal(table.embed_positions(torch.zeros(2, 1, 4), step), out[:, 8:])


# --- coupling ---------------------------------------------------------------------------------------------------------

NUMBER = st.text("0123456789", min_size=1, max_size=5)


@given(NUMBER, NUMBER, NUMBER, st.integers(1, 20), st.booleans(), st.integers(0, 3), st.integers(0, 3))
def test_coupled_positions_are_those_of_the_published_data(
    a: str, b: str, c: str, start: int, reversed_answer: bool, left: int, right: int
) -> None:
    tokens = torch.tensor([encode(" " * left + f"{a}+{b}={c}" + " " * right)])
    got = coupled_positions(tokens, DIGITS, PLUS, EQUALS, reversed_answer=reversed_answer, start=start)
    expected = [0] * left + coupled_by_hand(a, b, c, start, reversed_answer) + [0] * right
    assert got.tolist() == [expected]


def test_worked_examples_come_out() -> None:
    # 653 + 49 = 702, operands padded: weights 2 1 0, ids start + 1 + weight.
    plain = torch.tensor([encode("653+049=0702")])
    assert coupled_positions(plain, DIGITS, PLUS, EQUALS).tolist() == [[4, 3, 2, 1, 4, 3, 2, 6, 5, 4, 3, 2]]
    backwards = torch.tensor([encode("653+049=2070")])
    assert coupled_positions(backwards, DIGITS, PLUS, EQUALS, reversed_answer=True).tolist() == [
        [4, 3, 2, 1, 4, 3, 2, 1, 2, 3, 4, 5]
    ]


@pytest.mark.parametrize("reversed_answer", [False, True])
def test_an_answer_that_is_being_written_has_the_ids_of_the_whole_one(reversed_answer: bool) -> None:
    whole = torch.tensor([encode("653+049=2070"), encode("999+999=8991")])
    settings = {"reversed_answer": reversed_answer, "start": torch.tensor([3, 8])}
    expected = coupled_positions(whole, DIGITS, PLUS, EQUALS, **settings)
    for written in range(5):
        part = coupled_positions(whole[:, : 8 + written], DIGITS, PLUS, EQUALS, answer_digits=4, **settings)
        assert torch.equal(part, expected[:, : 8 + written])


def test_each_row_may_start_elsewhere() -> None:
    tokens = torch.tensor([encode("1+2=3"), encode("1+2=3")])
    got = coupled_positions(tokens, DIGITS, PLUS, EQUALS, start=torch.tensor([1, 5]), reversed_answer=True)
    assert got.tolist() == [[2, 1, 2, 1, 2], [6, 5, 6, 5, 6]]


@pytest.mark.parametrize("reversed_answer", [False, True])
def test_starts_are_drawn_evenly_and_the_last_one_reaches_the_largest_position(reversed_answer: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    state = torch.random.get_rng_state()
    starts = coupling_start(4, 9, reversed_answer=reversed_answer, rows=6000, generator=generator)
    assert torch.equal(torch.random.get_rng_state(), state)
    last = 5 if reversed_answer else 4
    counts = starts.bincount().double()
    assert counts[0] == 0
    assert len(counts) == last + 1
    assert ((counts[1:] - 6000 / last).abs() < 5 * (6000 / last) ** 0.5).all()
    tokens = torch.tensor([encode("653+049=2070")])
    places = coupled_positions(tokens, DIGITS, PLUS, EQUALS, start=last, reversed_answer=reversed_answer)
    assert places.max() == 9


# --- what is refused --------------------------------------------------------------------------------------------------


def test_arguments_that_make_no_sense_are_refused() -> None:
    tokens = torch.tensor([encode("1+2=3")])
    with pytest.raises(lw.InvalidArgument, match=r"tokens must be \[batch, length\], not of shape \[5\]"):
        abacus_positions(tokens[0], DIGITS)
    with pytest.raises(lw.InvalidArgument, match="offset must be at least 0, not -1"):
        abacus_positions(tokens, DIGITS, offset=-1)
    with pytest.raises(lw.InvalidArgument, match="largest must be at least 0"):
        abacus_offset(largest=-1)
    with pytest.raises(lw.InvalidArgument, match="start must be at least 1, not 0"):
        coupled_positions(tokens, DIGITS, PLUS, EQUALS, start=0)
    for start in (torch.tensor([1, 2]), torch.tensor([1.0]), torch.ones(1, 1).long()):
        with pytest.raises(lw.InvalidArgument, match="start must be one whole number, or one for each of 1 rows"):
            coupled_positions(tokens, DIGITS, PLUS, EQUALS, start=start)
    with pytest.raises(lw.InvalidArgument, match="answer_digits must be at least 1, not 0"):
        coupled_positions(tokens, DIGITS, PLUS, EQUALS, answer_digits=0)
    with pytest.raises(lw.InvalidArgument, match="an answer of 4 digits needs max_position of at least 6, not 5"):
        coupling_start(4, 5)
    with pytest.raises(lw.InvalidArgument, match="an answer of 4 digits needs max_position of at least 5, not 4"):
        coupling_start(4, 4, reversed_answer=True)
