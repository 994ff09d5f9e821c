"""What is wrong within one dictionary of rope settings; each check is a function that yields findings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from lengthwise.errors import nearest
from lengthwise.hf.rope_settings import SYNONYMS, Finding, Rope, number_of

_RATIO = 0.01
"""How far a factor may be from the ratio of the lengths: lengths are rounded to whole tokens."""


KEYS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "default": ((), ()),
    "linear": (("factor",), ()),
    "dynamic": (("factor",), ("alpha",)),
    "yarn": (("factor",), ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")),
    "longrope": (("short_factor", "long_factor"), ("factor", "attention_factor", "short_mscale", "long_mscale")),
    "llama3": (("factor", "low_freq_factor", "high_freq_factor"), ()),
    "proportional": ((), ("factor",)),
}
"""For each rope type the keys that it needs and the others that it reads, beside those of all types."""

_OF_ALL = (
    *("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved"),
    *("original_max_position_embeddings", "max_position_embeddings", "finetuned", "llama_4_scaling_beta"),
)
_FROM_LENGTH = ("yarn", "longrope", "llama3")


def check_type(rope: Rope) -> Iterator[Finding]:
    """Whether the settings name one type that there is."""
    new, old = rope.settings.get("rope_type"), rope.settings.get("type")
    if new is not None and old is not None and SYNONYMS.get(new, new) != SYNONYMS.get(old, old):
        yield Finding(
            "two-types",
            "error",
            f"{rope.where} has rope_type {new!r} and type {old!r}",
            "keep rope_type, as it is read",
        )
    if rope.kind not in KEYS and rope.kind != "axial":
        yield Finding(
            "unknown-type",
            "error",
            f"{rope.where} has the rope_type {rope.kind!r}, which transformers 5.24 does not have: "
            f"{nearest(rope.kind, KEYS)}",
            "correct it; an unknown type is only logged until the model is built",
        )
    scales = [key for key in ("factor", "short_factor", "long_factor", "beta_fast") if key in rope.settings]
    if rope.kind == "default" and scales:
        said = "and no rope_type" if new is None and old is None else "and the rope_type 'default'"
        yield Finding(
            "scaling-without-type",
            "error",
            f"{rope.where} has {', '.join(scales)} {said}: nothing is scaled",
            "name the method in rope_type",
        )


def _keys(rope: Rope) -> Iterator[Finding]:
    needed, others = KEYS[rope.kind]
    if rope.kind == "default" and any(key in rope.settings for key in ("factor", "short_factor", "beta_fast")):
        return
    implied = {"factor"} if rope.kind == "yarn" and rope.stretch is not None else set[str]()
    implied |= {"factor"} if rope.settings.get("alpha") is not None else set[str]()
    for key in needed:
        if rope.settings.get(key) is None and key not in implied:
            yield Finding(
                "missing-key",
                "error",
                f"{rope.where} of type {rope.kind!r} has no {key}",
                f"give {key} as trained with",
            )
    allowed = (*_OF_ALL, *needed, *others)
    for key in rope.settings:
        if key not in allowed:
            yield Finding(
                "unknown-key",
                "warning",
                f"{rope.where} of type {rope.kind!r} does not read {key!r}: {nearest(key, allowed)}",
                "correct or remove it: transformers only log it",
            )
    if rope.kind == "dynamic" and rope.settings.get("original_max_position_embeddings") not in (None, rope.longest):
        yield Finding(
            "original-not-read",
            "warning",
            f"{rope.where} of type 'dynamic' goes by max_position_embeddings, {rope.longest:g}: its "
            "original_max_position_embeddings is not read"
            if rope.longest
            else f"{rope.where} of type 'dynamic' does not read original_max_position_embeddings",
            "set max_position_embeddings to the trained length, as this method wants it",
        )
    if rope.nested and rope.kind == "yarn" and rope.settings.get("truncate") is False:
        yield Finding(
            "truncate-not-read",
            "warning",
            f"transformers 5.24 do not read truncate in {rope.where}, where settings stand by layer type",
            "compare the frequencies with those of training",
        )


def _factor(rope: Rope) -> Iterator[Finding]:
    given = rope.settings.get("factor")
    if given is not None and rope.number("factor") is None:
        yield Finding("not-a-number", "error", f"{rope.where}.factor is {given!r}, and must be a number", "correct it")
        return
    stretch = rope.stretch
    if stretch is not None and not 1 <= stretch < math.inf:
        yield Finding(
            "factor-below-1",
            "error",
            f"the factor of {rope.where} is {stretch:g}: below 1 it makes distances larger, not smaller",
            "a factor is the target length divided by the trained length",
        )
        return
    if rope.kind != "yarn" or given is None or rope.longest is None or rope.starts_at is None:
        return
    ratio, factor = rope.longest / rope.starts_at, float(given)
    if ratio < 1 or abs(ratio / factor - 1) <= _RATIO:  # below 1 it is the length that is wrong
        return
    if ratio == 1:  # Qwen advises this form
        yield Finding(
            "length-not-raised",
            "note",
            f"{rope.where} stretches by {factor:g}, and max_position_embeddings is still the trained length, "
            f"{rope.longest:g}",
            "programs that stop at max_position_embeddings need it set to the target length",
        )
        return
    yield Finding(
        "factor-not-ratio",
        "warning",
        f"the factor of {rope.where} is {factor:g}, and max_position_embeddings / original_max_position_embeddings is "
        f"{rope.longest:g} / {rope.starts_at:g} = {ratio:g}",
        "set the three so that factor = max / original",
    )


def _lengths(rope: Rope) -> Iterator[Finding]:
    if rope.kind not in _FROM_LENGTH:
        return
    inner = rope.number("original_max_position_embeddings")
    if rope.original is not None and inner is not None and rope.original != inner:
        yield Finding(
            "two-originals",
            "error",
            f"original_max_position_embeddings is {rope.original:g} in the config and {inner:g} in {rope.where}; "
            "the one in the config is read",
            "keep one of them",
        )
    start = rope.starts_at
    if start is None:
        yield Finding(
            "original-missing",
            "warning",
            f"{rope.where} of type {rope.kind!r} has no original_max_position_embeddings, so that "
            "max_position_embeddings is taken for the trained length",
            "give the length that the model was trained with before it was stretched",
        )
    elif start <= 0 or (rope.longest is not None and start > rope.longest):
        yield Finding(
            "original-above-max",
            "error",
            f"original_max_position_embeddings is {start:g} and max_position_embeddings {rope.longest}: the trained "
            "length is above the length that it was stretched to",
            "set max_position_embeddings to the target length",
        )


def _order(rope: Rope) -> Iterator[Finding]:
    # transformers take 0 for unset; see the table of types
    fast, slow = rope.number("beta_fast") or 32.0, rope.number("beta_slow") or 1.0
    if rope.kind == "yarn" and not fast > slow > 0:
        yield Finding(
            "beta-order",
            "error",
            f"beta_fast is {fast:g} and beta_slow {slow:g} in {rope.where}: they count turns within the trained "
            "length, and pairs with more than beta_fast of them are left alone",
            "beta_fast is the larger one: 32 and 1 in the paper",
        )
    low, high = rope.number("low_freq_factor"), rope.number("high_freq_factor")
    if rope.kind == "llama3" and low is not None and high is not None and not high > low > 0:
        yield Finding(
            "frequency-order",
            "error",
            f"low_freq_factor is {low:g} and high_freq_factor {high:g} in {rope.where}: the ramp between them has no "
            "width",
            "high_freq_factor is the larger one: 4 and 1 in Llama 3.1",
        )


def _attention_factor(rope: Rope) -> Iterator[Finding]:
    if rope.kind not in ("yarn", "longrope"):
        return
    one, all_dims = rope.number("mscale"), rope.number("mscale_all_dim")
    if rope.kind == "yarn" and bool(one) != bool(all_dims):
        given, other = ("mscale", "mscale_all_dim") if one else ("mscale_all_dim", "mscale")
        yield Finding(
            "mscale-alone",
            "warning",
            f"{rope.where} has {given} and no {other}: transformers read both or none, and take 0.1 ln(factor) + 1",
            f"give {other} too, or attention_factor",
        )
    given = rope.settings.get("attention_factor")
    if given is None:
        return
    number = rope.number("attention_factor")
    if number is None or not 0 < number < math.inf:
        yield Finding(
            "attention-factor-range",
            "error",
            f"{rope.where}.attention_factor is {given!r}, and must be a number above 0",
            "remove it, and the one of the method is taken",
        )
        return
    implied = implied_attention_factor(rope)
    if implied is not None and abs(number / implied - 1) > _RATIO:
        yield Finding(
            "attention-factor-differs",
            "warning",
            f"{rope.where}.attention_factor is {number:g}, and the settings of {rope.kind!r} imply {implied:.6g}: "
            f"logits are {(number / implied) ** 2:.3g} times as large",
            "remove it, unless the model was trained with it",
        )


def implied_attention_factor(rope: Rope) -> float | None:
    """What cosines and sines are multiplied by where `attention_factor` is not given; None where that is not known."""
    stretch = rope.stretch
    if stretch is None or not 1 <= stretch < math.inf:
        return None
    if rope.kind == "longrope":
        start = rope.starts_at or rope.longest
        return math.sqrt(1 + math.log(stretch) / math.log(start)) if start and start > 1 else None

    def grown(scale: float) -> float:
        return 0.1 * scale * math.log(stretch) + 1

    one, all_dims = rope.number("mscale"), rope.number("mscale_all_dim")
    return grown(one) / grown(all_dims) if one and all_dims else grown(1.0)


def _lists(rope: Rope) -> Iterator[Finding]:
    for key in ("short_factor", "long_factor") if rope.kind == "longrope" else ():
        given = rope.settings.get(key)
        if given is None:
            continue
        if not isinstance(given, Sequence) or isinstance(given, str) or any(number_of(one) is None for one in given):
            yield Finding("longrope-list", "error", f"{rope.where}.{key} is no list of numbers", "one for each pair")
            continue
        if rope.pairs is not None and len(given) != rope.pairs:
            yield Finding(
                "longrope-list",
                "error",
                f"{rope.where}.{key} has {len(given)} numbers, and {rope.pairs} pairs of dims are rotated",
                "one for each pair; the list may be of another model",
            )
        below = [one for one in given if not 1 <= float(one) < math.inf]
        if below:
            yield Finding(
                "longrope-below-1",
                "warning" if min(map(float, below)) > 0 else "error",
                f"{rope.where}.{key} has {len(below)} numbers below 1, the least {min(map(float, below)):g}: "
                "they make frequencies higher than in training",
                "numbers are divisors of the frequencies, 1 or more",
            )


CHECKS: tuple[Callable[[Rope], Iterator[Finding]], ...] = (
    _keys,
    _factor,
    _lengths,
    _order,
    _attention_factor,
    _lists,
)
