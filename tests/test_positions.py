from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.utils import _pytree as pytree

import lengthwise as lw
from lengthwise import InvalidArgument, Positions

TENSORS = ("q", "k", "q_segment", "k_segment", "q_order", "k_order")
MASK = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0]])

MAKERS: dict[str, Callable[[], Positions]] = {
    "sequence": lambda: Positions.sequence(5),
    "sequence, all seen": lambda: Positions.sequence(5, causal=False),
    "sequence of one": lambda: Positions.sequence(1),
    "sequence of none": lambda: Positions.sequence(0),
    "step": lambda: Positions.step(4),
    "step of three": lambda: Positions.step(2, 3),
    "step of none": lambda: Positions.step(3, 0),
    "step from nothing": lambda: Positions.step(0, 4),
    "packed": lambda: Positions.packed([2, 0, 3, 1]),
    "packed, all seen": lambda: Positions.packed([2, 3], causal=False),
    "packed of nothing": lambda: Positions.packed([]),
    "padded": lambda: Positions.padded(MASK),
    "padded, all seen": lambda: Positions.padded(MASK.bool(), causal=False),
    "padded step": lambda: Positions.padded(MASK, 2),
    "padded of nothing": lambda: Positions.padded(MASK[:, :0]),
}


def seen(positions: Positions, row: int = 0) -> list[list[int]]:
    """Which keys each query of a row sees, as lists of indices."""
    visible = positions.visible()
    if visible is None:
        return [list(range(positions.k_length))] * positions.q_length
    visible = visible.expand(max(positions.batch, 1), *visible.shape[-2:])[row]
    return [line.nonzero().flatten().tolist() for line in visible]


@pytest.mark.parametrize("name", MAKERS)
def test_aligned_positions_keep_every_part_of_the_promise(name: str) -> None:
    positions = MAKERS[name]()
    assert positions.aligned
    rows, queries, keys = positions.batch, positions.q_length, positions.k_length
    q = positions.q.expand(rows, queries).tolist()
    k = positions.k.expand(rows, keys).tolist()
    for row in range(rows):
        for i, line in enumerate(seen(positions, row)):
            for j in line:
                assert q[row][i] - k[row][j] == (keys - queries + i) - j
        assert all(0 <= place < keys for place in q[row] + k[row])
        assert q[row] == k[row][keys - queries :]


@pytest.mark.parametrize("name", ["sequence", "step", "packed", "padded"])
def test_constructors_make_int64_and_share_one_tensor_where_queries_are_the_keys(name: str) -> None:
    positions = MAKERS[name]()
    for part in TENSORS:
        tensor = getattr(positions, part)
        assert tensor is None or tensor.dtype == torch.int64
    whole = Positions.sequence(3)
    assert whole.q is whole.k


def test_a_sequence_sees_itself_and_what_came_before() -> None:
    assert Positions.sequence(3).q.tolist() == [0, 1, 2]
    assert seen(Positions.sequence(3)) == [[0], [0, 1], [0, 1, 2]]
    assert Positions.sequence(3, causal=False).visible() is None
    assert Positions.step(7).visible() is None  # the last token of all


def test_a_step_is_the_last_rows_of_the_sequence() -> None:
    step, whole = Positions.step(3, 2), Positions.sequence(5)
    assert step.q.tolist() == [3, 4]
    assert seen(step) == seen(whole)[3:]
    assert torch.equal(step.distance(), whole.distance()[3:])


def test_packed_documents_count_from_zero_and_see_only_themselves() -> None:
    packed = Positions.packed([2, 0, 3])
    assert packed.q.tolist() == [[0, 1, 0, 1, 2]]
    assert packed.q_segment is not None
    assert packed.q_segment.tolist() == [[0, 0, 2, 2, 2]]
    assert seen(packed) == [[0], [0, 1], [2], [2, 3], [2, 3, 4]]
    assert seen(Positions.packed([2, 1], causal=False)) == [[0, 1], [0, 1], [2]]


