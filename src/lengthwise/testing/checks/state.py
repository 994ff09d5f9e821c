"""No hidden state: neither earlier calls nor a global generator decide a result."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import torch
from torch import Tensor, nn

from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe
from lengthwise.testing.subject import Subject
from lengthwise.testing.verdict import Broken, same


@check("the order of calls never matters", cause="a table that grows, or the longest length remembered")
def no_memory_of_calls(subject: Subject) -> None:
    """A long call, short ones, packed and padded ones, forwards on one module and backwards on fresh ones."""
    short, long = subject.fits(5), subject.fits(80)
    mask = torch.arange(short) >= 2 if short > 2 else torch.ones(short, dtype=torch.bool)
    calls: list[Callable[[Probe], Tensor]] = [
        lambda probe: probe(probe.inputs(1, short), subject.sequence(short, target=False)),
        lambda probe: probe(probe.inputs(1, long), subject.sequence(long, target=False)),
        lambda probe: probe(probe.inputs(1, short), subject.window(subject.far(short), short)),
        lambda probe: probe(probe.inputs(1, short), subject.padded(mask[None])),
        lambda probe: probe(probe.inputs(1, short), subject.sequence(short, target=False)),
    ]
    with torch.no_grad():
        used = Probe(subject, subject.build())
        forwards = [call(used) for call in calls]
        fresh = [call(Probe(subject, subject.build())) for call in reversed(calls)][::-1]
    for number, (one, other) in enumerate(zip(forwards, fresh, strict=True)):
        same(one, other, f"call {number + 1} of {len(calls)} on a used module, against a fresh one")


@check("copies give the same numbers", cause="settings that are not carried along")
def copies_equal(subject: Subject) -> None:
    """A deep copy, and one that was pickled."""
    length = subject.fits(7)
    encoding = subject.build()
    clones: dict[str, Callable[[nn.Module], nn.Module]] = {"deepcopy": copy.deepcopy}
    if "<locals>" not in subject.type.__qualname__:
        clones["pickle"] = lambda module: pickle.loads(pickle.dumps(module))
    with torch.no_grad():
        for what, clone in clones.items():
            probe = Probe(subject, encoding)
            expected = probe(probe.inputs(1, length), subject.sequence(length))
            other = Probe(subject, clone(encoding))
            same(other(probe.inputs(1, length), subject.sequence(length)), expected, f"after {what}")


@check("random draws belong to training, and come from the generator alone", cause="a call of torch.rand")
def draws_from_generator(subject: Subject) -> None:
    """Outside training nothing is drawn, in either mode of the module; in training one seed gives one result."""
    length = subject.fits(7)
    probe = Probe(subject, subject.build())
    x, positions = probe.inputs(2, length), subject.sequence(length)
    generator = torch.Generator()

    def call(seed: int, training: bool) -> Tensor:
        generator.manual_seed(seed)
        return probe(x, positions, generator=generator, training=training)

    with torch.no_grad():
        state = torch.get_rng_state()
        plain = call(1, False)
        if not torch.equal(generator.get_state(), torch.Generator().manual_seed(1).get_state()):
            raise Broken("it draws from the generator outside training")
        same(call(2, False), plain, "a second call outside training")
        probe.encoding.train(not probe.encoding.training)
        same(call(1, False), plain, "the other mode of the module, outside training")
        one = call(1, True)
        call(2, True)
        same(call(1, True), one, "a second call in training with the same seed")
        if not torch.equal(torch.get_rng_state(), state):
            torch.set_rng_state(state)
            raise Broken("the global generator moved")
