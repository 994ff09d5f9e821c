"""How a module comes to be: on the meta device, from a state dict, after use at several lengths."""

from __future__ import annotations

import torch

from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe
from lengthwise.testing.subject import Subject
from lengthwise.testing.verdict import Broken, same


@check("made on the meta device it is right once its state is loaded", cause="a buffer that is not saved")
def meta_then_load(subject: Subject) -> None:
    """All memory is filled with NaN before loading, so that what is not loaded shows."""
    encoding, length = subject.build(), subject.fits(7)
    with torch.device("meta"):
        empty = subject.make()
    empty = empty.to_empty(device="cpu")
    with torch.no_grad():
        for part in (*empty.parameters(), *empty.buffers()):
            part.fill_(float("nan") if part.is_floating_point() else 0)
        empty.load_state_dict(encoding.state_dict(), strict=True)
        probe, other = Probe(subject, encoding), Probe(subject, empty)
        x, positions = probe.inputs(1, length), subject.sequence(length)
        same(other(x, positions), probe(x, positions), "attention after meta, to_empty and load_state_dict")


@check("nothing that is saved depends on the lengths that were seen", cause="a persistent buffer of a table")
def state_keeps_its_shape(subject: Subject) -> None:
    """Keys and shapes after calls of several lengths, and loading into a fresh module and back."""
    encoding, fresh = subject.build(), subject.build()
    probe = Probe(subject, encoding)
    with torch.no_grad():
        for length in (subject.fits(3), subject.fits(40), subject.fits(2)):
            probe(probe.inputs(1, length), subject.sequence(length))
            shapes = {name: list(part.shape) for name, part in encoding.state_dict().items()}
            expected = {name: list(part.shape) for name, part in fresh.state_dict().items()}
            if shapes != expected:
                raise Broken(f"the state after {length} tokens is {shapes}, and {expected} before any call")
        fresh.load_state_dict(encoding.state_dict(), strict=True)
        encoding.load_state_dict(fresh.state_dict(), strict=True)
        length = subject.fits(7)
        x, positions = probe.inputs(1, length), subject.sequence(length)
        same(probe(x, positions), Probe(subject, subject.build())(x, positions), "attention after loading")
