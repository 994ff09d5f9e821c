"""The contract itself: where an encoding acts, what it says of itself, shapes, dtypes, inputs left alone."""

from __future__ import annotations

import difflib
from typing import Any

import torch
from torch import Tensor, nn

from lengthwise.attention import attention
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.prepared import prepare
from lengthwise.sites import CACHE_RULES, CLAIMS, DIRECTIONS, SITES
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import output
from lengthwise.testing.verdict import Broken, NotApplicable, agree, same

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
_HELPERS = {"map_positions", "prepare", "reset_parameters"}


@check("the encoding acts somewhere", cause="a method of another name than the contract's")
def acts_somewhere(subject: Subject) -> None:
    """A near miss of a method's name is told; and without any, nothing may be left that was meant to act."""
    own = [name for name in dir(subject.type) if not hasattr(nn.Module, name) and not name.startswith("_")]
    methods = [name for name in own if callable(getattr(subject.type, name)) and name not in _HELPERS]
    known = set(SITES.values())
    for name in methods:
        if name not in known and difflib.get_close_matches(name, known, cutoff=0.9 if subject.sites else 0.6):
            raise Broken(f"{name}() is never called: {nearest(name, known)}")
    if subject.sites:
        return
    one = subject.build()
    parts = [name for name, _ in (*one.named_parameters(), *one.named_buffers())]
    left = parts or methods or (["forward"] if subject.type.forward is not nn.Module.forward else [])
    left = left or [name for name in ("map_positions", "prepare") if hasattr(one, name)]
    if left:
        raise Broken(f"it has {left[0]!r} and none of {', '.join(known)}: it acts nowhere")


@check("what the encoding says of itself are words of the contract", cause="a misspelt claim")
def words_known(subject: Subject) -> None:
    """Claims, direction, axes, table size, cache rule and sharing."""
    one = subject.build()
    for claim in sorted(subject.claims - CLAIMS.keys()):
        raise Broken(f"claim {claim!r} is unknown: {nearest(claim, CLAIMS)}")
    for attribute, words in (("direction", DIRECTIONS), ("cached_keys", CACHE_RULES)):
        word = getattr(one, attribute, words[0])
        if word not in words:
            raise Broken(f"{attribute} is {word!r}: {nearest(str(word), words)}")
    for attribute, kind in (("axes", int), ("shared", bool), ("normalizes", bool)):
        value = getattr(one, attribute, kind(1))
        if type(value) is not kind or not value >= (attribute == "axes"):
            raise Broken(f"{attribute} is {value!r}, expected {'a whole number' if kind is int else 'True or False'}")
    if subject.max_position is not None and (type(subject.max_position) is not int or subject.max_position < 1):
        raise Broken(f"max_position is {subject.max_position!r}, expected the number of positions or None")


@check("shapes are those of the contract in every case", cause="values of key heads, or of one head, that broadcast")
def shapes_fit(subject: Subject) -> None:
    """Batch, heads, grouped-query and one key head, lengths 0 and 1."""
    dims = subject.dims
    for case in subject.cases:
        probe = Probe(subject, subject.build(), subject.heads_of_keys(case))
        positions = subject.sequence(case.length)
        x = probe.inputs(case.batch, case.length)
        prepared, hidden, _ = probe.prepare(x, positions)
        _expect("embed_positions", hidden, x.shape, case)
        q, k, v = probe.project(hidden)
        if prepared.rotation is not None:
            for name, turned, before in zip("qk", prepared.rotation(q, k), (q, k), strict=True):
                _expect(f"rotation of {name}", turned, before.shape, case)
        if prepared.bias is not None:
            values = prepared.bias.dense()
            heads = values.shape[-3] if values.dim() in (3, 4) else None
            if heads != dims.heads:
                raise Broken(
                    f"the bias is of {heads} heads, {list(values.shape)}, and there are {dims.heads} query heads "
                    f"and {probe.kv_heads} key heads: a bias belongs to query heads"
                )
            _expect("logit_bias", values, (*values.shape[:-2], case.length, case.length), case)
            if values.dim() == 4 and values.shape[0] not in (1, case.batch):
                raise Broken(f"logit_bias has {values.shape[0]} rows in {case}")
        out = attention(q, k, v, prepared, backend="reference")
        _expect("attention", out, (case.batch, dims.heads, case.length, dims.head_dim), case)
    if False in subject.ways and "hidden" not in subject.sites:
        probe, (queries, keys) = Probe(subject, subject.build()), (subject.fits(5), subject.fits(3))
        positions = subject.part(torch.arange(queries), torch.arange(keys), causal=False, ordered=True)
        q, (_, k, v) = probe.project(probe.inputs(2, queries))[0], probe.project(probe.inputs(2, keys))
        out = attention(q, k, v, prepare(probe.encoding, positions), backend="reference")
        _expect("attention to another sequence", out, (2, dims.heads, queries, dims.head_dim), f"{queries} to {keys}")


