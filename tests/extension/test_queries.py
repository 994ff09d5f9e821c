from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import lengthwise as lw
from lengthwise import Positions


def logits(encoding: torch.nn.Module, length: int = 20) -> torch.Tensor:
    """Logarithms of the weights of the last query, up to a constant."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, 2, length, 8, generator=generator)
    return lw.attention_weights(q, k, encoding)[0, :, -1].double().log()


def centred(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean(-1, keepdim=True)


METHODS = [
    (lw.LogN(original_length=4), math.log(20) / math.log(4)),
    (lw.ScalableSoftmax(heads=2, initial=0.5), 0.5 * math.log(20)),
    (lw.ConstantTemperature(1.7), 1.7),
]


@pytest.mark.parametrize(("method", "factor"), METHODS, ids=repr)
@pytest.mark.parametrize("spec", ["none", "rotary", "alibi", "rotary + alibi"])
def test_the_products_of_the_last_query_are_scaled_once_and_a_bias_is_not(
    method: lw.extension.Method, factor: float, spec: str, close: Callable[..., None]
) -> None:
    encoding = lw.build(spec, lw.Dims(dim=16, heads=2))
    bias = torch.zeros(2, 20)
    if "alibi" in spec:
        bias = lw.ALiBi(2).logit_bias(Positions.step(19)).dense()[:, 0].double()
    plain = logits(encoding) - bias
    close(centred(logits(lw.extend(encoding, method)) - bias), factor * centred(plain), of=torch.float32, times=8)


def test_log_n_leaves_positions_within_the_trained_length_as_they_are_and_16_of_4_doubles() -> None:
    factor = lw.LogN(4).scale_queries(torch.arange(16))
    assert torch.equal(factor[:4], torch.ones(4))
    torch.testing.assert_close(factor[[4, 15]], torch.tensor([math.log(5) / math.log(4), 2.0]))


def test_log_n_counts_from_the_first_token_of_each_padded_row() -> None:
    positions = Positions.padded(torch.arange(8) >= torch.tensor([[0], [3]]))
    q = torch.ones(2, 1, 8, 4)
    scaled = lw.extend(lw.NoPE(), lw.LogN(2)).rotation(positions).q(q)
    torch.testing.assert_close(scaled[1, :, 3:], scaled[0, :, :5])


def test_scalable_softmax_learns_a_number_for_each_head() -> None:
    encoding = lw.extend(lw.Rotary(8), lw.ScalableSoftmax(heads=2))
    assert encoding.shared is False
    with torch.no_grad():
        encoding.scale.copy_(torch.tensor([1.0, 3.0]))
    q = torch.ones(1, 2, 1, 8)
    turned = encoding.rotation(Positions.step(6)).q(q)
    torch.testing.assert_close(turned[:, 1], 3 * turned[:, 0])
    (gradient,) = torch.autograd.grad(turned.sum(), encoding.scale)
    torch.testing.assert_close(gradient, turned.detach()[0, :, 0].sum(-1) / torch.tensor([1.0, 3.0]))
    first = encoding.rotation(Positions.sequence(1)).q(q)
    assert torch.equal(first, torch.zeros_like(first))  # ln 1: one key has weight 1 whatever its logit


def test_the_temperature_of_drope_grows_with_the_logarithm_of_the_stretch() -> None:
    method = lw.ConstantTemperature.of_lengths(2048, original_length=1024, strength=0.103)
    assert method.factor == pytest.approx(1 + 0.103 * math.log(2))
    assert lw.ConstantTemperature.of_lengths(512, original_length=1024).identity


def test_temperatures_leave_the_rule_for_a_cache_as_it_is_and_decoding_equals_one_pass(
    close: Callable[..., None],
) -> None:
    q, k, v = torch.randn(3, 1, 2, 12, 8, generator=torch.Generator().manual_seed(0))
    for method, _ in METHODS:
        for spec, rule in (("rotary", "rotated"), ("rotary + rerope(window=3)", "raw")):
            longer = lw.extend(lw.build(spec, lw.Dims(dim=16, heads=2)), method)
            assert longer.cached_keys == rule
            whole = lw.attention(q, k, v, longer)
            close(lw.attention(q[:, :, 9:], k, v, longer, Positions.step(9, 3)), whole[:, :, 9:])


def test_claims_that_a_growing_temperature_breaks_are_dropped() -> None:
    assert lw.claims(lw.extend(lw.Rotary(8), lw.LogN(4))) == {"pairwise"}
    assert lw.claims(lw.extend(lw.Rotary(8), lw.ConstantTemperature(2.0))) == {"pairwise", "translation_invariant"}
    assert "nonincreasing" in lw.claims(lw.extend(lw.ALiBi(2), lw.LogN(4)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lw.LogN(1), "at least 2, not 1"),
        (lambda: lw.ScalableSoftmax(0), "at least 1 head"),
        (lambda: lw.ConstantTemperature(0.0), "above 0"),
        (lambda: lw.extend(lw.build("mrope", lw.Dims(dim=64, heads=4)), lw.LogN(4)), "3 axes"),
    ],
)
def test_settings_out_of_range_are_errors(make: Callable[[], object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        make()
