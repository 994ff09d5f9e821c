"""Ways past the trained length: methods, one family a file, and `extend`, which applies one to an encoding.

Every module of this package is imported, and each class it registers is a name of the package: a new method is one
file.
"""

from __future__ import annotations

import importlib
import pkgutil

from lengthwise.extension.extend import applies as applies
from lengthwise.extension.extend import extend as extend
from lengthwise.extension.extended import Extended as Extended
from lengthwise.extension.keys import move_keys as move_keys
from lengthwise.extension.method import Branch as Branch
from lengthwise.extension.method import Method as Method
from lengthwise.extension.pairs import effective_distance as effective_distance
from lengthwise.extension.registry import extensions as extensions

for _module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
    importlib.import_module(f"{__name__}.{_module}")

_classes = {made.__name__: made for _, made in extensions.own_items() if made.__module__.startswith(f"{__name__}.")}
globals().update(_classes)
globals()["__all__"] = [
    "Branch",
    "Extended",
    "Method",
    "applies",
    "effective_distance",
    "extend",
    "extensions",
    "move_keys",
    *sorted(_classes),
]
