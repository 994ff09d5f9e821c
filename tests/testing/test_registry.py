"""Every registered encoding keeps the contract."""

from __future__ import annotations

from collections.abc import Callable

import lengthwise as lw
from lengthwise.testing import registered

DIMS = lw.Dims(dim=32, heads=4, head_dim=8, max_length=128)
Kit = Callable[[str], dict[str, dict[str, str]]]


def test_every_registered_encoding_keeps_the_contract(kit: Kit) -> None:
    failures = kit("encodings")
    assert {make.label for make in registered(DIMS, others=False)} <= set(failures)
    assert {label: found for label, found in failures.items() if found} == {}


def test_an_encoding_that_sizes_alone_do_not_make_has_an_example_of_itself() -> None:
    names = [make.label.partition("(")[0] for make in registered(DIMS, others=False)]
    encodings = lw.encodings.encodings
    assert names == [name for name in encodings if name not in encodings.others]
