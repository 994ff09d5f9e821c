"""What is compiled once for each structure."""

from __future__ import annotations

import pytest

import lengthwise as lw
from lengthwise.testing import CHECKS, Report
from lengthwise.testing import __main__ as conformance
from lengthwise.testing.__main__ import DIMS
from lengthwise.testing.structure import structure
from lengthwise.testing.subject import Subject


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("none", "nothing"),
        ("learned", "embeddings"),
        ("rotary", "rotation: Rotation"),
        ("liere", "rotation: MatrixRotation"),
        ("alibi", "bias: DistanceBias"),
        ("t5", "bias: DistanceBias"),
        ("fire", "bias: PairBias"),
        ("shaw", "logits: logits"),
        ("fox", "hidden: LowRankBias"),
        ("path", "hidden: logits"),
        ("rotary + alibi", "rotation, bias: Composed, DistanceBias"),
    ],
)
def test_a_structure_is_the_sites_and_the_kinds_of_value(spec: str, said: str) -> None:
    assert structure(Subject(lambda: lw.build(spec, DIMS), DIMS)) == said


def test_a_run_over_many_compiles_the_first_of_each_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, list[str]] = {}

    def watch(make: conformance.OfSpec, *, dims: lw.Dims, checks: list[str]) -> Report:
        asked[make.label] = checks
        return Report(make.label, [])

    monkeypatch.setattr(conformance, "check_encoding", watch)
    faulty = "lengthwise.testing.broken.contract:SlopesOfKeyHeads"
    assert conformance.main(["alibi", "t5", "rotary", "kerple", faulty], "slow") == 0
    once = {name for name, check in CHECKS.items() if check.once}
    assert once == {"inductor_equals_eager"}
    assert [label for label, checks in asked.items() if once & {*checks}] == ["alibi", "rotary", faulty]
    assert all("compiles_whole" in checks for checks in asked.values())
