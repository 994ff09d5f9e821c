"""Positional encodings, one a file.

Every module of this package is imported, and each class it registers is a name of the package: a new encoding is one
file. `__init__.pyi` lists the same names for type checkers and editors; `make stubs` writes it.
"""

from __future__ import annotations

import importlib
import pkgutil

from lengthwise.encodings.registry import encodings

register = encodings.register

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

_classes = {made.__name__: made for _, made in encodings.own_items() if made.__module__.startswith(f"{__name__}.")}
globals().update(_classes)
globals()["__all__"] = sorted(_classes)
