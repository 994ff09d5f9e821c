"""Write `encodings/__init__.pyi` from the registry; with `--check`, only say whether it is up to date."""

import sys
from pathlib import Path

import lengthwise.encodings.registry as registry

HEAD = '''"""Written by `make stubs` from the registry of encodings; do not edit."""

from collections.abc import Callable as Callable
from typing import TypeVar as _TypeVar

'''
TAIL = """
_Encoding = _TypeVar("_Encoding")

def register(name: str) -> Callable[[_Encoding], _Encoding]: ...
"""


def stub() -> str:
    """The text of the stub."""
    names = [(made.__module__, made.__name__) for _, made in registry.encodings.own_items()]
    names.append((registry.__name__, "encodings"))
    lines = [f"from {module} import {name} as {name}\n" for module, name in sorted(names)]
    classes = "".join(f'    "{name}",\n' for name in sorted(name for _, name in names[:-1]))
    return HEAD + "".join(lines) + f"\n__all__ = [\n{classes}]\n" + TAIL


if __name__ == "__main__":
    path = Path(registry.__file__).with_name("__init__.pyi")
    if "--check" in sys.argv:
        if not path.exists() or path.read_text() != stub():
            sys.exit(f"{path.name} is out of date: run `make stubs`")
    else:
        path.write_text(stub())
