"""The chosen method as a model folder for plain `transformers`: a config of its own, and links to all the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from lengthwise.compose import PerLayer
from lengthwise.errors import InvalidArgument, LengthwiseError, StorageError
from lengthwise.files import check_folder, write_whole
from lengthwise.hf import to_rope_parameters
from lengthwise.hf.stretch.candidate import Candidate
from lengthwise.hf.stretch.source import Source, told

GROWS = frozenset({"dynamic"})
"""Kinds whose formula reads the trained length from `max_position_embeddings`, which then can't be the new one."""


def why_not(encoding: nn.Module, config: Any) -> str:
    """Why a config of `transformers` can't say an encoding; empty where it can."""
    try:
        _parameters(encoding, config)
    except LengthwiseError as error:
        return " ".join(str(error).split())
    return ""


def write_model(source: Source, config: Any, candidate: Candidate, target: int, folder: Path) -> Path:
    """Write `config.json` and link weights, tokenizer and whatever else the model has; returns the folder.

    Args:
        source: the model as it is.
        config: its config, as `transformers` has read it.
        candidate: the method.
        target: the new longest length.
        folder: is made; files of the same names in it are replaced.

    Raises:
        StorageError: the folder can't be written, or is the model's own.
        InvalidArgument: no config can say the method.
    """
    if folder.exists() and folder.resolve() == source.folder.resolve():
        raise StorageError(f"{folder} is the model's own folder: choose another with --out")
    check_folder(folder)
    for file in [source.folder / source.gguf] if source.gguf else sorted(source.folder.iterdir()):
        if file.is_file() and file.name != "config.json":
            _link(file.resolve(), folder / file.name)
    if source.gguf:
        source.tokenizer().save_pretrained(folder)
    data = _config(source, config, _parameters(candidate.encoding, config), target)
    write_whole(folder / "config.json", (json.dumps(data, indent=2) + "\n").encode())
    return folder


def loading(source: Source, folder: Path) -> str:
    """Python that loads a written folder."""
    where = repr(str(folder))
    if not source.gguf:
        return f"AutoModelForCausalLM.from_pretrained({where})"
    config = f"config=AutoConfig.from_pretrained({where})"
    return f"AutoModelForCausalLM.from_pretrained({where}, gguf_file={source.gguf!r}, {config})"


def load_written(source: Source, folder: Path) -> Any:
    """The model in a written folder, by plain `transformers`, in the way that `loading` says."""
    from transformers import AutoConfig, AutoModelForCausalLM

    how = {"gguf_file": source.gguf} if source.gguf else {}
    with told(source):
        config = AutoConfig.from_pretrained(folder)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, config=config, dtype=torch.float32, attn_implementation="sdpa", **how
        )
    return loaded.eval()


def verify(source: Source, folder: Path, model: Any, candidate: Candidate, tokens: Int64[Tensor, " length"]) -> float:
    """The largest difference between the written model and the measured one, over tokens far apart.

    Raises:
        InvalidArgument: they differ, so that the written folder is not what was measured.
    """
    from lengthwise.hf.apply import apply_to

    target = len(tokens)
    few = tokens[-64:].unsqueeze(0)
    at = torch.linspace(0, target - 1, few.shape[1]).round().to(torch.int64).unsqueeze(0)  # all distances, at no cost
    call = {"input_ids": few, "position_ids": at, "attention_mask": torch.ones_like(few), "use_cache": False}
    with torch.inference_mode():
        written: Tensor = load_written(source, folder)(**call).logits
        with apply_to(model, candidate.encoding, target_length=target if candidate.follows_length else None):
            measured: Tensor = model(**call).logits
    far = float((written - measured).abs().max())
    if not far <= 2e-2 * max(1.0, float(measured.abs().max())):
        raise InvalidArgument(
            f"the model written to {folder} differs from the measured one by {far:g} in its logits: do not use it, "
            "and report this"
        )
    return far


def _parameters(encoding: nn.Module, config: Any) -> dict[str, Any]:
    text = config.get_text_config()
    return to_rope_parameters(encoding, text.layer_types if isinstance(encoding, PerLayer) else None)


def _config(source: Source, config: Any, parameters: dict[str, Any], target: int) -> dict[str, Any]:
    if source.gguf:
        data: dict[str, Any] = config.to_diff_dict()
        for key in ("quantization_config", "_name_or_path", "_model_name_or_path", "dtype"):
            data.pop(key, None)
        data.setdefault("architectures", [_architecture(config)])
    else:
        data = json.loads((source.folder / "config.json").read_text(encoding="utf-8"))
    data.pop("rope_scaling", None)
    data["rope_parameters"] = parameters
    if all(not isinstance(value, dict) for value in parameters.values()):  # for transformers 4 and serving engines
        data["rope_scaling"] = {key: value for key, value in parameters.items() if key != "rope_theta"}
        if "rope_theta" in parameters:
            data["rope_theta"] = parameters["rope_theta"]
    if parameters.get("rope_type") not in GROWS:
        if "original_max_position_embeddings" not in parameters:  # the type does not hold the trained length itself
            text = config.get_text_config()
            trained = getattr(text, "original_max_position_embeddings", None) or text.max_position_embeddings
            data["original_max_position_embeddings"] = trained
        data["max_position_embeddings"] = target
    return data


def _architecture(config: Any) -> str:
    from transformers import AutoModelForCausalLM

    mapping: Any = AutoModelForCausalLM._model_mapping  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    try:
        return mapping[type(config)].__name__
    except KeyError as error:
        raise InvalidArgument(f"transformers has no causal language model for {type(config).__name__}") from error


def _link(file: Path, link: Path) -> None:
    """A symbolic link, or a hard one where the file system has none."""
    try:
        if link.is_symlink() or link.exists():
            link.unlink()
        try:
            link.symlink_to(file)
        except OSError:
            os.link(file, link)
    except OSError as error:
        raise StorageError(f"can't link {link} to {file}: {error.strerror or error}") from error
