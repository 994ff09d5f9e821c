"""What a stretch measures: lengths, windows of text, passkeys; checked before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass

from lengthwise.errors import InvalidArgument
from lengthwise.hf.stretch.passkey import NAMES
from lengthwise.hf.stretch.perplexity import BLOCK


@dataclass(frozen=True)
class Plan:
    """The settings of a stretch.

    Args:
        trained: longest length in training.
        target: length to stretch to.
        lengths: ends of the ranges of positions that are told apart; holds `trained` and `target`.
        windows: texts of `target` tokens.
        keys: passkeys in each text; 0 leaves retrieval out.
        haystacks: texts with passkeys at each length.
        race: whether a method that is clearly worse than the best is measured on no further windows.
    """

    trained: int
    target: int
    lengths: tuple[int, ...]
    windows: int = 4
    keys: int = 16
    haystacks: int = 1
    race: bool = True

    @property
    def factor(self) -> float:
        """Target over trained length."""
        return self.target / self.trained

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Ranges of positions, each up to one of the lengths."""
        return tuple(zip((0, *self.lengths[:-1]), self.lengths, strict=True))


def plan(
    trained: int,
    target: int,
    lengths: tuple[int, ...] = (),
    *,
    windows: int = 4,
    keys: int = 16,
    haystacks: int = 1,
    race: bool = True,
) -> Plan:
    """A checked plan; lengths that are not given are half the trained one, and from it on to the target.

    Raises:
        InvalidArgument: a target that is not longer than the trained length, lengths that are no multiples of the
            block of stored losses or lie past the target, too few windows, too many passkeys.
    """
    if target <= trained:
        raise InvalidArgument(
            f"the model was trained to {trained} tokens, and --to {target} is no longer: give more, for example "
            f"--to {2 * trained}"
        )
    for length in (trained, target, *lengths):
        if length < 1 or length % BLOCK:
            near = max(1, round(length / BLOCK)) * BLOCK
            raise InvalidArgument(f"lengths are multiples of {BLOCK} tokens, and {length} is not: use {near}")
        if length > target:
            raise InvalidArgument(f"the length {length} lies past --to {target}: leave it out, or stretch further")
    for name, value, least, most in (
        ("windows", windows, 1, 1000),
        ("keys", keys, 0, len(NAMES)),
        ("haystacks", haystacks, 1, windows),
    ):
        if not least <= value <= most:
            raise InvalidArgument(f"--{name} must be {least} to {most}, not {value}")
    chosen = lengths or _between(trained, target)
    return Plan(trained, target, tuple(sorted({*chosen, trained, target})), windows, keys, haystacks, race)


def _between(trained: int, target: int) -> tuple[int, ...]:
    half = trained // 2 // BLOCK * BLOCK
    found = [half] if half else []
    if target <= 2 * trained:
        middle = (trained + target) // 2 // BLOCK * BLOCK
        return (*found, middle) if trained < middle < target else tuple(found)
    length = 2 * trained
    while length < target:
        found.append(length)
        length *= 2
    return tuple(found)