@check("results have the dtype of their inputs and are near those of float64", cause="a cast that is missing or early")
def dtypes_kept(subject: Subject) -> None:
    """In float64, float32, bfloat16 and float16, the module moved to each."""
    case = subject.cases[0]
    positions = subject.sequence(case.length)
    for dtype in DTYPES:
        exact = Probe(subject, subject.build(torch.float64, rounded=dtype), dtype=torch.float64)
        probe = Probe(subject, subject.build(dtype), dtype=dtype)
        x = probe.inputs(case.batch, case.length)
        exact.matrices = [matrix.double() for matrix in probe.matrices]
        with torch.no_grad():
            prepared, hidden, _ = probe.prepare(x, positions)
            q, k, v = probe.project(hidden)
            turned = (q, k) if prepared.rotation is None else prepared.rotation(q, k)
            for name, part in (("embed_positions", hidden), ("rotation", turned[0]), ("rotation", turned[1])):
                if part.dtype != dtype:
                    raise Broken(f"{name} of {dtype} gives {part.dtype}")
            out = attention(q, k, v, prepared, backend="reference")
            if out.dtype != dtype:
                raise Broken(f"attention in {dtype} gives {out.dtype}")
            expected = exact(x.double(), positions)
        # Positions may be float32 by contract, so float64 is held to that.
        allowed = 2 * max(output(dtype), output(torch.float32))
        agree(out, expected, allowed, f"attention in {dtype}, against float64")


@check("inputs are left as they are", cause="an operation in place on an argument")
def inputs_unchanged(subject: Subject) -> None:
    """Embeddings, queries, keys, values, all tensors of the positions."""
    case = subject.cases[0]
    probe = Probe(subject, subject.build())
    mask = torch.ones(case.batch, case.length, dtype=torch.bool)
    mask[:1, : min(2, max(case.length - 1, 0))] = False
    for positions in (subject.sequence(case.length), subject.padded(mask)):
        x = probe.inputs(case.batch, case.length)
        kept = _tensors(positions, x=x)
        before = {name: part.clone() for name, part in kept.items()}
        state = {name: part.clone() for name, part in probe.encoding.state_dict().items()}
        with torch.no_grad():
            prepared, hidden, _ = probe.prepare(x, positions)
            q, k, v = probe.project(hidden)
            mine = {"q": q, "k": k, "v": v}
            own = {name: part.clone() for name, part in mine.items()}
            attention(q, k, v, prepared, backend="reference")
        for name, part in kept.items():
            same(part, before[name], f"{name} after a call")
        for name, part in mine.items():
            same(part, own[name], f"{name} after attention")
        for name, part in probe.encoding.state_dict().items():
            same(part, state[name], f"the module's own {name} after a call")


@check(
    "embeddings that do not match their positions are refused",
    cause="positions that broadcast, or that are read without asking for their axes",
    sites=("embeddings",),
)
def mismatch_refused(subject: Subject) -> None:
    """One position for many tokens, rows of another batch, another number of axes."""
    length = subject.fits(5)
    if length < 2:
        raise NotApplicable("its table has one position")
    probe = Probe(subject, subject.build())
    x = probe.inputs(1, length)
    zeros = torch.zeros(1, length, 1 if subject.axes > 1 else 2, dtype=torch.int64)
    tokens = "positions.check_tokens(x) raises it"
    axes = f"positions.{'one_axis()' if subject.axes == 1 else f'several_axes({subject.axes})'} raises it"
    wrong = {
        f"one position for {length} tokens": (subject.sequence(1), tokens),
        "positions of 3 rows for 1": (subject.rows(subject.sequence(length), 3), tokens),
        f"positions of {zeros.shape[2]} axes where it reads {subject.axes}": (
            Positions(zeros, zeros, causal=subject.causal),
            axes,
        ),
    }
    for what, (positions, remedy) in wrong.items():
        try:
            prepare(probe.encoding, positions).embed(x)  # pyright: ignore[reportOptionalCall]
        except InvalidArgument:
            continue
        except Exception as error:
            found = f"raised {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        else:
            found = "passed"
        raise Broken(f"{what} {found}, where InvalidArgument is expected: {remedy}")


@check("a position past the table is an error on the host", cause="an index that is clamped, or not looked at")
def past_the_table_refused(subject: Subject) -> None:
    """By one too many, far too many, and negative, in promised and unpromised positions."""
    end = subject.max_position
    if end is None:
        raise NotApplicable("it takes any position")
    probe = Probe(subject, subject.build())
    for what, start, length in (("one too many", 0, end + 1), ("far past", end + 2**20, 2), ("negative", -2, 2)):
        positions = subject.sequence(length) if start == 0 and subject.axes == 1 else subject.window(start, length)
        x = probe.inputs(1, length)
        try:
            with torch.no_grad():
                probe(x, positions)
        except (IndexError, ValueError):
            continue
        raise Broken(f"{what}: positions {start} to {start + length - 1} passed a table of {end} without an error")


def _expect(what: str, x: Tensor, shape: Any, case: object) -> None:
    if tuple(x.shape) != tuple(shape):
        raise Broken(f"{what} gives {list(x.shape)} and not {list(shape)} in {case}")


def _tensors(positions: Positions, **others: Tensor) -> dict[str, Tensor]:
    names = ("q", "k", "q_segment", "k_segment", "q_order", "k_order")
    parts = {f"positions.{name}": getattr(positions, name) for name in names}
    return {name: part for name, part in (others | parts).items() if part is not None}
