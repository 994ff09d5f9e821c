"""The settings of a run: what they allow, and the address that they decide."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lengthwise.errors import InvalidArgument
from lengthwise.lab.experiment import Experiment, Training, experiment_from_dict
from lengthwise.models.config import ModelConfig

BASE = Experiment("rotary", "sort", 10, (10, 20))

positive = st.integers(1, 10**6)
trainings = st.builds(
    Training,
    steps=positive,
    batch=positive,
    learning_rate=st.floats(1e-12, 1e3),
    warmup=st.floats(0, 1),
    weight_decay=st.floats(0, 1e3),
    clip=st.floats(1e-6, 1e6) | st.just(math.inf),
    precision=st.sampled_from(("auto", "float32", "bfloat16")),
    patience=st.integers(0, 10**6),
)
models = st.builds(
    lambda heads, width, **rest: ModelConfig(dim=heads * width, heads=heads, **rest),
    heads=st.integers(1, 64),
    width=st.integers(1, 64),
    layers=positive,
    norm=st.sampled_from(("rms", "layer", "none")),
    tied=st.booleans(),
    dropout=st.floats(0, 0.99),
)
experiments = st.builds(
    Experiment,
    encoding=st.text(),
    task=st.text(),
    train_length=positive,
    test_lengths=st.sets(positive, min_size=1).map(lambda lengths: tuple(sorted(lengths))),
    seed=st.integers(0, 2**31),
    model=models,
    training=trainings,
    test_examples=positive,
    data=st.text(),
)

OTHER: dict[str, Any] = {
    "encoding": "alibi",
    "task": "copy",
    "train_length": 11,
    "test_lengths": (10, 21),
    "seed": 1,
    "test_examples": 255,
    "data": "v1",
    "train_from": 4,
}
OTHER_TRAINING: dict[str, Any] = {
    "steps": 1001,
    "batch": 33,
    "learning_rate": 1e-3,
    "warmup": 0.1,
    "weight_decay": 0.0,
    "clip": 2.0,
    "precision": "float32",
    "patience": 5,
}
OTHER_MODEL: dict[str, Any] = {
    "vocabulary": 99,
    "dim": 32,
    "layers": 3,
    "heads": 2,
    "kv_heads": 2,
    "hidden": 7,
    "norm": "none",
    "activation": "swiglu",
    "tied": True,
    "dropout": 0.5,
}


@given(experiments)
def test_an_experiment_comes_back_from_json_with_its_address(experiment: Experiment) -> None:
    back = experiment_from_dict(json.loads(json.dumps(experiment.as_dict())))
    assert back == experiment
    assert back.address == experiment.address


@given(experiments)
def test_an_address_is_one_folder_name_of_plain_characters(experiment: Experiment) -> None:
    assert len(experiment.address) < 120
    assert experiment.address.isascii()
    assert not set(experiment.address) & set("/\\ \0'\"$")
    assert not experiment.address.startswith(("/", "~"))


def test_an_address_is_made_of_the_names_and_the_hash_of_all_settings_as_sorted_json() -> None:
    settings = {**vars(BASE), "model": vars(BASE.model), "training": vars(BASE.training), "test_lengths": [10, 20]}
    del settings["train_from"]  # left out where it is not set
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    assert BASE.address == f"sort-rotary-s0-{digest[:10]}"


def test_any_changed_setting_gives_another_address() -> None:
    changed = [replace(BASE, **{name: value}) for name, value in OTHER.items()]
    changed += [
        replace(BASE, training=replace(BASE.training, **{name: value})) for name, value in OTHER_TRAINING.items()
    ]
    changed += [replace(BASE, model=replace(BASE.model, **{name: value})) for name, value in OTHER_MODEL.items()]
    assert len({BASE.address, *(one.address for one in changed)}) == len(changed) + 1
    # A setting added later must be varied here too.
    assert {*OTHER, "model", "training"} == {field.name for field in fields(Experiment)}
    assert set(OTHER_TRAINING) == {field.name for field in fields(Training)}
    assert set(OTHER_MODEL) == {field.name for field in fields(ModelConfig)}


def test_equal_settings_written_differently_are_one_experiment_with_one_address() -> None:
    written: Any = Experiment("rotary", "sort", 10, [10, 20], training=Training(clip=1, warmup=0))
    same = replace(BASE, training=Training(clip=1.0, warmup=0.0))
    assert written == same
    assert hash(written) == hash(same)
    assert written.address == same.address


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train_length": 0}, "train_length must be a whole number of at least 1, not 0"),
        ({"train_length": 2.5}, "train_length must be a whole number of at least 1, not 2.5"),
        ({"train_length": True}, "train_length must be a whole number of at least 1, not True"),
        ({"test_lengths": ()}, "test_lengths must be positive whole numbers, at least one; not ()"),
        ({"test_lengths": (0, 10)}, "test_lengths must be positive whole numbers, at least one; not (0, 10)"),
        ({"test_lengths": (10, 20.5)}, "test_lengths must be positive whole numbers, at least one; not (10, 20.5)"),
        ({"test_lengths": (20, 10)}, "test_lengths must rise without repeats, not (20, 10)"),
        ({"test_lengths": (10, 10)}, "test_lengths must rise without repeats, not (10, 10)"),
        ({"test_lengths": 10}, "test_lengths must be positive whole numbers, at least one; not 10"),
        ({"test_examples": 0}, "test_examples must be a whole number of at least 1, not 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, not -1"),
        ({"seed": 2**40}, "seed must be below 2**32"),
        ({"seed": "a"}, "seed must be a whole number of at least 0, not 'a'"),
    ],
)
def test_settings_of_an_experiment_that_make_no_sense_are_told(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        replace(BASE, **change)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "steps must be a whole number of at least 1, not 0"),
        ({"steps": 1.5}, "steps must be a whole number of at least 1, not 1.5"),
        ({"batch": 0}, "batch must be a whole number of at least 1, not 0"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0 and finite, not 0.0"),
        ({"learning_rate": math.nan}, "learning_rate must be above 0 and finite, not nan"),
        ({"learning_rate": math.inf}, "learning_rate must be above 0 and finite, not inf"),
        ({"learning_rate": "high"}, "learning_rate must be a number, not 'high'"),
        ({"warmup": -0.1}, "warmup is a part of the steps, from 0 to 1, not -0.1"),
        ({"warmup": 1.1}, "warmup is a part of the steps, from 0 to 1, not 1.1"),
        ({"warmup": math.nan}, "warmup is a part of the steps, from 0 to 1, not nan"),
        ({"weight_decay": -1.0}, "weight_decay must be at least 0 and finite, not -1.0"),
        ({"weight_decay": math.nan}, "weight_decay must be at least 0 and finite, not nan"),
        ({"clip": 0.0}, "clip must be above 0, not 0.0"),
        ({"clip": math.nan}, "clip must be above 0, not nan"),
        ({"precision": "bfloat6"}, "unknown precision 'bfloat6': did you mean 'bfloat16' or 'float32'?"),
        ({"patience": -1}, "patience must be a whole number of at least 0, not -1"),
    ],
)
def test_settings_of_training_that_make_no_sense_are_told(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Training(**change)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [{}, {"model": {}, "training": {}}, {**asdict(BASE), "colour": 1}, {**asdict(BASE), "model": 3}, [], "text", None],
)
def test_what_is_not_the_settings_of_an_experiment_is_told(data: Any) -> None:
    with pytest.raises(InvalidArgument, match="not the settings of an experiment"):
        experiment_from_dict(data)


def test_an_experiment_without_a_shortest_length_has_the_address_it_had_before_there_was_one() -> None:
    assert "train_from" not in BASE.as_dict()
    assert replace(BASE, train_from=4).as_dict()["train_from"] == 4
    assert experiment_from_dict(replace(BASE, train_from=4).as_dict()) == replace(BASE, train_from=4)
    with pytest.raises(InvalidArgument, match="no length is left to train on"):
        replace(BASE, train_from=11)
