"""`check_encoding` and its report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
import torch
from torch import nn

import lengthwise as lw
from lengthwise.testing import CHECKS, Case, ConformanceError, check_encoding
from lengthwise.testing.broken.claims import ClaimsDecay, ClaimsInvariance
from lengthwise.testing.broken.contract import MisspeltMethod, SlopesOfKeyHeads
from lengthwise.testing.tolerances import angle, output, rounding
from lengthwise.testing.verdict import Broken, agree, finite, same

NAMES = ["shapes_fit", "translation_invariant", "nonincreasing", "mismatch_refused"]


def test_a_report_has_a_line_for_each_check_that_was_asked_for() -> None:
    report = check_encoding(lambda: lw.ALiBi(heads=4), checks=NAMES)
    assert [result.check for result in report.results] == NAMES
    assert report.passed == NAMES[:3]
    assert report.failures == {}
    assert report.skipped == {"mismatch_refused": "it does not act at embeddings"}
    lines = str(report).splitlines()
    assert lines[0].startswith("ALiBi: 0 failed, 3 passed, 1 skipped, in ")
    assert [line.split()[:2] for line in lines[1:]] == [[name, status] for name, status in zip(
        NAMES, ("passed", "passed", "passed", "skipped"), strict=True)]  # fmt: skip
    report.raise_if_failed()


def test_a_failure_says_what_where_by_how_much_against_which_tolerance_and_why_it_usually_happens() -> None:
    message = check_encoding(ClaimsInvariance, checks=["translation_invariant"]).failures["translation_invariant"]
    assert re.search(r"logits shifted by \[\d+\]: \S+ and not \S+ at \[\d, \d, \d, \d\]", message)
    assert re.search(r"off by \S+ where \S+ is allowed", message)
    assert CHECKS["translation_invariant"].sentence in message
    assert CHECKS["translation_invariant"].cause in message


def test_raise_if_failed_raises_with_every_failure() -> None:
    report = check_encoding(ClaimsDecay, checks=["nonincreasing", "shapes_fit"])
    with pytest.raises(ConformanceError, match=r"ClaimsDecay fails 1 of 2 checks(?s:.*)nonincreasing +failed"):
        report.raise_if_failed()
    with pytest.raises(AssertionError):
        report.raise_if_failed()


def test_a_claim_that_holds_and_is_not_made_is_told_and_is_no_failure() -> None:
    class Modest(lw.ALiBi):
        claims = frozenset({"pairwise"})

    report = check_encoding(lambda: Modest(heads=4), checks=NAMES)
    assert report.not_claimed == ["translation_invariant", "nonincreasing"]
    assert report.failures == {}


def test_an_expected_failure_is_none_and_one_that_passes_is_one() -> None:
    expected = {"nonincreasing": "it waves", "shapes_fit": "not finished"}
    report = check_encoding(ClaimsDecay, checks=["nonincreasing", "shapes_fit"], expected_failures=expected)
    assert list(report.expected) == ["nonincreasing"]
    assert report.expected["nonincreasing"].startswith("it waves: ")
    assert "expected to fail (not finished), and is passed" in report.failures["shapes_fit"]


def test_what_an_encoding_raises_is_a_failure_with_its_message() -> None:
    class Raises(nn.Module):
        def logit_bias(self, positions: lw.Positions) -> lw.Bias:
            raise KeyError("no such thing")

    report = check_encoding(Raises, checks=["shapes_fit"])
    line = Raises.logit_bias.__code__.co_firstlineno + 1
    place = rf"raised KeyError: 'no such thing' \(at \S*test_report\.py:{line}, in logit_bias\)\. Expected: "
    assert re.match(place, report.failures["shapes_fit"])
    assert "Traceback (most recent call last):" in report.results[0].traceback
    assert "in prepare" in report.results[0].traceback


def test_the_line_of_an_encoding_is_told_through_what_holds_it_and_what_it_was_raised_again_as() -> None:
    class Raises(nn.Module):
        def logit_bias(self, positions: lw.Positions) -> lw.Bias:
            raise lw.InvalidArgument("no such thing")

    message = check_encoding(lambda: lw.Combined(Raises(), lw.NoPE()), checks=["shapes_fit"]).failures["shapes_fit"]
    line = Raises.logit_bias.__code__.co_firstlineno + 1
    assert re.match(rf"raised InvalidArgument: Raises: no such thing \(at \S*test_report\.py:{line}, in", message)


def test_a_bias_that_is_nan_for_keys_ahead_is_told_as_nan_with_its_usual_cause() -> None:
    class Roots(nn.Module):
        def logit_bias(self, positions: lw.Positions) -> lw.Bias:
            return lw.DistanceBias(lambda d: -d.float().sqrt().expand(4, *d.shape), positions)

    failures = check_encoding(Roots).failures
    told = [message for message in failures.values() if "is NaN" in message]
    assert told
    assert all("the distance of keys ahead, which is negative" in message for message in told)
    assert not any("nan where nan" in message for message in failures.values())


def test_a_wrong_shape_is_told_once_and_what_needs_shapes_waits() -> None:
    report = check_encoding(SlopesOfKeyHeads)
    assert list(report.failures) == ["shapes_fit"]
    waiting = [name for name, reason in report.skipped.items() if reason == "asked once shapes_fit holds"]
    assert {"cache_equals_one_pass", "gradients_exact"} <= set(waiting)
    assert {"acts_somewhere", "words_known"} <= set(report.passed)
    alone = check_encoding(SlopesOfKeyHeads, checks=["cache_equals_one_pass"])
    assert list(alone.failures) == ["cache_equals_one_pass"]
    known = check_encoding(SlopesOfKeyHeads, expected_failures={"shapes_fit": "not finished"})
    assert "cache_equals_one_pass" in known.failures


def test_claiming_more_is_advised_only_where_all_holds() -> None:
    class Modest(lw.ALiBi):
        claims = frozenset({"norm_preserving"})

    wrong = check_encoding(lambda: Modest(heads=4), checks=[*NAMES, "nonpositive", "norm_preserving"])
    assert (wrong.failures, wrong.not_claimed[-1]) == ({}, "nonpositive")
    assert "claim it if it always does" in str(wrong)

    class Faulty(ClaimsDecay):
        claims = frozenset({"nonincreasing"})

    faulty = check_encoding(Faulty, checks=["nonincreasing", "pairwise"])
    assert (list(faulty.failures), faulty.not_claimed) == (["nonincreasing"], ["pairwise"])
    assert "it holds on these inputs" in str(faulty)
    assert "claim it" not in str(faulty)


def test_heads_of_a_bias_are_named_with_those_of_queries_and_keys() -> None:
    message = check_encoding(SlopesOfKeyHeads, checks=["shapes_fit"]).failures["shapes_fit"]
    assert "the bias is of 2 heads" in message
    assert "4 query heads" in message


def test_a_misspelt_method_is_told_with_the_right_name() -> None:
    message = check_encoding(MisspeltMethod, checks=["acts_somewhere"]).failures["acts_somewhere"]
    assert "logits_bias() is never called: did you mean 'logit_bias'" in message


def test_unknown_checks_are_told_with_the_nearest_name() -> None:
    for ask in ({"checks": ["shapes_fits"]}, {"expected_failures": {"shapes_fits": "why"}}):
        with pytest.raises(lw.UnknownName, match=r"unknown check 'shapes_fits': did you mean 'shapes_fit'\?"):
            check_encoding(lw.NoPE, **ask)


def test_what_makes_no_module_is_told() -> None:
    with pytest.raises(lw.InvalidArgument, match=r"an encoding is a torch\.nn\.Module, not 3"):
        check_encoding(lambda: 3)


def test_fast_slow_and_all_are_the_checks_of_that_speed() -> None:
    counts = {which: len(check_encoding(lambda: lw.ALiBi(heads=4), checks=which).results) for which in ("fast",)}
    assert counts["fast"] == sum(check.speed == "fast" for check in CHECKS.values()) >= 30
    assert {check.speed for check in CHECKS.values()} == {"fast", "slow"}


def test_cases_and_dims_are_those_that_are_checked() -> None:
    dims = lw.Dims(dim=12, heads=2, head_dim=6, kv_heads=1)
    seen: list[tuple[int, ...]] = []

    class Watches(lw.ALiBi):
        def logit_bias(self, positions: lw.Positions) -> lw.DistanceBias:
            seen.append((positions.q_length,))
            return super().logit_bias(positions)

    cases = [Case(batch=1, length=11, kv_heads=1), Case(batch=2, length=0)]
    assert check_encoding(lambda: Watches(heads=2), dims=dims, cases=cases, checks=["shapes_fit"]).failures == {}
    assert seen[:2] == [(11,), (0,)]  # and one of cross-attention


def test_a_report_is_plain_values_for_json() -> None:
    report = check_encoding(ClaimsDecay, checks=["nonincreasing"])
    values = json.loads(json.dumps(report.as_dict()))
    assert (values["name"], values["failed"]) == ("ClaimsDecay", True)
    assert values["checks"][0]["check"] == "nonincreasing"
    assert values["checks"][0]["message"] == report.failures["nonincreasing"]


def test_checking_leaves_the_global_generator_as_it_was() -> None:
    state = torch.get_rng_state()
    check_encoding(lambda: lw.T5Bias(heads=4), checks=["shapes_fit", "draws_from_generator"])
    assert torch.equal(torch.get_rng_state(), state)


def test_parameters_are_perturbed_and_the_same_each_time() -> None:
    seen: list[torch.Tensor] = []

    class Zeros(nn.Module):
        claims = frozenset({"translation_invariant"})

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.zeros(8, 32))

        def embed_positions(self, x: torch.Tensor, positions: lw.Positions) -> torch.Tensor:
            seen.append(self.table.detach().clone())
            return x + self.table[positions.one_axis()[0] % 8].to(x.dtype)

    assert "translation_invariant" in check_encoding(Zeros, checks=["translation_invariant"]).failures
    assert seen[0].abs().min() > 0
    assert all(torch.equal(seen[0], one) for one in seen)


@pytest.mark.parametrize(
    ("compare", "message"),
    [
        (lambda: agree(torch.ones(2, 3), torch.ones(3, 2), 1.0, "x"), r"of shape \[2, 3\], expected \[3, 2\]"),
        (lambda: agree(torch.tensor([0, torch.nan]), torch.zeros(2), 9.0, "x"), r"x: is NaN at \[1\]"),
        (lambda: agree(torch.full((2,), torch.nan), torch.full((2,), torch.nan), 9.0, "x"), r"x: is NaN at \[0\]"),
        (lambda: agree(torch.zeros(1), torch.full((1,), torch.nan), 9.0, "x"), r"compared with is NaN at \[0\]"),
        (lambda: agree(torch.tensor([torch.inf]), torch.zeros(1), 9.0, "x"), r"inf where 0 is expected, at \[0\]"),
        (lambda: finite(torch.tensor([1.0, torch.nan]), "x"), r"x: is NaN at \[1\]"),
        (lambda: agree(torch.tensor([1.0, 1.1]), torch.ones(2), 1e-3, "x"), r"1\.1 and not 1 at \[1\], off by 0\.1 wh"),
        (lambda: same(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]), "x"), "where not one bit may differ"),
        (lambda: same(torch.ones(1), torch.ones(1).double(), "x"), r"torch\.float32 \[1\], expected torch\.float64"),
        (lambda: finite(torch.tensor([1.0, float("inf")]), "x"), r"inf at \[1\]"),
    ],
)  # fmt: skip
def test_comparisons_say_what_differs(compare: Callable[[], None], message: str) -> None:
    with pytest.raises(Broken, match=message):
        compare()


def test_equal_infinities_and_bits_agree() -> None:
    x = torch.tensor([1.0, float("-inf")])
    agree(x, x.clone(), 0.0, "x")
    same(x, x.clone(), "x")


def test_tolerances_grow_with_the_dtype_the_length_and_the_position() -> None:
    order = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
    assert [rounding(dtype) for dtype in order] == sorted(rounding(dtype) for dtype in order)
    assert rounding(torch.float32, 1600) == pytest.approx(10 * rounding(torch.float32, 16))
    assert output(torch.float32) > rounding(torch.float32)
    assert angle(2**20) == pytest.approx(2 * 2**20 / 2**23, rel=1e-3)
