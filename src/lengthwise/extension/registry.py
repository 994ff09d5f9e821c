"""Extension methods by name: one line registers one, a Python entry point adds those of other packages."""

from __future__ import annotations

from lengthwise.extension.method import Method
from lengthwise.registry import Registry

extensions: Registry[type[Method]] = Registry("extension", "lengthwise.extensions")


def example(name: str) -> str:
    """A spec of the method of this name with settings that are of use, for a model trained to 128 tokens or more."""
    return extensions[name].example
