from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.extension import Method, applies, extensions

DIMS = lw.Dims(dim=64, heads=4, max_length=128)


def logits(encoding: nn.Module, length: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(1, 4, length, 16, generator=generator)
    k = torch.randn(1, 4, length, 16, generator=generator)
    return lw.attention_weights(q, k, encoding)


def test_extend_leaves_the_encoding_that_was_given_as_it_is() -> None:
    t5 = lw.T5Bias(heads=4)
    before = logits(t5)
    longer = lw.extend(t5, lw.Interpolate(4))
    with torch.no_grad():
        for parameter in longer.parameters():
            parameter.add_(1.0)
    torch.testing.assert_close(logits(t5), before, rtol=0, atol=0)


def test_interpolation_of_a_rotation_divides_each_angle() -> None:
    q = torch.randn(1, 4, 12, 16)
    far = lw.Positions.sequence(12)
    near = far.replace(q=far.q / 4.0, k=far.k / 4.0)
    longer = lw.extend(lw.Rotary(16), lw.Interpolate(4))
    torch.testing.assert_close(longer.rotation(far).q(q), lw.Rotary(16).rotation(near).q(q), rtol=0, atol=1e-7)


def test_interpolation_of_alibi_divides_its_slopes() -> None:
    values = lw.extend(lw.ALiBi(4), lw.Interpolate(8)).logit_bias(lw.Positions.sequence(20)).dense()
    torch.testing.assert_close(values, lw.ALiBi(4).logit_bias(lw.Positions.sequence(20)).dense() / 8, rtol=1e-6, atol=0)


def test_an_interpolated_bias_of_distance_keeps_its_structure_for_fast_attention() -> None:
    assert isinstance(lw.extend(lw.ALiBi(4), lw.Interpolate(8)).logit_bias(lw.Positions.sequence(20)), lw.DistanceBias)


def test_interpolation_of_fire_moves_both_positions() -> None:
    fire = lw.FIRE(4)
    longer = lw.extend(fire, lw.Interpolate(2))
    place = torch.arange(0, 20, 2)
    half = torch.arange(10)
    torch.testing.assert_close(
        longer.logit_bias(lw.Positions(place, place)).dense(), fire.logit_bias(lw.Positions(half, half)).dense()
    )


@pytest.mark.parametrize("spec", ["rotary", "alibi", "t5", "fire", "sinusoidal"])
def test_factor_one_is_the_identity_bit_for_bit(spec: str) -> None:
    plain = lw.build(spec, DIMS)
    same = lw.extend(plain, lw.Interpolate(1))
    assert lw.claims(same) == lw.claims(plain)
    if spec == "sinusoidal":
        x = torch.randn(1, 9, 64)
        at = lw.Positions.sequence(9)
        assert torch.equal(same.embed_positions(x, at), plain.embed_positions(x, at))
    else:
        assert torch.equal(logits(same), logits(plain))


def test_a_second_method_acts_on_the_result_of_the_first() -> None:
    twice = lw.extend(lw.extend(lw.Rotary(16), lw.Interpolate(2)), lw.Interpolate(3))
    torch.testing.assert_close(logits(twice), logits(lw.extend(lw.Rotary(16), lw.Interpolate(6))))
    assert twice.methods == (lw.Interpolate(2), lw.Interpolate(3))
    assert isinstance(twice.unextended, lw.Rotary)


def test_right_of_plus_a_method_extends_all_that_is_left_of_it() -> None:
    both = lw.build("rotary + alibi + interpolate(2)", DIMS)
    apart = lw.Combined(lw.extend(lw.Rotary(16), lw.Interpolate(2)), lw.extend(lw.ALiBi(4), lw.Interpolate(2)))
    torch.testing.assert_close(logits(both), logits(apart), rtol=0, atol=0)
    later = lw.build("rotary + interpolate(2) + alibi", DIMS)
    torch.testing.assert_close(
        logits(later), logits(lw.Combined(lw.extend(lw.Rotary(16), lw.Interpolate(2)), lw.ALiBi(4))), rtol=0, atol=0
    )


def test_a_pattern_of_layers_is_extended_layer_by_layer_where_it_can_be() -> None:
    layers = lw.extend(lw.PerLayer([lw.Rotary(16), lw.NoPE()]), lw.Interpolate(2))
    assert [type(layers[0].unextended), type(layers[1])] == [lw.Rotary, lw.NoPE]


def test_a_method_that_can_not_be_used_names_those_that_can() -> None:
    with pytest.raises(
        lw.InvalidArgument, match=r"Interpolate can't extend Learned: .*fractions.*; it can take .*resample"
    ):
        lw.extend(lw.Learned(8, 16), lw.Interpolate(2))
    with pytest.raises(lw.InvalidArgument, match=r"can't extend NoPE: it changes .* and this encoding has none"):
        lw.extend(lw.NoPE(), lw.Interpolate(2))


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("rotary + interpolate(0.5)", lw.InvalidArgument, "at least 1, and is 0.5"),
        ("interpolate(2)", lw.UnknownName, "is an extension, which stands right of what it extends"),
        ("rotary + interpolat(2)", lw.UnknownName, "did you mean 'interpolate'"),
        ("rotary + interpolate(factr=2)", lw.InvalidArgument, "has no parameter 'factr'"),
        ("rotary + interpolate", lw.InvalidArgument, "needs 'factor'"),
        ("rotary + interpolate('four')", lw.InvalidArgument, "four"),
    ],
)
def test_a_wrong_extension_in_a_spec_says_what_is_wrong(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lw.build(spec, DIMS)


def test_extend_refuses_what_is_no_encoding_and_no_method() -> None:
    with pytest.raises(lw.InvalidArgument, match=r"takes an encoding, which is a torch.nn.Module, not 'rotary'"):
        lw.extend("rotary", lw.Interpolate(2))  # pyright: ignore[reportArgumentType]
    with pytest.raises(lw.InvalidArgument, match="takes an extension such as"):
        lw.extend(lw.Rotary(16), lw.Interpolate)  # pyright: ignore[reportArgumentType]


def test_a_copy_and_a_pickle_of_an_extended_encoding_are_the_same_encoding() -> None:
    longer = lw.build("rotary + interpolate(3)", DIMS)
    for other in (copy.deepcopy(longer), pickle.loads(pickle.dumps(longer))):
        assert torch.equal(logits(other), logits(longer))


@pytest.mark.parametrize("name", sorted(extensions))
def test_each_extension_says_its_formula_source_and_example(name: str) -> None:
    kind = extensions[name]
    assert kind.formula
    assert kind.paper
    assert isinstance(lw.build_method(kind.example, DIMS), Method)


@pytest.mark.parametrize("name", sorted(extensions))
def test_each_extension_extends_something_and_its_example_runs(name: str) -> None:
    method = lw.build_method(extensions[name].example, DIMS)
    taken = [spec for spec in ("rotary", "alibi", "learned") if applies(lw.build(spec, DIMS), type(method))]
    assert taken
    for spec in taken:
        longer = lw.extend(lw.build(spec, DIMS), method)
        x = torch.randn(1, 100, 64)
        ready = lw.prepare(longer, lw.Positions.sequence(100))
        assert torch.isfinite(ready.embed(x) if ready.embed is not None else logits(longer, 100)).all()


def test_an_extended_encoding_is_printed_with_the_settings_that_were_chosen() -> None:
    shown = repr(lw.build("rotary + by_query(dynamic_yarn(original_length=64), block=32)", DIMS))
    assert shown.endswith(" + ByQuery(method=DynamicYaRN(original_length=64), block=32)")
    assert repr(lw.extend(lw.Rotary(16), lw.YaRN(4.0, 64))).endswith(" + YaRN(factor=4, original_length=64)")


def test_a_module_that_is_no_encoding_is_called_one_that_is_none() -> None:
    with pytest.raises(lw.InvalidArgument, match="Linear is no positional encoding"):
        lw.extend(torch.nn.Linear(4, 4), lw.Interpolate(2.0))
    with pytest.raises(lw.InvalidArgument, match="Interpolate can't extend NoPE"):
        lw.extend(lw.NoPE(), lw.Interpolate(2.0))
