"""Write the `__init__.pyi` of encodings and extensions from their registries; with `--check`, only compare them."""

import sys
from pathlib import Path

import lengthwise.encodings.registry as encodings
import lengthwise.extension.registry as extensions

HEAD = '''"""Written by `make stubs` from the registry; do not edit."""

'''
ENCODINGS = """from collections.abc import Callable as Callable
from typing import TypeVar as _TypeVar

"""
TAIL = """
_Encoding = _TypeVar("_Encoding")

def register(name: str) -> Callable[[_Encoding], _Encoding]: ...
"""
EXTENSION = [
    ("lengthwise.extension.extend", "applies"),
    ("lengthwise.extension.extend", "extend"),
    ("lengthwise.extension.extended", "Extended"),
    ("lengthwise.extension.keys", "move_keys"),
    ("lengthwise.extension.method", "Branch"),
    ("lengthwise.extension.method", "Method"),
    ("lengthwise.extension.pairs", "effective_distance"),
    ("lengthwise.extension.registry", "extensions"),
]


def encoding_stub() -> str:
    """The text of the stub of `lengthwise.encodings`."""
    made = [(one.__module__, one.__name__) for _, one in encodings.encodings.own_items()]
    return HEAD + ENCODINGS + _names([*made, (encodings.__name__, "encodings")], public=made) + TAIL


def extension_stub() -> str:
    """The text of the stub of `lengthwise.extension`."""
    made = [(one.__module__, one.__name__) for _, one in extensions.extensions.own_items()] + EXTENSION
    return HEAD + _names(made, public=made)


def _names(names: list[tuple[str, str]], public: list[tuple[str, str]]) -> str:
    lines = [f"from {module} import {name} as {name}\n" for module, name in sorted(names)]
    listed = "".join(f'    "{name}",\n' for name in sorted(name for _, name in public))
    return "".join(lines) + f"\n__all__ = [\n{listed}]\n"


if __name__ == "__main__":
    for module, stub in ((encodings, encoding_stub()), (extensions, extension_stub())):
        path = Path(str(module.__file__)).with_name("__init__.pyi")
        if "--check" not in sys.argv:
            path.write_text(stub)
        elif not path.exists() or path.read_text() != stub:
            sys.exit(f"{path.parent.name}/{path.name} is out of date: run `make stubs`")
