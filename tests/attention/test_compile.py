from __future__ import annotations

import os
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest

SPECS = ("none", "learned", "sinusoidal", "rotary", "alibi", "t5", "fire", "rotary + alibi")
CASES = (
    "keeps_the_operator_that_takes_no_memory_of_the_square",
    "differentiates_by_transforms_as_without_a_compiler",
    "compiles_into_at_most_two_graphs_over_five_lengths",
    "takes_positions_as_an_argument_of_one_graph",
    "exports_with_a_length_that_changes",
)


@pytest.fixture(scope="module")
def outcomes() -> dict[tuple[str, str], str]:
    """What happened to each case and encoding, in a process of its own: the shape checks can't be traced."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "error", Path(__file__).with_name("compiled.py")],
        env=os.environ | {"PYTHONPATH": str(root / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t", 2) for line in done.stdout.splitlines()]
    return {(case, spec): outcome for case, spec, outcome in lines}


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("case", CASES)
def test_attention_with_every_encoding(case: str, spec: str, outcomes: dict[tuple[str, str], str]) -> None:
    outcome = outcomes[case, spec]
    assert outcome == "ok", literal_eval(outcome)
