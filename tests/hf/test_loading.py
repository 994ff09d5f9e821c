"""What is loaded from local files, and what is told where it can't be."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lengthwise.errors import DataError, InvalidArgument
from lengthwise.hf import loading
from lengthwise.hf.loading import load_model, read_config

spec = importlib.util.spec_from_file_location("hf_test_models", Path(__file__).parent / "models.py")
assert spec
assert spec.loader
models = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
spec.loader.exec_module(models)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    models.make("llama").save_pretrained(tmp_path)
    return tmp_path


def test_a_folder_gives_the_model_that_was_saved(folder: Path) -> None:
    ids = models.tokens()
    with torch.no_grad():
        assert torch.equal(load_model(folder)(ids).logits, models.make("llama")(ids).logits)
    assert load_model(folder, dtype=torch.bfloat16).dtype == torch.bfloat16
    assert not load_model(str(folder)).training


def test_a_loaded_model_is_returned_as_it_is() -> None:
    model = models.make("llama")
    assert load_model(model) is model
    assert read_config(model)["model_type"] == "llama"


def test_a_folder_without_weights_is_told_what_reads_a_config_alone(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"a config and no weights.*lengthwise audit"):
        load_model(folder)
    with pytest.raises(DataError, match="a config alone: give the folder"):
        load_model(folder / "config.json")


def test_weights_that_lack_a_part_are_no_model(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    weights = load_file(file)
    del weights["model.layers.1.self_attn.q_proj.weight"]
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(DataError, match=r"would be random: model.layers.1.self_attn.q_proj.weight"):
        load_model(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "lama"}, "no architecture 'lama': did you mean 'llama'"),
        ({"model_type": "llama9", "transformers_version": "9.0.0"}, "written by 9.0.0, so a newer transformers"),
        ({"model_type": "own", "auto_map": {"AutoModel": "x.Y"}}, "code of its own .auto_map., which is not run"),
        ({"model_type": None}, "no model_type"),
    ],
)
def test_an_unknown_architecture_is_told(folder: Path, changes: dict[str, Any], words: str) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(InvalidArgument, match=words):
        load_model(folder)


@pytest.mark.parametrize(
    ("text", "words"), [("{", "can't be read as JSON"), ("[]", "holds no JSON object"), (None, "has no config.json")]
)
def test_a_config_that_is_none_is_told(folder: Path, text: str | None, words: str) -> None:
    file = folder / "config.json"
    file.unlink()
    if text is not None:
        file.write_text(text)
    with pytest.raises(DataError, match=words):
        load_model(folder)


def test_broken_weights_name_the_folder(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(DataError, match=f"{folder} can't be loaded"):
        load_model(folder)


def test_what_is_no_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="names on a hub are not looked up"):
        load_model("somebody/some-model")
    (tmp_path / "weights.pt").touch()
    with pytest.raises(DataError, match=r"neither a folder of a model, nor a .gguf file"):
        load_model(tmp_path / "weights.pt")
    with pytest.raises(InvalidArgument, match="not int"):
        load_model(3)
    (tmp_path / "a.gguf").write_bytes(b"no weights")
    with pytest.raises(DataError, match=r"give one of its files: a.gguf"):
        load_model(tmp_path)
    with pytest.raises(DataError, match=r"a.gguf can't be loaded"):
        load_model(tmp_path / "a.gguf")


def test_a_missing_extra_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InvalidArgument, match=r"pip install 'lengthwise\[hf\]'"):
        load_model(folder)


def test_nothing_reaches_for_the_network(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a connection was made")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    load_model(folder)
