"""Far positions in every dtype: told apart, angles right, nothing overflows, dims that are not turned left alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn

from lengthwise.positions import Positions
from lengthwise.prepared import prepare
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe, visible
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import angle, rounding
from lengthwise.testing.verdict import Broken, NotApplicable, agree, finite, same

_WINDOW = 64
_NARROW = (torch.bfloat16, torch.float16)


@check(
    "positions are told apart in every dtype, 64 of them from 2^20 on",
    cause="positions or distances in the dtype of the queries",
    sites=("embeddings", "rotation", "bias"),
)
def positions_told_apart(subject: Subject) -> None:
    """As many different values as float64 finds among the first positions."""
    window = subject.fits(_WINDOW)
    far = subject.window(subject.far(window), window)
    exact = subject.build(torch.float64)
    with torch.no_grad():
        wanted = _counts(subject, exact, subject.window(0, window))
        if not wanted:
            raise NotApplicable("nothing it does depends on positions alone")
        for where, encoding, context in _settings(subject):
            with context:
                found = _counts(subject, encoding, far)
            for what, count in found.items():
                if count < wanted[what]:
                    raise Broken(
                        f"{what} {where}: {count} different values for {window} positions from {subject.far(window)} "
                        f"on, and {wanted[what]} for the first ones in float64"
                    )


@check(
    "rotations of far positions are right within 2^-23 x position, whatever .to() or autocast did",
    cause="frequencies in a buffer that .to() narrows, or a product of angles that autocast narrows",
    sites=("rotation",),
)
def angles_exact(subject: Subject) -> None:
    """Against float32 left alone; and where shifts must not matter, the far product against the near one."""
    window = subject.fits(8)
    starts = {0, subject.fits(257 + window) - window, subject.far(window)}
    with torch.no_grad():
        for where, encoding, context in _settings(subject):
            rounded = next((dtype for dtype in _NARROW if str(dtype) in where), None)
            plain = subject.build(rounded=rounded if "module" in where else None)
            for start in starts:
                positions = subject.window(start, window)
                with context:
                    turned = _turned(subject, encoding, positions)
                for name, one, other in zip("qk", turned, _turned(subject, plain, positions), strict=True):
                    agree(one, other, angle(start + window), f"{name} turned {where}, positions from {start}")
        if "translation_invariant" not in subject.claims or subject.sites != frozenset({"rotation"}):
            return
        encoding = subject.build()
        near = _products(_turned(subject, encoding, subject.window(0, window)))
        for start in starts:
            far = _products(_turned(subject, encoding, subject.window(start, window)))
            agree(far, near, angle(start + window), f"the product of rotations shifted by {start}")


@check(
    "far tokens attend as near ones do, in every dtype",
    cause="distances formed in the dtype of the queries, or of the module",
    claim="translation_invariant",
)
def far_equals_near(subject: Subject) -> None:
    """A window of tokens at 2^20 against the first one, of module and input in each dtype, and under autocast."""
    window = subject.fits(12)
    start = subject.far(window)
    for where, encoding, context in _settings(subject):
        dtype = next((part.dtype for part in encoding.parameters()), torch.float32)
        narrow = next((one for one in _NARROW if str(one) in where), torch.float32)
        dtype = narrow if "module" in where else dtype
        probe = Probe(subject, encoding, dtype=dtype)
        x = probe.inputs(1, window)
        with torch.no_grad(), context:
            near, far = (probe(x, subject.window(place, window)).float() for place in (0, start))
        # Angles may be float32; what is a function of whole distances has no such excuse.
        allowed = 2 * rounding(narrow, window) + (angle(start) if "rotation" in subject.sites else 0.0)
        agree(far, near, allowed, f"tokens from {start} {where}")


@check("there is no NaN and no infinity at 2^20 in any dtype", cause="a bias or a power that overflows")
def finite_far(subject: Subject) -> None:
    """Embeddings, rotated queries and keys, visible biases and logits, outputs, in four dtypes."""
    window = subject.fits(_WINDOW)
    positions = subject.window(subject.far(window), window)
    for dtype in (torch.float32, *_NARROW):
        probe = Probe(subject, subject.build(dtype), dtype=dtype)
        x = probe.inputs(1, window)
        where = f"in {dtype} from {subject.far(window)}"
        with torch.no_grad():
            prepared, hidden, _ = probe.prepare(x, positions)
            q, k, _ = probe.project(hidden)
            finite(hidden, f"embeddings {where}")
            if prepared.rotation is not None:
                for name, turned in zip("qk", prepared.rotation(q, k), strict=True):
                    finite(turned, f"{name} turned {where}")
            if prepared.bias is not None:
                values, mask = prepared.bias.dense(), visible(prepared.positions)
                hidden_pairs = _hidden_pairs(subject, probe, positions)  # a bias may hide a pair, in every dtype alike
                seen = values.masked_fill(~(mask if values.dim() == 4 else mask[0]) | hidden_pairs, 0.0)
                finite(seen, f"visible biases {where}")
            finite(probe(x, positions), f"attention {where}")


@check(
    "dims past the rotated ones pass through bit for bit",
    cause="a fraction that is ignored, or a scale on the whole head",
    sites=("rotation",),
)
def untouched_dims(subject: Subject) -> None:
    """What the rotation says it turns is what it turns, in three dtypes."""
    encoding, head_dim = subject.build(), subject.dims.head_dim
    positions = subject.window(1, subject.fits(8) - 1)
    with torch.no_grad():
        rotation = prepare(encoding, positions).rotation
    said = [int(dims) for dims in (getattr(part, "rotary_dim", None) for part in (encoding, rotation)) if dims]  # pyright: ignore[reportArgumentType]
    if rotation is None or not said or min(said) >= head_dim:
        raise NotApplicable("it says of no dims that they pass through")
    generator = torch.Generator().manual_seed(4)
    for dtype in (torch.float32, *_NARROW):
        x = torch.randn(1, subject.dims.heads, positions.q_length, head_dim, generator=generator).to(dtype)
        with torch.no_grad():
            for name, turned in zip("qk", rotation(x, x), strict=True):
                same(turned[..., min(said) :], x[..., min(said) :], f"dims {min(said)} on of {name} in {dtype}")


def _settings(subject: Subject) -> Iterator[tuple[str, nn.Module, AbstractContextManager[object]]]:
    """The module as it is, moved to narrow dtypes, and under autocast."""
    yield "in torch.float32", subject.build(), nullcontext()
    for dtype in _NARROW:
        yield f"by a module in {dtype}", subject.build(dtype), nullcontext()
        yield f"under autocast to {dtype}", subject.build(), torch.autocast("cpu", dtype)


def _hidden_pairs(subject: Subject, probe: Probe, positions: Positions) -> Tensor:
    """Which pairs get a bias of minus infinity in float64."""
    exact = Probe(subject, subject.build(torch.float64), probe.kv_heads, torch.float64)
    prepared, _, _ = exact.prepare(exact.inputs(1, positions.q_length), positions)
    return torch.zeros(()).bool() if prepared.bias is None else prepared.bias.dense().isneginf()


def _counts(subject: Subject, encoding: nn.Module, positions: Positions) -> dict[str, int]:
    """How many positions differ in what the encoding gives for them, by place."""
    prepared = prepare(encoding, positions)
    length, counts = positions.q_length, {}
    if prepared.embed is not None:
        counts["embeddings"] = _different(prepared.embed(torch.zeros(1, length, subject.dims.dim))[0])
    if prepared.rotation is not None:
        for name, turned in zip("qk", prepared.rotation(*_fixed(subject, length)), strict=True):
            counts[f"{name} turned"] = _different(turned[0].transpose(0, 1).flatten(1))
    if prepared.bias is not None:
        last = prepared.bias.dense()[..., -1, :]  # [(batch,) heads, k]
        counts["biases of the last query"] = _different(last.reshape(-1, length).T)
    return counts


def _fixed(subject: Subject, length: int) -> tuple[Tensor, Tensor]:
    """One query and one key, at all positions."""
    dims, generator = subject.dims, torch.Generator().manual_seed(5)
    kv_heads = subject.heads_of_keys(subject.cases[0])
    sizes = (dims.heads, kv_heads)
    q, k = (torch.randn(1, heads, 1, dims.head_dim, generator=generator) for heads in sizes)
    return q.expand(-1, -1, length, -1), k.expand(-1, -1, length, -1)


def _different(rows: Tensor) -> int:
    return torch.unique(rows.double(), dim=0).shape[0]


def _turned(subject: Subject, encoding: nn.Module, positions: Positions) -> tuple[Tensor, Tensor]:
    """The unit vectors of a head turned as queries and as keys, `[head_dim, heads, length, head_dim]`."""
    prepared = prepare(encoding, positions)
    if prepared.rotation is None:
        raise NotApplicable("it rotates nothing")
    basis = torch.eye(subject.dims.head_dim)[:, None, None]  # as a batch
    heads = (subject.dims.heads, subject.heads_of_keys(subject.cases[0]))
    q, k = (basis.expand(-1, number, positions.q_length, -1) for number in heads)
    turned = prepared.rotation(q, k)
    return turned[0].double(), turned[1].double()


def _products(turned: tuple[Tensor, Tensor]) -> Tensor:
    """Rotation of query i against that of key j, `[heads, i, j, head_dim, head_dim]`."""
    q, k = turned
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return torch.einsum("ahid,bhjd->hijab", q, k)
