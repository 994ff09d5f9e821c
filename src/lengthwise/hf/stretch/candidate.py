"""The methods to try: from specs to encodings of the model."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from lengthwise.build import build_method
from lengthwise.compose import Combined, PerLayer
from lengthwise.dims import Dims
from lengthwise.errors import InvalidArgument, SpecError
from lengthwise.extension import Method, extend
from lengthwise.spec import parse

UNTOUCHED = "untouched"


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to stretch a model.

    Args:
        label: its spec, or `"untouched"`.
        encoding: the model's encoding after the method.
        follows_length: whether its frequencies follow the length, so that each length needs a pass of its own.
    """

    label: str
    encoding: nn.Module
    follows_length: bool

    def settings(self, length: int) -> dict[str, Any]:
        """What tells one pass from another; texts alike give results alike."""
        return {"encoding": repr(self.encoding)} | ({"length": length} if self.follows_length else {})


def defaults(factor: float, trained: int) -> tuple[str, ...]:
    """Ten ways to stretch a rotary model that was trained to `trained` tokens by `factor`."""
    less = f"{max(1.0, 0.875 * factor):g}"
    full = f"{factor:g}"
    near = trained // 2
    group = 2
    while near + (factor * trained - near) / group > trained:
        group *= 2
    return (
        UNTOUCHED,
        f"interpolate({full})",
        f"ntk({full})",
        f"dynamic_ntk({full})",
        f"llama3({full})",
        f"yarn({full})",
        f"yarn({less})",
        f"by_query(dynamic_yarn(), block={max(1, trained // 8)})",
        f"self_extend(group={group}, window={near})",
        f"lm_infinite(sinks=4, local={trained})",
    )


def candidates(encoding: nn.Module, specs: Sequence[str], dims: Dims) -> list[Candidate]:
    """The untouched encoding first, then each spec once.

    A spec is a method, or several joined by `+`, each of which acts on the result of the one before.

    Raises:
        SpecError, UnknownName, InvalidArgument: as `lengthwise.build` does, and as the encoding refuses.
    """
    found = {UNTOUCHED: Candidate(UNTOUCHED, encoding, follows_length(encoding))}
    for spec in (spec.strip() for spec in specs):
        if spec in found or spec == "none":
            continue
        changed = encoding
        for part in _parts(spec):
            changed = extend(changed, build_method(part, dims))
        found[spec] = Candidate(spec, changed, follows_length(changed))
    if len(found) == 1:
        raise InvalidArgument("name at least one method beside 'untouched', such as --methods 'yarn(2); ntk(2)'")
    return list(found.values())


def split(methods: Sequence[str]) -> list[str]:
    """Specs from what a user writes: several in one string are parted by `;`."""
    specs = [spec.strip() for text in methods for spec in text.split(";") if spec.strip()]
    for spec in specs:
        depth = 0
        for letter in spec:
            depth += (letter in "([{") - (letter in ")]}")
            if letter == "," and not depth:
                raise SpecError(f"{spec!r} has a comma between methods: part them by ';', 'yarn(2); ntk(2)'")
    return specs


def follows_length(encoding: nn.Module) -> bool:
    """Whether a method in an encoding follows the length of the sequence."""
    parts = encoding.parts if isinstance(encoding, Combined) else ()
    parts = encoding.distinct if isinstance(encoding, PerLayer) else parts
    methods: tuple[Method, ...] = getattr(encoding, "methods", ())
    own = any(one.cached_keys == "rotated_at_target_length" and not one.identity for one in methods)
    return own or any(map(follows_length, parts))


def same_at(changed: nn.Module, original: nn.Module, length: int) -> bool:
    """Whether a method that follows the length leaves the frequencies as they were at this one."""
    at: Any = getattr(changed, "spectrum_at", None)
    before: Any = getattr(original, "spectrum", None)
    if at is None or before is None:
        return False
    after = at(length)
    return bool(torch.equal(after.inv_freq, before.inv_freq)) and float(after.attention_factor) == float(
        before.attention_factor
    )


def _parts(spec: str) -> list[str]:
    parse(spec)  # its errors show the place
    node = ast.parse(" ".join(spec.split("\n")).strip(), mode="eval").body
    parts: list[ast.expr] = []
    while isinstance(node, ast.BinOp):
        parts.append(node.right)
        node = node.left
    return [ast.unparse(part) for part in (node, *reversed(parts))]
