"""`lengthwise audit`: a report from a shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]

RIGHT = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    def write(**changes: Any) -> Path:
        file = tmp_path / "config.json"
        file.write_text(json.dumps({**RIGHT, **changes}))
        return file

    return write


def test_a_right_config_leaves_with_0_and_tells_the_frequencies(cli: Cli, config: Callable[..., Path]) -> None:
    called = cli("audit", config(), "--to", 8192)
    assert (called.code, called.err) == (0, "")
    assert "pairs 0 to 5 of 8 turn fully within 4096 tokens" in called.out
    assert "nothing is wrong up to 4096 tokens; for 8192 see the advice" in called.out


def test_a_wrong_config_leaves_with_1_and_names_the_fault(cli: Cli, config: Callable[..., Path]) -> None:
    called = cli("audit", config(rope_scaling={"rope_type": "linear", "factor": 0.5}))
    assert called.code == 1
    assert "factor-below-1" in called.out


def test_json_is_the_whole_output(cli: Cli, config: Callable[..., Path]) -> None:
    called = cli("audit", config().parent, "--json", "--config-only")
    found = json.loads(called.out)
    assert found["ok"]
    assert found["skipped"] == "it was not asked for"


def test_what_is_no_model_leaves_with_2_and_one_line(cli: Cli) -> None:
    called = cli("audit", "somebody/some-model")
    assert (called.code, called.out) == (2, "")
    assert called.err.count("\n") == 1
    assert "names on a hub are not looked up" in called.err
