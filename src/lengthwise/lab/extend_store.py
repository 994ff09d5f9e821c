"""What extensions of trained models scored: one small JSON file, written whole after each method."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lengthwise.errors import StorageError
from lengthwise.files import write_whole

FORMAT = 1
UNTOUCHED = "untouched"


@dataclass(frozen=True)
class Key:
    """What was measured.

    Args:
        run: address of the trained model's experiment.
        method: spec of the method with all its settings, or `"untouched"`.
        length: tested.
        examples: what else the tested examples depend on; empty where nothing else.
    """

    run: str
    method: str
    length: int
    examples: str = ""


@dataclass(frozen=True)
class Measured:
    """Scores of one model by one method at one length.

    Args:
        scores: one value a metric.
        untrained: whether the model reads rows of a learned table that training did not reach.
    """

    scores: dict[str, float]
    untrained: bool = False


class Measurements:
    """All that was measured, in a file.

    Args:
        path: of the file; read where it is there.

    Raises:
        StorageError: it can't be read, or holds something else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[Key, Measured] = _read(path) if path.exists() else {}

    def write(self, more: dict[Key, Measured]) -> None:
        """Add some, and write all.

        Raises:
            StorageError: the file can't be written.
        """
        self.found |= more
        rows = [asdict(key) | asdict(value) for key, value in self.found.items()]
        text = ",\n".join(json.dumps(row) for row in rows)
        write_whole(self.path, f'{{"format": {FORMAT}, "measured": [\n{text}\n]}}\n'.encode())


def _read(path: Path) -> dict[Key, Measured]:
    try:
        data: dict[str, Any] = json.loads(path.read_text())
        if data["format"] != FORMAT:
            raise StorageError(f"{path} is of another format than {FORMAT}: delete it, or name another with --results")
        return {
            Key(row["run"], row["method"], int(row["length"]), row["examples"]): Measured(
                {name: float(value) for name, value in row["scores"].items()}, bool(row["untrained"])
            )
            for row in data["measured"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StorageError(
            f"{path} holds no measurements of extensions ({type(error).__name__}: {error}): delete it, or name another "
            "file with --results"
        ) from error
