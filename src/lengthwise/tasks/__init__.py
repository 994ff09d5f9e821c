"""Tasks: sequences with known answers at any length. The package imports all its modules: a new task is one file.

Example:
    >>> from lengthwise.tasks import build_task
    >>> build_task("sort").solve("c a b")
    'a b c'
"""

from __future__ import annotations

import importlib
import pkgutil

from lengthwise.tasks.task import Dataset, Examples, SymbolTask, Task, build_task, check_length, datasets, tasks

__all__ = ["Dataset", "Examples", "SymbolTask", "Task", "build_task", "check_length", "datasets", "tasks"]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
