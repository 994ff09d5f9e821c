from __future__ import annotations

import pytest
from torch import nn

import lengthwise as lw
from lengthwise.encodings.registry import example
from lengthwise.sites import CACHE_RULES, cached_keys, direction

EXPECTED = {
    "none": (),
    "learned": ("embeddings",),
    "sinusoidal": ("embeddings",),
    "rotary": ("rotation",),
    "alibi": ("bias",),
    "t5": ("bias",),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_an_encoding_acts_where_its_methods_say(name: str) -> None:
    encoding = lw.build(name, lw.Dims(dim=32, heads=2))
    assert lw.sites(encoding) == EXPECTED[name]
    protocols = {
        "embeddings": lw.EmbedsPositions,
        "rotation": lw.Rotates,
        "bias": lw.BiasesLogits,
        "logits": lw.ComputesLogits,
        "hidden": lw.ReadsHidden,
    }
    assert set(protocols) == set(lw.SITES)
    assert tuple(site for site, protocol in protocols.items() if isinstance(encoding, protocol)) == EXPECTED[name]


def test_a_module_of_anyone_keeps_the_contract_by_its_methods_alone() -> None:
    class Theirs(nn.Module):
        def attention_logits(self, q, k, positions, scale): ...

        def embed_positions(self, x, positions): ...

    assert lw.sites(Theirs()) == ("embeddings", "logits")
    assert lw.claims(Theirs()) == frozenset()
    assert (direction(Theirs()), cached_keys(Theirs())) == ("any", "rotated")


@pytest.mark.parametrize(
    ("attribute", "value", "ask", "message"),
    [
        ("claims", {"translation_invarant"}, lw.claims, r"Odd makes an unknown claim .* did you mean 'translation_inv"),
        ("direction", "casual", direction, r"Odd\.direction is 'casual': did you mean 'causal'\?"),
        ("direction", None, direction, r"Odd\.direction is None: choose one of any, bidirectional, causal"),
        ("cached_keys", "row", cached_keys, r"Odd\.cached_keys is 'row': did you mean 'raw'\?"),
    ],
)
def test_a_word_that_is_not_in_the_contract_is_an_error(attribute: str, value: object, ask, message: str) -> None:
    odd = type("Odd", (nn.Module,), {attribute: value})()
    with pytest.raises(lw.InvalidArgument, match=message):
        ask(odd)


def test_every_registered_encoding_says_only_what_the_contract_knows() -> None:
    encodings = lw.encodings.encodings
    for name, made in ((name, encodings[name]) for name in encodings if name not in encodings.others):
        encoding = lw.build(example(name), lw.Dims(dim=32, heads=2))
        assert lw.claims(encoding) <= set(lw.CLAIMS)
        assert direction(encoding) in ("any", "causal", "bidirectional")
        assert cached_keys(encoding) in CACHE_RULES
        assert made.formula
        assert made.paper
        assert made.__doc__