def test_padded_rows_count_from_their_first_real_token_and_padding_neither_sees_nor_is_seen() -> None:
    padded = Positions.padded(MASK)
    assert padded.q[0].tolist()[2:] == [0, 1, 2]
    assert padded.q[1].tolist() == [0, 1, 2, 3, 4]
    assert padded.q[2].tolist()[:2] == [0, 1]
    assert (padded.q[3, 1].item(), padded.q[3, 3].item()) == (0, 2)  # a hole keeps its place
    assert seen(padded, 0) == [[], [], [2], [2, 3], [2, 3, 4]]
    assert seen(padded, 2) == [[0], [0, 1], [], [], []]
    assert seen(padded, 3) == [[], [1], [], [1, 3], []]
    assert seen(padded, 4) == [[]] * 5
    assert seen(Positions.padded(MASK, causal=False), 3) == [[], [1, 3], [], [1, 3], []]


@given(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4), st.integers(0, 6))
def test_the_last_columns_of_a_padded_batch_are_the_last_rows_of_all(mask: list[list[bool]], new: int) -> None:
    whole, step = Positions.padded(torch.tensor(mask)), Positions.padded(torch.tensor(mask), new)
    assert step.q_length == new
    assert torch.equal(step.q, whole.q[:, 6 - new :])
    for row in range(len(mask)):
        assert seen(step, row) == seen(whole, row)[6 - new :]


def test_cross_positions_see_all_and_promise_nothing() -> None:
    cross = Positions.cross(2, 3)
    assert (cross.q_length, cross.k_length, cross.visible(), cross.aligned) == (2, 3, None, False)
    assert cross.distance().tolist() == [[0, -1, -2], [1, 0, -1]]


def test_causality_compares_order_and_never_positions() -> None:
    repeated = torch.tensor([0, 0, 0, 1])
    assert seen(Positions(repeated, repeated)) == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    backwards = torch.tensor([3, 2, 1, 0])
    assert seen(Positions(backwards, backwards)) == [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]]
    order = torch.tensor([2, 0, 1])
    shuffled = Positions(order * 0, order * 0, q_order=order, k_order=order)
    assert seen(shuffled) == [[0, 1, 2], [1], [1, 2]]


def test_the_queries_are_the_last_keys_as_they_stand_where_only_the_keys_order_is_given() -> None:
    place = torch.arange(4)
    positions = Positions(place[2:], place, k_order=torch.tensor([3, 0, 2, 1]))
    assert seen(positions) == [[1, 2, 3], [1, 3]]


def test_a_shard_sees_keys_of_another_by_their_order() -> None:
    place = torch.arange(6)
    shard = Positions(place[2:4], place[:3], q_order=place[2:4], k_order=place[:3])
    assert seen(shard) == [[0, 1, 2], [0, 1, 2]]
    for made in (Positions.shard(range(2, 4), range(3)), Positions.shard(place[2:4], place[:3])):
        assert seen(made) == seen(shard)
        assert made.distance().tolist() == shard.distance().tolist()
        assert not made.aligned
    assert seen(Positions.shard(range(1, 6, 2), range(0, 6, 2), window=2)) == [[0], [1], [2]]
    assert Positions.shard(range(5, 3, 8), range(3)).q_length == 0  # more machines than tokens
    with pytest.raises(lw.InvalidArgument, match="a range or an int64 tensor"):
        Positions.shard([0, 1], range(3))


def test_orders_may_differ_from_row_to_row() -> None:
    order = torch.tensor([[0, 1], [1, 0]])
    positions = Positions(
        torch.zeros(2, dtype=torch.int64), torch.zeros(2, dtype=torch.int64), q_order=order, k_order=order
    )
    assert positions.batch == 2
    assert seen(positions, 0) == [[0], [0, 1]]
    assert seen(positions, 1) == [[0, 1], [1]]


