"""Models of `transformers` from local files: a folder in its format, or one `.gguf` file. Nothing is fetched."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from lengthwise.errors import DataError, InvalidArgument, nearest

_WEIGHTS = ("model*.safetensors", "pytorch_model*.bin", "*.safetensors")


def load_model(source: Any, *, dtype: Any = None) -> Any:
    """Load a causal language model from local files, ready to be asked; a loaded model is returned as it is.

    Args:
        source: a folder with `config.json` and weights, a `.gguf` file, or a model of `transformers`.
        dtype: of the weights; None: as they are stored (`.gguf`: float32).

    Raises:
        DataError: no such file, a file that can't be read, or a folder without weights or with a part of them.
        InvalidArgument: an architecture that the installed `transformers` does not have, or an extra that is missing.
    """
    if isinstance(source, nn.Module):
        return source
    path = _path(source)
    _need("transformers", "transformers")
    if path.suffix == ".json":
        raise DataError(f"{path} is a config alone: give the folder that holds the weights too")
    if path.is_file():
        _need("gguf", "gguf")
        _need("accelerate", "accelerate")
        return _load(path.parent, path, {"gguf_file": path.name, "dtype": "float32" if dtype is None else dtype})
    settings = read_config(path)
    _check_architecture(settings, path)
    if not any(file.is_file() for pattern in _WEIGHTS for file in path.glob(pattern)):
        raise DataError(
            f"{path} has a config and no weights, model.safetensors or others: "
            "`lengthwise audit` reads a config alone, all else needs the weights"
        )
    return _load(path, path, {"dtype": "auto" if dtype is None else dtype})


def read_config(source: Any) -> dict[str, Any]:
    """The dictionary in a `config.json`, as it was written; of a folder, the file, a `.gguf` file, or a model.

    Raises:
        DataError: no such file, or one that is no JSON object.
        InvalidArgument: something else, or an extra that is missing.
    """
    if isinstance(source, Mapping):
        return dict(source)  # pyright: ignore[reportUnknownArgumentType]
    config = getattr(source, "config", source)
    if hasattr(config, "to_dict"):
        return dict(config.to_dict())
    path = _path(source)
    if path.suffix == ".gguf":
        _need("transformers", "transformers")
        _need("gguf", "gguf")
        from transformers import AutoConfig

        def read() -> Any:
            return AutoConfig.from_pretrained(path.parent, gguf_file=path.name)

        return dict(_told(path, read).to_dict())
    file = path / "config.json" if path.is_dir() else path
    if not file.exists():
        inside = sorted(one.name for one in path.glob("*.gguf"))
        hint = f"give one of its files: {', '.join(inside)}" if inside else "a folder of a model has one"
        raise DataError(f"{path} has no config.json: {hint}")
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file} can't be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f"{file} holds no JSON object, and a config is one")
    return found


def _load(folder: Path, path: Path, how: dict[str, Any]) -> Any:
    from transformers import AutoModelForCausalLM

    def load() -> Any:
        return AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, output_loading_info=True, **how)

    model, report = _told(path, load)
    missing = sorted(report.get("missing_keys", ()))
    if missing:
        some = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise DataError(f"{path} lacks weights of the model, which would be random: {some}")
    return model.eval()


def _told(path: Path, make: Callable[[], Any]) -> Any:
    """What `transformers` says, in one line with the file at fault."""
    try:
        return make()
    except (OSError, ValueError, KeyError, RuntimeError, NotImplementedError, ImportError) as error:
        reason = str(error).strip().splitlines()
        raise DataError(f"{path} can't be loaded: {reason[0] if reason else type(error).__name__}") from error
    except Exception as error:  # safetensors has an error of its own, derived from none of these
        raise DataError(f"{path} can't be loaded: {type(error).__name__}: {error}") from error


def _check_architecture(settings: Mapping[str, Any], path: Path) -> None:
    import transformers
    from packaging.version import InvalidVersion, Version
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    kind, written = settings.get("model_type"), settings.get("transformers_version")
    if kind is None:
        raise InvalidArgument(f"the config of {path} has no model_type, by which an architecture is known")
    if kind in CONFIG_MAPPING:
        return
    newer = ""
    try:
        if written is not None and Version(str(written)) > Version(transformers.__version__):
            newer = f"; the config was written by {written}, so a newer transformers may have it"
    except InvalidVersion:
        pass
    code = "; it names code of its own (auto_map), which is not run" if settings.get("auto_map") else ""
    raise InvalidArgument(
        f"transformers {transformers.__version__} has no architecture {kind!r}: "
        f"{nearest(str(kind), list(CONFIG_MAPPING)) if not newer else 'it can not be loaded'}{newer}{code}"
    )


def _path(source: Any) -> Path:
    if not isinstance(source, str | Path):
        raise InvalidArgument(f"a model is a folder, a .gguf file or a loaded model, not {type(source).__name__}")
    path = Path(source).expanduser()
    if not path.exists():
        raise DataError(f"there is no file or folder {str(path)!r}; names on a hub are not looked up")
    if path.is_file() and path.suffix not in (".gguf", ".json"):
        raise DataError(f"{path} is neither a folder of a model, nor a .gguf file, nor a config.json")
    return path


def _need(module: str, package: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise InvalidArgument(f"this needs the package {package}: pip install 'lengthwise[hf]'")
