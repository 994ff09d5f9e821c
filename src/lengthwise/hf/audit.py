"""`audit`: what a model knows of positions, what is wrong in its settings, and what a longer context does to it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from lengthwise.compose import PerLayer
from lengthwise.errors import InvalidArgument, LengthwiseError
from lengthwise.hf import frequencies, hazards, verdicts
from lengthwise.hf.checks import check_config
from lengthwise.hf.config import encoding_from_config
from lengthwise.hf.frequencies import Pair
from lengthwise.hf.loading import load_model, read_config
from lengthwise.hf.measured import Measurement, measure
from lengthwise.hf.rope import ConfigNote
from lengthwise.hf.rope_settings import LEVELS, Finding, number_of, ropes, text_part
from lengthwise.hf.sizes import lookup


@dataclass(frozen=True, eq=False)
class Used:
    """An encoding, the layers that have it, and its pairs of dims."""

    encoding: nn.Module
    layers: tuple[int, ...]
    pairs: tuple[Pair, ...]


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; printing it gives the report.

    Args:
        name: of the model.
        model_type: its architecture, as its config says it.
        dtype: of its weights, None where nothing says it.
        trained: length that it was trained with, None where nothing says it.
        stated: length that its config promises.
        target: length that was asked for; the stated one where none was.
        used: its encodings.
        findings: errors first.
        measured: what was measured on it.
        skipped: why nothing was measured, where nothing was.
        advice: what to do for the target length.
    """

    name: str
    model_type: str | None
    dtype: str | None
    trained: int | None
    stated: int | None
    target: int | None
    used: tuple[Used, ...]
    findings: tuple[Finding, ...]
    measured: tuple[Measurement, ...]
    skipped: str
    advice: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is neither an error nor a warning."""
        return all(one.level == "note" for one in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """For JSON, with keys that stay the same between releases."""
        return {
            "model": self.name,
            "model_type": self.model_type,
            "dtype": self.dtype,
            "trained_length": self.trained,
            "stated_length": self.stated,
            "target_length": self.target,
            "ok": self.ok,
            "encodings": [
                {
                    "encoding": " ".join(repr(one.encoding).split()),
                    "layers": list(one.layers),
                    "pairs": [pair.as_dict() for pair in one.pairs],
                }
                for one in self.used
            ],
            "findings": [vars(one) for one in self.findings],
            "measured": [one.as_dict() for one in self.measured],
            "skipped": self.skipped or None,
            "advice": list(self.advice),
        }

    def __str__(self) -> str:
        return verdicts.text(self)


def audit(source: Any, *, to: int | None = None, measured: bool = True) -> Audit:
    """Audit the positions of a model: its settings, its frequencies, its dtype, and what it computes.

    Args:
        source: a model of `transformers`, a folder or `.gguf` file of one, or its config alone: `config.json`, a folder
            without weights, a dict or a config of `transformers`. Nothing is fetched.
        to: the length that it is to be used at; None: the one that its config states.
        measured: whether a model is loaded and asked; a config alone can't be.

    Raises:
        DataError: a file that can't be read.
        InvalidArgument: something else, or a length below 1.

    Example:
        >>> report = audit({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4, "rope_theta": 1e4,
        ...     "max_position_embeddings": 4096, "rope_scaling": {"rope_type": "yarn", "factor": 8.0,
        ...     "original_max_position_embeddings": 1024}})
        >>> [finding.code for finding in report.findings]
        ['factor-not-ratio']
    """
    if to is not None and to < 1:
        raise InvalidArgument(f"to is a number of tokens, at least 1, not {to}")
    config = text_part(read_config(source))
    findings = check_config(config)
    model, skipped = _model(source, measured, findings)
    encoding = _encoding(source if model is None else model.config, config, findings)
    dtype = _dtype(config) if model is None else str(model.dtype).removeprefix("torch.")
    trained, stated = _lengths(config)
    target = to or stated or trained
    used = () if encoding is None else _used(encoding, trained, target)
    found_in: tuple[Measurement, ...] = ()
    for one in used:
        if target is not None:
            findings += hazards.of_dtype(one.encoding, dtype, target, config.get("model_type"))
        if trained is not None and model is not None:
            findings += hazards.of_model(model, one.encoding, trained)
    if model is not None:
        turning = any(one.pairs for one in used)
        found_in = tuple(measure(model, trained if turning else None))
        findings += verdicts.of_measured(found_in)
    findings = sorted(dict.fromkeys(findings), key=lambda one: LEVELS.index(one.level))
    return Audit(
        _name(source),
        config.get("model_type"),
        dtype,
        trained,
        stated,
        target,
        used,
        tuple(findings),
        found_in,
        skipped,
        tuple(verdicts.advice(used, trained, target)),
    )


def _model(source: Any, measured: bool, findings: list[Finding]) -> tuple[Any, str]:
    if isinstance(source, nn.Module):
        return (source, "") if measured else (None, "it was not asked for")
    if not measured:
        return None, "it was not asked for"
    if not isinstance(source, str | Path):
        return None, "this is a config without weights"
    path = Path(source).expanduser()
    if path.is_file() and path.suffix == ".json":
        return None, "this is a config without weights"
    if path.is_dir() and not any(path.glob("*.safetensors")) and not any(path.glob("*.bin")):
        return None, "the folder has a config and no weights"
    try:
        return load_model(path), ""
    except LengthwiseError as error:
        findings.append(Finding("not-loaded", "error", str(error), "see the message; the config was audited alone"))
        return None, "the model could not be loaded"


def _encoding(full: Any, written: Mapping[str, Any], findings: list[Finding]) -> nn.Module | None:
    """The encoding of a config with what its class fills in, where that can be had, else of what was written."""
    broken = any(one.level == "error" for one in findings)
    tries = [full, written] if isinstance(full, str | Path) and Path(full).is_dir() else [full]
    tries = [written] if isinstance(full, str | Path) and not Path(full).is_dir() else tries
    both = {"bidirectional": False} if written.get("model_type") in ("t5", "mt5", "umt5") else {}
    error: Exception | None = None
    for one in tries:
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                encoding = encoding_from_config(one, **both)
            findings += [
                Finding("taken-for-granted", "note", str(note.message), "say it in the config")
                for note in told
                if issubclass(note.category, ConfigNote)
            ]
            return encoding
        except (LengthwiseError, KeyError, TypeError, ValueError) as reason:
            error = reason
    if not broken:
        findings.append(
            Finding("encoding-unknown", "warning", f"no encoding can be built from this config: {error}", "see above")
        )
    return None


def _used(encoding: nn.Module, trained: int | None, target: int | None) -> tuple[Used, ...]:
    if not isinstance(encoding, PerLayer):
        return (Used(encoding, (), _pairs(encoding, trained, target)),)
    layers: dict[int, list[int]] = {}
    for layer, at in enumerate(encoding.of_layer):
        layers.setdefault(at, []).append(layer)
    return tuple(
        Used(encoding[some[0]], tuple(some), _pairs(encoding[some[0]], trained, target)) for some in layers.values()
    )


def _pairs(encoding: nn.Module, trained: int | None, target: int | None) -> tuple[Pair, ...]:
    return () if trained is None or target is None else tuple(frequencies.pairs(encoding, trained, target))


def _lengths(config: Mapping[str, Any]) -> tuple[int | None, int | None]:
    stated = number_of(lookup(config, "max_length"))
    starts = [rope.starts_at for rope in ropes(config) if rope.starts_at is not None]
    trained = min(starts) if starts else number_of(config.get("original_max_position_embeddings")) or stated
    return (int(trained) if trained else None), (int(stated) if stated else None)


def _dtype(config: Mapping[str, Any]) -> str | None:
    found = config.get("dtype") or config.get("torch_dtype")
    return None if found is None else str(found).removeprefix("torch.")


def _name(source: Any) -> str:
    if isinstance(source, str | Path):
        path = Path(source).expanduser().resolve()
        return path.parent.name if path.name == "config.json" else path.name
    return "config" if isinstance(source, Mapping) else type(source).__name__  # pyright: ignore[reportUnknownArgumentType]
