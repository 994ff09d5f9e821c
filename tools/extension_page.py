"""The page of all extensions: `docs/extensions/README.md`, from the registry."""

from __future__ import annotations

import functools

from doc_parts import CACHE, DIMS, MARK, built, built_from, cell, own
from torch import nn

from lengthwise.agreement import COMPARISONS
from lengthwise.agreement.pages import names
from lengthwise.build import build_method
from lengthwise.cli.list import by_change, summary
from lengthwise.cli.show import parameters
from lengthwise.encodings.registry import example as encoding_example
from lengthwise.extension.extend import extend, refusal
from lengthwise.extension.method import Method, changes
from lengthwise.extension.registry import example, extensions
from lengthwise.sites import CLAIMS, cached_keys, claims, sites

SHOWN = ("rotary", "alibi", "learned")
"""Encodings of the examples, the first that a method takes."""
_INTRO = (
    "A method changes one part of an encoding, and what an encoding has decides which methods it can take. Examples "
    "are built with `dims = lw.Dims(dim=64, heads=4, max_length=64)`: the trained length is 64, and methods read it as "
    "their `original_length`. Claims are those that encodings make and still make after the method, as the example "
    "sets it. `lengthwise extend` measures what methods do to a trained model."
)


@functools.cache
def page() -> str:
    """The whole page in Markdown."""
    parts = ["# Extensions", MARK, _INTRO]
    for what, rows in by_change().items():
        kinds = [(name, extensions[name]) for name, *_ in rows if extensions[name].__module__.startswith("lengthwise.")]
        parts.append(f"## Changing {what}")
        parts += [_method(name, kind) for name, kind in kinds]
    parts.append("Encodings: [the list](../encodings/README.md). Other packages: [agreement](../agreement.md).")
    return "\n\n".join(parts) + "\n"


def spec(name: str) -> str:
    """An encoding with the method of this name, to be built with `DIMS`."""
    able = takers(name)
    return f"{encoding_example(next((one for one in SHOWN if one in able), able[0]))} + {example(name)}"


def takers(name: str) -> list[str]:
    """Names of the encodings that a method with the settings of its example can extend."""
    method = build_method(example(name), DIMS)
    return [one for one, encoding in _plain().items() if refusal(encoding, type(method), method) is None]


@functools.cache
def _plain() -> dict[str, nn.Module]:
    return {name: built(name) for name in own()}


def _method(name: str, kind: type[Method]) -> str:
    able = takers(name)
    shown = built_from(spec(name))
    kept, lost = _claims(name, able)
    turns = "rotation" in sites(shown) or cached_keys(shown) != "rotated"
    peers = dict.fromkeys(one.peer for one in COMPARISONS if name in names(one))
    rows = [
        ("changes", ", or ".join(changes(kind))),
        ("encodings", _listed(able)),
        ("claims kept", kept),
        *([("claims lost", lost)] if lost else []),
        *([("cache", CACHE[cached_keys(shown)])] if turns else []),
        ("parameters", f"`{parameters(kind)}`"),
        ("source", kind.paper),
        *([("beside", f"{', '.join(peers)}: [agreement](../agreement.md)")] if peers else []),
    ]
    return "\n\n".join(
        [
            f"### {name}",
            f"{summary(kind)}.",
            f"```text\n{kind.formula}\n```",
            "| | |\n|---|---|\n" + "\n".join(f"| {key} | {cell(value)} |" for key, value in rows),
            f'`lw.build("{spec(name)}", dims)`',
        ]
    )


def _claims(name: str, able: list[str]) -> tuple[str, str]:
    """Claims that results still make, and those that all or some of them no longer make."""
    method = build_method(example(name), DIMS)
    before = {one: set(claims(_plain()[one])) for one in able}
    after = {one: set(claims(extend(_plain()[one], method))) for one in able}
    kept, lost = list[str](), list[str]()
    for claim in CLAIMS:
        having = [one for one in able if claim in before[one]]
        losing = [one for one in having if claim not in after[one]]
        said = claim.replace("_", " ")
        if having and not losing:
            kept.append(said)
        elif losing:
            lost.append(said if losing == having else f"{said} ({', '.join(losing)})")
    return ", ".join(kept) or "none", ", ".join(lost)


def _listed(able: list[str]) -> str:
    others = [one for one in own() if one not in able]
    if not others:
        return "all"
    return f"all but {', '.join(others)}" if len(others) < len(able) else ", ".join(able)
