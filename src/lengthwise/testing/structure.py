"""What kinds of value an encoding yields: encodings of one structure are compiled alike."""

from __future__ import annotations

from lengthwise.sites import SITES
from lengthwise.testing.probe import Probe
from lengthwise.testing.subject import Subject


def structure(subject: Subject) -> str:
    """Sites with the classes of what is found there: `"rotation: Rotation"`, `"bias: PairBias"`, `"nothing"`."""
    probe, length = Probe(subject, subject.build()), subject.fits(7)
    prepared, _, _ = probe.prepare(probe.inputs(1, length), subject.sequence(length))
    kinds = [type(part).__name__ for part in (prepared.rotation, prepared.bias) if part is not None]
    if prepared.logits is not None:
        kinds.append("logits")  # each computes them by a way of its own, with the same arguments
    sites = [site for site in SITES if site in subject.sites]
    return ": ".join(part for part in (", ".join(sites), ", ".join(kinds)) if part) or "nothing"
