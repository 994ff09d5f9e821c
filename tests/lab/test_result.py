"""A result comes back from its file as it was, and nothing else passes for one."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lengthwise.errors import InvalidArgument, StorageError
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.result import ByPosition, Result, result_from_json
from lengthwise.lab.store import RunFolder, read_result

RESULT = Result(
    experiment=Experiment("rotary", "sort", 10, (10, 20)),
    metric="exact_match",
    scores={"exact_match": (1.0, 0.1), "symbol_accuracy": (1.0, 0.7)},
    length_counts="symbols to sort",
    by_position=None,
    table_rows=None,
    trained_rows=None,
    steps=(10, 20),
    losses=(2.5, 1e-9),
    parameters=1234,
    train_seconds=1.5,
    test_seconds=0.1,
    tokens_per_second=1e5,
    stopped_early=False,
    environment={"torch": "2.13", "finished": "2025-03-01T10:00:00+00:00"},
)

number = st.floats(allow_nan=False)
pairs = st.tuples(number, number)
results = st.builds(
    Result,
    experiment=st.just(RESULT.experiment),
    metric=st.text(),
    scores=st.dictionaries(st.text(), pairs),
    length_counts=st.text(),
    by_position=st.none() | st.builds(ByPosition, st.tuples(st.integers(), st.integers()), st.tuples(number)),
    table_rows=st.none() | st.integers(),
    trained_rows=st.none() | st.integers(),
    steps=st.tuples(st.integers(), st.integers()),
    losses=pairs,
    parameters=st.integers(),
    train_seconds=number,
    test_seconds=number,
    tokens_per_second=number,
    stopped_early=st.booleans(),
    environment=st.dictionaries(st.text(), st.text()),
)


@given(results)
def test_a_result_comes_back_from_json(result: Result) -> None:
    assert result_from_json(result.to_json()) == result


def test_scores_of_a_run_that_diverged_come_back() -> None:
    back = result_from_json(replace(RESULT, losses=(math.nan, math.inf)).to_json())
    assert math.isnan(back.losses[0])
    assert back.losses[1] == math.inf


def damaged() -> list[tuple[str, str]]:
    whole = RESULT.to_json()
    data: dict[str, Any] = json.loads(whole)
    without = {name: json.dumps({key: value for key, value in data.items() if key != name}) for name in data}
    changed: dict[str, Any] = {
        "experiment": "sort",
        "scores": 3,
        "losses": None,
        "steps": 0,
        "by_position": {"edges": [1]},
    }
    bad = [(f"without {name}", text) for name, text in without.items()]
    bad += [(f"wrong {name}", json.dumps({**data, name: value})) for name, value in changed.items()]
    bad += [
        ("empty", ""),
        ("cut off", whole[: len(whole) // 2]),
        ("list", "[]"),
        ("number", "3"),
        ("null", "null"),
        ("text", '"text"'),
        ("other JSON", '{"name": "package", "version": 1}'),
        ("other format", json.dumps({**data, "format": 99})),
        ("a key more", json.dumps({**data, "colour": "blue"})),
        ("impossible settings", json.dumps({**data, "experiment": {**data["experiment"], "train_length": -3}})),
    ]
    return bad


@pytest.mark.parametrize("text", [text for _, text in damaged()], ids=[name for name, _ in damaged()])
def test_a_damaged_or_foreign_result_is_told_with_its_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "result.json"
    path.write_text(text)
    with pytest.raises(StorageError) as caught:
        read_result(path)
    message = str(caught.value)
    assert str(path) in message
    assert "delete its folder to run the experiment again" in message
    assert "\n" not in message


def test_a_result_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(b"\xff\xfe\x00" * 100)
    with pytest.raises(StorageError, match="holds no result"):
        read_result(path)


def test_the_result_of_another_experiment_in_a_folder_is_told(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, replace(RESULT.experiment, seed=7))
    folder.path.mkdir()
    (folder.path / "result.json").write_text(RESULT.to_json())
    with pytest.raises(StorageError, match="holds the result of another experiment"):
        folder.result()


def test_another_format_is_told_with_what_to_do() -> None:
    with pytest.raises(InvalidArgument, match="another format than 1: run the experiment again"):
        result_from_json('{"format": 2}')


@pytest.mark.parametrize(
    "damage",
    [
        {"scores": {"exact_match": ["a"]}},
        {"losses": ["x"]},
        {"steps": [1, 2, 3], "losses": [0.5]},
        {"environment": None},
    ],
)
def test_values_of_another_kind_are_told(damage: dict[str, object]) -> None:
    data = json.loads(RESULT.to_json())
    with pytest.raises(InvalidArgument, match="not a stored result"):
        result_from_json(json.dumps({**data, **damage}))


def test_json_of_endless_depth_is_told() -> None:
    with pytest.raises(InvalidArgument, match="not a stored result"):
        result_from_json("[" * 100_000)
