"""Settings with which each extension method reaches a target length from a trained one.

    factor = target / trained,   original_length = trained,   windows and chunks are parts of the trained length

Lengths are in tokens of a whole example. A model reads all of them but the last, so that its positions in training are
0 to trained - 2, and a table has trained - 1 trained rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from types import MappingProxyType
from typing import Any

from lengthwise.errors import InvalidArgument
from lengthwise.extension import (
    ByQuery,
    ChangeBase,
    Clamp,
    ConstantTemperature,
    DualChunk,
    DynamicNTK,
    DynamicYaRN,
    Extrapolate,
    LMInfinite,
    LongRoPE,
    Method,
    Proportional,
    ReRoPE,
    Resample,
    SelfExtend,
    StreamingLLM,
    extensions,
)

SINKS = 4


@dataclass(frozen=True)
class Reach:
    """From which length to which, in tokens, and the base of the frequencies, where there are any."""

    trained: int
    target: int
    base: float = 10000.0

    @property
    def factor(self) -> float:
        """Target over trained, never rounded down."""
        return max(1.0, math.ceil(self.target / self.trained * 1e4) / 1e4)

    @property
    def positions(self) -> int:
        """Positions met in training."""
        return max(1, self.trained - 1)

    @property
    def rows(self) -> int:
        """Positions that a table must have."""
        return max(self.positions, self.target - 1)

    @property
    def window(self) -> int:
        """Half the trained length: distances that are left as they are."""
        return max(1, self.trained // 2)

    @property
    def far(self) -> int:
        """The largest distance met in training."""
        return max(1, self.trained - 2)

    @property
    def group(self) -> int:
        """How many tokens beyond the window count as one, so that no distance is new."""
        return max(1, math.ceil((self.target - self.window) / max(1, self.far - self.window)))

    @property
    def sinks(self) -> int:
        """First tokens that stay in sight: four, fewer where little was trained."""
        return min(SINKS, max(1, self.positions // 4))


Settings = Callable[[Reach], Method]

_SETTINGS: Mapping[type[Method], Settings] = MappingProxyType(
    {
        Clamp: lambda to: Clamp(length=to.positions),
        ConstantTemperature: lambda to: ConstantTemperature(factor=round((1 + 0.1 * math.log(to.factor)) ** 2, 4)),
        ChangeBase: lambda to: ChangeBase(base=to.base * to.factor),
        Proportional: lambda _: Proportional(fraction=0.75),
        LongRoPE: lambda to: LongRoPE(1.0, to.factor, original_length=to.trained, factor=to.factor),
        DynamicNTK: lambda to: DynamicNTK(factor=1.0, original_length=to.trained),
        ByQuery: lambda to: ByQuery(DynamicYaRN(original_length=to.trained), block=max(1, to.trained // 4)),
        SelfExtend: lambda to: SelfExtend(group=_group(to), window=to.window),
        ReRoPE: lambda to: ReRoPE(window=to.window),
        DualChunk: lambda to: DualChunk(chunk=max(1, 3 * to.trained // 4), local=to.trained // 8),
        StreamingLLM: lambda to: StreamingLLM(sinks=to.sinks, recent=max(1, to.positions - to.sinks)),
        LMInfinite: lambda to: LMInfinite(sinks=to.sinks, local=to.far),
        Resample: lambda to: Resample(length=to.rows),
        Extrapolate: lambda to: Extrapolate(length=to.rows),
    }
)
# Kinds whose settings are a choice among several forms, and not a matter of lengths alone.
_FORMS: Mapping[type[Method], tuple[Settings, ...]] = MappingProxyType(
    {
        ReRoPE: (lambda to: ReRoPE(window=to.window, leak=_group(to)),),
        Resample: (lambda to: Resample(length=to.rows, kind="cubic"),),
        Extrapolate: (
            lambda to: Extrapolate(length=to.rows, fit="last"),
            lambda to: Extrapolate(length=to.rows, fit="fourier"),
            lambda to: Extrapolate(length=to.rows, fit="gaussian"),
        ),
        ByQuery: (lambda to: ByQuery(DynamicNTK(1.0, original_length=to.trained), block=max(1, to.trained // 4)),),
    }
)


def for_lengths(kind: type[Method], trained: int, target: int, *, base: float = 10000.0) -> Method | None:
    """A method of a kind with settings that reach `target` from `trained`; None where lengths do not decide them.

    None is the answer for what acts in training only (`pose`, `randomize`, `ssmax`) and for tables of images. A kind
    of another package is built where it asks for nothing but `factor` and `original_length`.

    Args:
        kind: a registered kind.
        trained: tokens of the longest example in training.
        target: tokens of the longest example to come; below `trained` it counts as that.
        base: of the encoding's frequencies.

    Raises:
        InvalidArgument: lengths below 1.

    Example:
        >>> import lengthwise as lw
        >>> for_lengths(lw.NTK, trained=128, target=1024)
        NTK(factor=8.0, variant='base')
    """
    to = _reach(trained, target, base)
    if kind in _SETTINGS:
        return _SETTINGS[kind](to)
    known = {"factor": to.factor, "original_length": trained}
    needed = {field.name for field in fields(kind) if field.default is MISSING and field.default_factory is MISSING}
    return kind(**{name: known[name] for name in needed}) if needed <= known.keys() else None


def forms(kind: type[Method], trained: int, target: int, *, base: float = 10000.0) -> list[Method]:
    """All forms of a kind that are worth a try, that of `for_lengths` first; none where it has none."""
    first = for_lengths(kind, trained, target, base=base)
    others = _FORMS.get(kind, ())
    return [] if first is None else [first, *(form(_reach(trained, target, base)) for form in others)]


def spec_of(method: Method, leave_out: tuple[str, ...] = ()) -> str:
    """A method as a spec string, settings that differ from their defaults alone.

    Example:
        >>> import lengthwise as lw
        >>> spec_of(lw.YaRN(8.0, original_length=128)), spec_of(lw.YaRN(8.0, 128), leave_out=("original_length",))
        ('yarn(factor=8, original_length=128)', 'yarn(factor=8)')
    """
    name = next((name for name, kind in extensions.items() if kind is type(method)), type(method).__name__)
    given = [
        f"{field.name}={_text(getattr(method, field.name), leave_out)}"
        for field in fields(method)
        if field.name not in leave_out and getattr(method, field.name) != field.default
    ]
    return f"{name}({', '.join(given)})" if given else name


def _text(value: Any, leave_out: tuple[str, ...]) -> str:
    if isinstance(value, Method):
        return spec_of(value, leave_out)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


def _group(to: Reach) -> int:
    return 1 if to.target <= to.trained else to.group


def _reach(trained: int, target: int, base: float) -> Reach:
    if trained < 1 or target < 1:
        raise InvalidArgument(f"lengths are at least 1 token, not trained={trained} and target={target}")
    return Reach(trained, max(trained, target), base)
