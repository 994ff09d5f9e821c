"""Encodings by name: one line registers one, a Python entry point adds those of other packages."""

from __future__ import annotations

from torch import nn

from lengthwise.registry import Registry

encodings: Registry[type[nn.Module]] = Registry("encoding", "lengthwise.encodings")


def example(name: str) -> str:
    """A spec that builds the encoding of this name from a model's sizes alone: one that wraps another says which."""
    return str(getattr(encodings[name], "example", name))