def test_a_window_counts_tokens_back_and_ahead_where_not_causal() -> None:
    assert seen(Positions.sequence(4).replace(window=1)) == [[0], [0, 1], [1, 2], [2, 3]]
    assert seen(Positions.sequence(4).replace(window=0)) == [[0], [1], [2], [3]]
    assert seen(Positions.sequence(3, causal=False).replace(window=1)) == [[0, 1], [0, 1, 2], [1, 2]]
    assert seen(Positions.sequence(3).replace(window=10**18)) == seen(Positions.sequence(3))
    doubled = Positions.sequence(4).q * 2
    stretched = Positions.sequence(4).replace(q=doubled, k=doubled, window=1)
    assert seen(stretched) == [[0], [0, 1], [1, 2], [2, 3]]  # tokens, not positions


def test_lengths_are_read_from_any_rank() -> None:
    for shape, axes, batch in (((5,), 1, 1), ((3, 5), 1, 3), ((1, 5), 1, 1), ((3, 5, 1), 1, 3), ((1, 5, 2), 2, 1)):
        place = torch.zeros(shape, dtype=torch.int64)
        positions = Positions(place, place)
        assert (positions.q_length, positions.k_length, positions.axes, positions.batch) == (5, 5, axes, batch)


def test_a_single_axis_may_be_written_as_a_dimension_of_its_own() -> None:
    place = torch.tensor([[0, 2, 5]])
    line = place[..., None]
    flat, deep = Positions(place, place), Positions(line, line)
    assert torch.equal(flat.distance(), deep.distance())
    q, k = deep.one_axis()
    assert q is k
    with pytest.raises(InvalidArgument, match="positions of one axis are needed here, and these have 2"):
        Positions(torch.zeros(1, 3, 2).long(), torch.zeros(1, 3, 2).long()).distance()


@pytest.mark.parametrize("name", [*MAKERS, "cross"])
def test_new_stands_the_queries_as_keys_and_sees_what_they_saw_of_each_other(name: str) -> None:
    positions = Positions.cross(4, 2) if name == "cross" else MAKERS[name]()
    new = positions.new()
    assert torch.equal(new.q, positions.q)
    assert torch.equal(new.k, positions.q)
    assert not new.aligned
    if name != "cross":
        past = positions.k_length - positions.q_length
        for row in range(positions.batch):
            expected = [[j - past for j in line if j >= past] for line in seen(positions, row)]
            assert seen(new, row) == expected


def test_replace_changes_what_it_is_told_and_withdraws_the_promise() -> None:
    positions = Positions.padded(MASK, 2)
    changed = positions.replace(window=3, target_length=64)
    assert (changed.window, changed.target_length, changed.causal, changed.aligned) == (3, 64, True, False)
    for name in TENSORS:
        assert getattr(changed, name) is getattr(positions, name)
    assert (positions.window, positions.aligned) == (None, True)
    assert positions.replace(aligned=False).aligned is False


def test_positions_move_between_devices_with_all_their_parts() -> None:
    order = torch.arange(5)
    positions = Positions.padded(MASK).replace(q_order=order, k_order=order)
    moved = positions.to("meta")
    assert all(getattr(moved, name).device.type == "meta" for name in TENSORS)
    assert moved.device.type == "meta"
    assert Positions.sequence(3).to("cpu").aligned
    whole = Positions.sequence(3).to("meta")
    assert whole.k is whole.q
    assert Positions.sequence(3, device="meta").q.device.type == "meta"


def test_positions_are_a_tree_of_their_tensors() -> None:
    positions = Positions.padded(MASK, 2).replace(window=3)
    leaves, tree = pytree.tree_flatten(positions)
    assert len([leaf for leaf in leaves if isinstance(leaf, Tensor)]) == 4
    back = pytree.tree_unflatten(leaves, pytree.treespec_loads(pytree.treespec_dumps(tree)))
    assert isinstance(back, Positions)
    for field in dataclasses.fields(positions):
        assert getattr(back, field.name) is getattr(positions, field.name) or field.name == "window"
    assert back.window == 3
    shifted = pytree.tree_map(lambda x: x + 1 if isinstance(x, Tensor) else x, positions)
    assert torch.equal(shifted.k, positions.k + 1)


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_positions_survive_copies_and_pickle(clone: Callable[[Positions], Positions]) -> None:
    positions = Positions.padded(MASK, 2)
    back = clone(positions)
    assert back.aligned
    assert all(seen(back, row) == seen(positions, row) for row in range(5))


