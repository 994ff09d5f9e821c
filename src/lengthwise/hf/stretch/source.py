"""The model to stretch: a folder of Hugging Face files, or a `.gguf` file; what it is, before weights are loaded."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lengthwise.errors import DataError, InvalidArgument, LengthwiseError
from lengthwise.hf.loading import load_model

WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
EDGE = 1 << 20


@dataclass(frozen=True)
class Source:
    """Where a model is.

    Args:
        folder: that holds it.
        gguf: name of its `.gguf` file in the folder; empty for a folder of Hugging Face files.
    """

    folder: Path
    gguf: str

    @property
    def name(self) -> str:
        """What to call it."""
        return Path(self.gguf).stem if self.gguf else self.folder.resolve().name

    @property
    def weights(self) -> list[Path]:
        """Files that hold the weights."""
        if self.gguf:
            return [self.folder / self.gguf]
        return sorted({file for pattern in WEIGHTS for file in self.folder.glob(pattern)})

    @property
    def fingerprint(self) -> str:
        """What tells these weights and settings from others: size, head and tail of each file, and the config."""
        digest = hashlib.sha256()
        for file in self.weights:
            size = file.stat().st_size
            digest.update(f"{file.name} {size}\n".encode())
            with file.open("rb") as stream:
                digest.update(stream.read(EDGE))
                stream.seek(max(0, size - EDGE))
                digest.update(stream.read(EDGE))
        if not self.gguf:
            digest.update((self.folder / "config.json").read_bytes())
        return digest.hexdigest()[:16]

    def config(self) -> Any:
        """The model's config, as `transformers` reads it."""
        from transformers import AutoConfig

        with told(self):
            return AutoConfig.from_pretrained(self.folder, **self._how())

    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        from transformers import AutoTokenizer

        with told(self, "a tokenizer"):
            return AutoTokenizer.from_pretrained(self.folder, **self._how())

    def model(self) -> Any:
        """The model in float32, ready to be asked."""
        with told(self):
            return load_model(self.folder / self.gguf if self.gguf else self.folder, dtype="float32")

    def _how(self) -> dict[str, str]:
        return {"gguf_file": self.gguf} if self.gguf else {}


def find(path: Path) -> Source:
    """The model at a path.

    Raises:
        DataError: nothing there, or a folder without config or weights.
    """
    if path.is_file():
        if path.suffix.lower() != ".gguf":
            raise DataError(f"{str(path)!r} is no model: give its folder, or a .gguf file")
        return Source(path.parent, path.name)
    if not path.is_dir():
        raise DataError(
            f"there is no model folder or .gguf file {str(path)!r}; nothing is fetched from a network: "
            "download it first"
        )
    source = Source(path, "")
    if not (path / "config.json").exists():
        inside = sorted(file.name for file in path.glob("*.gguf"))
        hint = f"give the file {str(path / inside[0])!r}" if inside else "a model folder holds config.json and weights"
        raise DataError(f"{str(path)!r} has no config.json: {hint}")
    try:
        json.loads((path / "config.json").read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{str(path / 'config.json')!r} is no JSON: {error}") from error
    if not source.weights:
        raise DataError(f"{str(path)!r} holds no weights (model.safetensors): download the whole model")
    return source


def trained_length(config: Any) -> int:
    """The longest length in training, as far as a config says it.

    Raises:
        InvalidArgument: it does not say so.
    """
    parameters: Any = getattr(config, "rope_parameters", None) or {}
    original = parameters.get("original_max_position_embeddings") if isinstance(parameters, Mapping) else None
    length = original or getattr(config, "max_position_embeddings", None)
    if not isinstance(length, int) or length < 1:
        raise InvalidArgument("the config does not say to which length the model was trained: give it with --trained")
    return length


@contextmanager
def told(source: Source, what: str = "a causal language model") -> Generator[None]:
    """Errors of `transformers` in one line, and its talk of progress left out."""
    from transformers.utils import logging as talk

    shown, bars = talk.get_verbosity(), talk.is_progress_bar_enabled()
    talk.set_verbosity(logging.ERROR)
    talk.disable_progress_bar()
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # bars that no setting turns off
            yield
    except LengthwiseError:
        raise
    except ImportError as error:
        first = str(error).strip().splitlines()[0]
        raise InvalidArgument(
            f"reading {source.name} needs a package: {first} (pip install 'lengthwise[hf]')"
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError, TypeError, AttributeError) as error:
        lines = [line.strip() for line in (str(error).strip() or type(error).__name__).splitlines()]
        several = lines[0].endswith(":") and len(lines) > 1  # a list of what may be wrong follows
        first = f"{lines[0]} {lines[1]}" if several else lines[0]
        raise DataError(f"transformers can't read {what} from {source.name}: {first}") from error
    finally:
        talk.set_verbosity(shown)
        if bars:
            talk.enable_progress_bar()
