"""Claims: each is asked of everyone, is a fault where it is made and does not hold, and is told where it could be."""

from __future__ import annotations

import torch
from torch import Tensor

from lengthwise.positions import Positions
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe, logits, visible
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import angle, output, rounding
from lengthwise.testing.verdict import Broken, NotApplicable, agree


@check(
    "shifting all positions by the same amount leaves every visible logit as it is",
    cause="a claim that holds for another variant of the encoding",
    claim="translation_invariant",
)
def translation_invariant(subject: Subject) -> None:
    """Near and farther shifts, on every axis at once, and on each by itself."""
    if subject.sites == frozenset({"hidden"}):
        raise NotApplicable("what it does is decided by hidden states")
    length, dtype = subject.fits(7), torch.float64
    probe = Probe(subject, subject.build(dtype), dtype=dtype)
    x = probe.inputs(2, length)
    with torch.no_grad():
        start = subject.sequence(length).replace()
        here = _masked(probe, x, start)
        room = 20_000 if subject.max_position is None else subject.max_position - length
        if room < 1:
            raise NotApplicable("its table has no room for a shift")
        alone = torch.eye(subject.axes, dtype=torch.int64)[: subject.axes if subject.axes > 1 else 0]
        for steps in [torch.ones(subject.axes, dtype=torch.int64), *alone]:
            for size in {min(13, room), min(300, room), room}:
                shift = size * steps
                q, k = (place + (shift if subject.axes > 1 else size) for place in (start.q, start.k))
                allowed = output(torch.float32) + angle(size)
                agree(_masked(probe, x, start.replace(q=q, k=k)), here, allowed, f"logits shifted by {shift.tolist()}")


@check(
    "rotated queries and keys keep their length",
    cause="a scale on top of the rotation, or tables in low precision",
    claim="norm_preserving",
    sites=("rotation", "hidden"),
)
def norm_preserving(subject: Subject) -> None:
    """In float32 and float64, near and at the end of what it takes."""
    for dtype in (torch.float32, torch.float64):
        probe = Probe(subject, subject.build(dtype), dtype=dtype)
        length = subject.fits(7)
        for start in (0, subject.far(length)):
            prepared, hidden, _ = probe.prepare(probe.inputs(2, length), subject.window(start, length))
            if prepared.rotation is None:
                raise NotApplicable("it rotates nothing")
            q, k, _ = probe.project(hidden)
            for name, turned, x in zip("qk", prepared.rotation(q, k), (q, k), strict=True):
                # Cosines and sines are float32 by contract, whatever x is.
                agree(turned.norm(dim=-1), x.norm(dim=-1), rounding(torch.float32), f"norm of {name} from {start}")


@check(
    "the bias never rises with distance",
    cause="a learned or periodic function of distance",
    claim="nonincreasing",
    sites=("bias", "hidden"),
)
def nonincreasing(subject: Subject) -> None:
    """On both sides where keys ahead are seen, there the same on both."""
    length = subject.fits(64)
    probe = Probe(subject, subject.build())
    with torch.no_grad():
        rise = _bias(probe, subject.window(0, length))[..., -1, :].diff(dim=-1)  # keys come nearer along the last row
        if bool((rise < -rounding(torch.float32)).any()):
            raise Broken(f"the bias of the last query falls by {-rise.min().item():.3g} from a key to a nearer one")
        if subject.direction == "causal":
            return
        values = _bias(probe, subject.window(0, length, causal=False))
        if bool((values[..., 0, :].diff(dim=-1) > rounding(torch.float32)).any()):
            raise Broken("keys ahead are rewarded over nearer ones: the first row rises with distance")
        agree(values.transpose(-1, -2), values, rounding(torch.float32), "the bias of keys ahead, against those behind")


@check(
    "no visible bias is above 0",
    cause="a bias up to a constant of each row, such as slope times the key's position",
    claim="nonpositive",
    sites=("bias", "hidden"),
)
def nonpositive(subject: Subject) -> None:
    """The first positions and far ones, with keys ahead where it is made for them."""
    length = subject.fits(64)
    probe = Probe(subject, subject.build())
    with torch.no_grad():
        for causal in subject.ways:
            for start in (0, subject.far(length)):
                positions = subject.window(start, length, causal)
                values = _bias(probe, positions)
                seen = values.masked_fill(~visible(positions), -torch.inf)
                if bool((seen > rounding(torch.float32)).any()):
                    raise Broken(f"a bias of {seen.max().item():.3g} among {length} tokens from {start} on")


@check(
    "logit (i, j) depends on query i, key j and their positions only",
    cause="a sum or a count over other tokens or positions",
    claim="pairwise",
)
def pairwise(subject: Subject) -> None:
    """One token and its position change: only its own row and column may notice."""
    length = subject.fits(7)
    if length < 3:
        raise NotApplicable("its table is too short")
    moved = length // 2
    probe = Probe(subject, subject.build(torch.float64), dtype=torch.float64)
    x = probe.inputs(1, length)
    place = subject.window(0, length)
    bent = place.q.clone()
    bent[moved if subject.axes == 1 else (slice(None), moved)] = subject.fits(length + 1) - 1
    other = x.clone()
    other[:, moved] = -other[:, moved] + 1.0
    rest = torch.tensor([i for i in range(length) if i != moved])
    with torch.no_grad():
        whole = _masked(probe, x, place)[..., rest, :][..., rest]
        for what, embedded, positions in (
            ("position", x, place.replace(q=bent, k=bent)),
            ("content", other, place),
        ):
            changed = _masked(probe, embedded, positions)[..., rest, :][..., rest]
            agree(changed, whole, 1e-9, f"logits of the others, when token {moved} changes its {what}")


def _bias(probe: Probe, positions: Positions) -> Tensor:
    """All values, `[(batch,) heads, q, k]`."""
    prepared, _, _ = probe.prepare(probe.inputs(1, positions.q_length), positions)
    if prepared.bias is None:
        raise NotApplicable("it adds no bias")
    return prepared.bias.dense()


def _masked(probe: Probe, x: Tensor, positions: Positions) -> Tensor:
    prepared, hidden, _ = probe.prepare(x, positions)
    q, k, _ = probe.project(hidden)
    return logits(prepared, q, k).masked_fill(~visible(prepared.positions), 0.0)