def test_positions_are_fixed_and_compared_by_identity() -> None:
    positions = Positions.sequence(3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        positions.window = 3
    assert positions != Positions.sequence(3)
    assert len({positions, Positions.sequence(3)}) == 2


L = torch.arange(3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Positions.sequence(-1), "length must not be negative, and is -1"),
        (lambda: Positions.sequence(2.5), "length must be a whole number, not 2.5"),
        (lambda: Positions.step(-1, 2), "past must not be negative"),
        (lambda: Positions.step(2, -1), "new must not be negative"),
        (lambda: Positions.packed([2, -1]), "a length of a packed document must not be negative"),
        (lambda: Positions.packed([2.5]), "a length of a packed document must be a whole number, not 2.5"),
        (lambda: Positions.cross(-1, 2), "queries must not be negative"),
        (lambda: Positions.cross(1, -2), "keys must not be negative"),
        (lambda: Positions.padded(torch.ones(3)), r"attention_mask must be \[batch, keys\], not of shape \[3\]"),
        (lambda: Positions.padded(torch.ones(1, 1, 3, 3)), "pass the mask of the tokenizer"),
        (lambda: Positions.padded(torch.zeros(2, 3)), "attention_mask must be bool or integer, not torch.float32"),
        (lambda: Positions.padded(MASK, 6), "new must be between 0 and the 5 columns of attention_mask, not 6"),
        (lambda: Positions.padded(MASK, -1), "new must be between 0 and"),
        (lambda: Positions([0, 1], L), "positions 'q' must be a tensor, not list"),
        (lambda: Positions(L, L[0]), r"positions 'k' must be \[k\], \[batch, k\] or \[batch, k, axes\]"),
        (lambda: Positions(L.int(), L), "positions 'q' must be int64 .* not torch.int32"),
        (lambda: Positions(L.bfloat16(), L), "positions 'q' must be int64 .* not torch.bfloat16"),
        (lambda: Positions(L, L[None]), r"of queries \[3\] and of keys \[1, 3\] must have the same rank"),
        (lambda: Positions(L.view(1, 3, 1), L.view(1, 1, 3)), "must have the same rank and axes"),
        (lambda: Positions(L, L, q_segment=L[None]), "give q_segment and k_segment together, or neither"),
        (lambda: Positions(L, L, q_order=L), "q_order without k_order: give both"),
        (lambda: Positions(L, L, k_order=L[:2]), r"k_order of shape \[2\] does not match the 3 positions of 'k'"),
        (lambda: Positions(L, L, k_order=L.view(1, 1, 3)), r"k_order of shape \[1, 1, 3\] does not match"),
        (lambda: Positions(L, L, q_segment=L[None, :2], k_segment=L[None]), "q_segment of shape .* does not match"),
        (lambda: Positions(L, L, q_segment=L, k_segment=L[None]), r"segments must be \[batch, length\], not .* \[3\]"),
        (lambda: Positions(L, L, q_segment=L[None], k_segment=L), r"segments must be \[batch, length\], not .* \[3\]"),
        (
            lambda: Positions(L, L, q_segment=L[None] > 0, k_segment=L[None] > 0),
            "q_segment must be int64, not torch.bool: padding is segment -1",
        ),
        (lambda: Positions(L, L, q_order=L, k_order=L.float()), "k_order must be int64, not torch.float32$"),
        (
            lambda: Positions(L.expand(2, 3), L.expand(4, 3)),
            "q has 2 rows and k 4: each must have 1 or the same number",
        ),
        (
            lambda: Positions(L.expand(2, 3), L.expand(2, 3), q_segment=L.expand(3, 3), k_segment=L.expand(3, 3)),
            "q has 2 rows and q_segment 3",
        ),
        (
            lambda: Positions(L, L[:2]),
            "3 queries can't be the last of 2 keys: give q_order and k_order, or causal=False",
        ),
        (lambda: Positions(L, L, window=-1), "window must be at least 0 .* not -1"),
        (lambda: Positions(L, L, target_length=0), "target_length must be at least 1, not 0"),
        (lambda: Positions(L, L).replace(windw=1), r"Positions has no field 'windw': did you mean 'window'"),
        (lambda: Positions(L, L).replace(aligned=True), "aligned is a promise that only constructors make"),
        (
            lambda: Positions.sequence(3).check_tokens(torch.zeros(2, 4, 8)),
            "2 rows of 4 tokens do not match .* 1 rows of 3",
        ),
    ],
)
def test_positions_that_can_not_be_are_refused_in_one_line(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_more_queries_than_keys_are_fine_where_order_is_given_or_does_not_matter() -> None:
    assert seen(Positions(L, L[:2], q_order=L, k_order=L[:2])) == [[0], [0, 1], [0, 1]]
    assert Positions(L, L[:2], causal=False).visible() is None


def test_positions_are_an_argument_of_exported_programs() -> None:
    class Seen(torch.nn.Module):
        def forward(self, positions: Positions) -> tuple[Tensor, Tensor]:
            visible = positions.visible()
            assert visible is not None
            return positions.distance(), visible

    for positions in (lw.Positions.sequence(4), lw.Positions.padded(MASK[:, :4]), lw.Positions.packed([1, 3])):
        program = torch.export.export(Seen(), (positions,))
        distance, visible = program.module()(positions)
        assert torch.equal(distance, positions.distance())
        assert torch.equal(visible, positions.visible())


def test_a_grid_has_all_its_points_the_last_axis_fastest_and_each_sees_all() -> None:
    grid = Positions.grid(2, 3)
    assert grid.q.tolist() == [[[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]]
    assert grid.k is grid.q
    assert (grid.axes, grid.q_length, grid.causal, grid.visible()) == (2, 6, False, None)
    assert Positions.grid(2, 2, 2).axes == 3
    assert Positions.grid(0, 3).q_length == 0
    with pytest.raises(InvalidArgument, match="at least one size"):
        Positions.grid()
    with pytest.raises(InvalidArgument, match="must not be negative"):
        Positions.grid(-1, 2)


def test_a_part_sees_what_it_saw_in_the_whole() -> None:
    whole = Positions.padded(torch.tensor([[0, 1, 1, 1, 1], [1, 1, 1, 1, 1]]))
    part = whole.part(slice(1, 4), slice(2, 5))
    assert torch.equal(part.visible(), whole.visible()[:, 1:4, 2:5])
    assert torch.equal(part.distance(), whole.distance()[:, 1:4, 2:5])
    assert not part.aligned


def test_a_target_length_changes_nothing_else() -> None:
    fixed = Positions.step(3, 2).with_target(9)
    assert (fixed.target_length, fixed.aligned) == (9, True)
    assert torch.equal(fixed.q, Positions.step(3, 2).q)


def test_a_position_outside_of_a_table_is_told_without_reading_a_tensor_where_it_can_be() -> None:
    assert Positions.sequence(5).outside(5) is None
    assert Positions.sequence(6).outside(5) == 5
    assert Positions.sequence(0).outside(5) is None
    assert Positions.packed([4, 4]).outside(5) is None  # eight keys, and each document counts anew
    assert Positions.packed([4, 7]).outside(5) == 6
    place = torch.tensor([-2, 9])
    assert Positions(place, place).outside(5) == -2
    assert Positions(place.abs(), place.abs()).outside(5) == 9
