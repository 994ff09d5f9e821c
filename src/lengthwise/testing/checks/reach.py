"""What an encoding does: something, and the same for one query among thousands of keys."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from lengthwise.attention import attention
from lengthwise.errors import PositionOutOfRange
from lengthwise.prepared import prepare
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe, logits
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import angle, output
from lengthwise.testing.verdict import Broken, NotApplicable, agree, finite, same

_KEYS, _KEYS_READ = 5000, 700
_SPREAD = 4000
_NOTHING = 1e-7


@check(
    "what attention gives changes when positions or the order of tokens do",
    cause="a bias that is the same for all keys, which softmax drops, or a factor of zero",
)
def positions_matter(subject: Subject) -> None:
    """Tokens spread out, or moved far; or earlier tokens in another order, for what reads order and no positions."""
    if not subject.sites:
        raise NotApplicable("it acts nowhere")
    length = subject.fits(7)
    if length < 3:
        raise NotApplicable("its table is too short")
    probe = Probe(subject, subject.build(torch.float64), dtype=torch.float64)
    x, index = probe.inputs(2, length), torch.arange(length)
    step = _SPREAD if subject.max_position is None else max(1, (subject.max_position - 1) // (length - 1))
    others = [index * step, index.flip(0), index + subject.fits(length + 100) - length]
    with torch.no_grad():
        for causal in subject.ways:
            here = probe(x, subject.sequence(length, causal=causal))
            order = torch.cat((index[:-1].roll(1), index[-1:]))  # the last query keeps its place
            moved = probe(x[:, order], subject.sequence(length, causal=causal))[:, :, -1]
            if _far_apart(moved, here[:, :, -1]):
                return
            for other in others:
                place = subject.place(other)
                positions = subject.part(index, index, causal=causal, ordered=True).replace(q=place, k=place)
                if _far_apart(probe(x, positions), here):
                    return
    raise Broken("attention is the same wherever the tokens stand, and in whatever order those before come")


@check(
    "one query among 5000 keys is what it is among few",
    cause="the length of the call in a formula, a memory of the longest call, or a table without a max_position",
)
def long_step_right(subject: Subject) -> None:
    """It runs, is finite, leaves nothing behind; where pairs decide, some keys alone get the same logits."""
    if not subject.causal:
        raise NotApplicable("it is made for bidirectional attention")
    # What is read of hidden states may have to form all pairs of the tokens before.
    keys = subject.fits(_KEYS_READ if "hidden" in subject.sites else _KEYS)
    probe = Probe(subject, subject.build())
    x = probe.inputs(1, keys)
    try:
        _long_step(subject, probe, x, keys)
    except PositionOutOfRange as limit:
        if subject.axes == 1:
            raise
        raise NotApplicable(f"it says that this is out of its range: {limit}") from None


def _far_apart(one: Tensor, other: Tensor) -> bool:
    return not torch.allclose(one, other, rtol=_NOTHING, atol=_NOTHING)


def _long_step(subject: Subject, probe: Probe, x: Tensor, keys: int) -> None:
    whole, short = torch.arange(keys), min(5, keys)
    few = torch.unique(torch.tensor([0, 1, keys // 3, keys // 2, keys - 2, keys - 1]).clamp(0, keys - 1))
    with torch.no_grad():
        first = x[:, :short]
        before = probe(first, subject.sequence(short, target=False))
        step = subject.part(whole[-1:], whole, target=False)
        if "hidden" in subject.sites:
            prepared, hidden = probe.prepare_step(x, step)
        else:  # nothing is read of the tokens before
            prepared, hidden, _ = probe.prepare(x[:, -1:], step)
        if prepared.rotation is not None and "hidden" in subject.sites:
            prepared = replace(prepared, rotation=None)  # one that was read covers the new key only
        if prepared.embed is not None:
            x = probe.prepare(x, subject.sequence(keys, target=False))[1]
        q, (_, k, v) = probe.project(hidden)[0], probe.project(x)
        outs = {name: attention(q, k, v, prepared, backend=name) for name in ("reference", "auto")}
        for name, out in outs.items():
            finite(out, f"attention of one query to {keys} keys, backend {name}")
        agree(outs["auto"], outs["reference"], 4 * output(torch.float32, keys), f"backend auto, {keys} keys")
        after = probe(first, subject.sequence(short, target=False))
        same(after, before, f"a call of {short} tokens, after one of {keys}")
        normalizes = getattr(probe.encoding, "normalizes", False)
        if "pairwise" not in subject.claims or "hidden" in subject.sites or normalizes:
            return
        alone = prepare(probe.encoding, subject.part(whole[-1:], few, target=False, ordered=True))
        found, wanted = logits(prepared, q, k)[..., few], logits(alone, q, k[:, :, few])
        allowed = output(torch.float32) + (angle(keys) if "rotation" in subject.sites else 0.0)
        agree(found, wanted, allowed, f"logits of keys {few.tolist()} among {keys}, against these keys alone")
