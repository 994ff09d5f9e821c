"""A comparison finds what differs, tells what is missing, and says so with its numbers."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lengthwise.agreement import TOLERANCE, Comparison, measure, paragraph
from lengthwise.agreement.comparison import difference
from lengthwise.agreement.ours import rotated
from lengthwise.agreement.pages import as_rows, cells, paragraphs, table
from lengthwise.agreement.place import Place, centred
from lengthwise.agreement.wording import number


def beside(theirs: Callable[[Place], Tensor], peer: str = "torch", **settings: object) -> Comparison:
    return Comparison("rotary", peer, "a stand-in", "rotated q and k", rotated("rotary"), theirs, **settings)


def turned_back(place: Place) -> Tensor:
    """Rotary with the angles the wrong way round."""
    q, k = place.queries_and_keys()
    angles = -place.index[:, None] * 10000.0 ** (-torch.arange(0, 64, 2) / 64)
    x1, x2 = torch.stack((q, k)).float().chunk(2, -1)
    return torch.cat((x1 * angles.cos() - x2 * angles.sin(), x2 * angles.cos() + x1 * angles.sin()), -1).to(q.dtype)


def test_a_peer_that_turns_the_wrong_way_is_found_at_every_place() -> None:
    outcomes = measure(beside(turned_back))
    assert [outcome.status for outcome in outcomes] == ["differs"] * 6
    assert all(outcome.difference is not None and outcome.difference > 1 for outcome in outcomes)


def test_a_difference_just_above_the_tolerance_is_found_and_one_below_is_not() -> None:
    def off(factor: float) -> list[str]:
        def theirs(place: Place) -> Tensor:
            right = rotated("rotary")(place)
            right.view(-1)[7] += factor * TOLERANCE[place.dtype]
            return right

        return [outcome.status for outcome in measure(beside(theirs, dtypes=(torch.float32,), starts=(0,)))]

    assert off(0.9) == ["agrees"]
    assert off(1.2) == ["differs"]


def test_a_peer_that_is_missing_is_told_and_nothing_of_it_is_called() -> None:
    def never(place: Place) -> Tensor:
        raise AssertionError

    comparison = beside(never, peer="a-package-that-nobody-has")
    outcomes = measure(comparison)
    assert {outcome.status for outcome in outcomes} == {"not installed"}
    assert set(cells(outcomes)) == {"missing"}
    assert paragraph(comparison, outcomes) == ""
    assert "a-package-that-nobody-has is not installed" in outcomes[0].note


def test_a_peer_that_raises_is_told_with_its_version_and_the_error() -> None:
    def broken(place: Place) -> Tensor:
        raise AttributeError("it was renamed")

    comparison = beside(broken, starts=(0,))
    outcomes = measure(comparison)
    assert {outcome.status for outcome in outcomes} == {"failed"}
    assert f"torch {torch.__version__}" in outcomes[0].note
    assert "AttributeError: it was renamed" in paragraphs([(comparison, outcomes)])[0][1]


def test_results_of_another_shape_are_no_agreement() -> None:
    outcomes = measure(beside(lambda place: rotated("rotary")(place)[:1], starts=(0,)))
    assert {outcome.status for outcome in outcomes} == {"failed"}


def test_a_result_that_is_not_finite_differs_and_is_null_in_json() -> None:
    comparison = beside(lambda place: rotated("rotary")(place) * math.inf, starts=(0,))
    outcomes = measure(comparison)
    assert [outcome.status for outcome in outcomes] == ["differs"] * 2
    assert number(outcomes[0].difference) == "inf"
    row = as_rows([(comparison, outcomes)])[0]
    assert row["difference"] is None
    assert "difference is not finite" in row["note"]


def test_the_paragraph_has_the_numbers_of_this_run_and_a_dash_for_what_was_not_measured() -> None:
    comparison = beside(turned_back, starts=(0,), why="off by {float32} near, {far16} far, ours {ours_float32}")
    outcomes = measure(comparison)
    near = number(outcomes[0].difference)
    assert paragraph(comparison, outcomes) == f"off by {near} near, – far, ours –"
    assert f"{near}*" in table([(comparison, outcomes)])


def test_disagreements_of_one_cause_share_a_paragraph() -> None:
    results = [(one, measure(one)) for one in (beside(turned_back, starts=(0,), why="it is so") for _ in range(2))]
    assert paragraphs(results) == [("rotary / torch: a stand-in; a stand-in", "it is so")]


@pytest.mark.parametrize(("a", "b", "expected"), [(1.0, 1.5, 0.5 / 1.5), (0.1, 0.2, 0.1), (-8.0, -4.0, 0.5)])
def test_a_difference_is_a_share_of_the_value_where_that_is_above_1(a: float, b: float, expected: float) -> None:
    assert difference(torch.tensor([0.0, a]), torch.tensor([0.0, b])) == pytest.approx(expected)


def test_a_centred_bias_forgets_what_softmax_forgets_and_nothing_else() -> None:
    bias = torch.randn(2, 5, 5, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(centred(bias), centred(bias + torch.arange(5.0)[:, None]), atol=1e-6)
    ahead = torch.ones(5, 5).triu(1).bool()
    weights = bias.double().masked_fill(ahead, -math.inf).softmax(-1)
    torch.testing.assert_close(centred(bias).masked_fill(ahead, -math.inf).softmax(-1), weights)


def test_inputs_are_the_same_numbers_in_every_dtype() -> None:
    for wide, narrow in zip(Place().queries_and_keys(), Place(torch.bfloat16).queries_and_keys(), strict=True):
        assert torch.equal(wide, narrow.float())
    assert not torch.equal(*Place().queries_and_keys())
