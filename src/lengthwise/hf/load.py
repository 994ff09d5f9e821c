"""From what a user has at hand to the dictionary of a config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from lengthwise.errors import DataError, InvalidArgument
from lengthwise.hf.families import REFUSED, SAME_AS, known


def as_dict(config: Any) -> dict[str, Any]:
    """The dictionary of a config: one itself, a JSON file, a folder of a model, or a config of `transformers`.

    Nothing is downloaded: a name on the hub is not a folder.

    Raises:
        InvalidArgument: something else, or a folder without `transformers` to read it.
        DataError: a file that can't be read.
    """
    if isinstance(config, Mapping):
        return dict(config)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(config, str | PathLike):
        return _read(Path(config))
    if hasattr(config, "to_dict"):
        return dict(config.to_dict())
    raise InvalidArgument(
        f"a config is a dict, a JSON file, a folder or a config of transformers, not {type(config).__name__}"
    )


def text_config(config: Any) -> dict[str, Any]:
    """The part of a config that speaks of the language model.

    Raises:
        InvalidArgument: a config of several parts with none for text; the message names them.
    """
    flat = as_dict(config)
    inner = flat.get("text_config")
    if isinstance(inner, Mapping):
        return text_config(inner)
    name = flat.get("model_type")
    parts = [key for key, value in flat.items() if isinstance(value, Mapping) and value.get("model_type")]
    if parts and SAME_AS.get(str(name), name) not in known() | set(REFUSED):
        raise InvalidArgument(f"a config of type {name!r} has several parts: give one of {', '.join(sorted(parts))}")
    return flat


def _read(path: Path) -> dict[str, Any]:
    if path.is_dir():
        try:
            from transformers import AutoConfig
        except ImportError as error:
            raise InvalidArgument(
                f"transformers reads the config of a folder, and is not installed: pip install 'lengthwise[hf]', or "
                f"give the file, {path / 'config.json'}"
            ) from error
        try:
            return dict(AutoConfig.from_pretrained(path, local_files_only=True).to_dict())
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"transformers can't read a config in {path}: {str(error).splitlines()[0]}") from error
    try:
        made = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"can't read {path}: {error.strerror} (a file or a folder; nothing is downloaded)") from error
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}") from error
    if not isinstance(made, dict):
        raise DataError(f"{path} holds no object of settings")
    return dict(made)  # pyright: ignore[reportUnknownArgumentType]
