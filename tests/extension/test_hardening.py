"""Faults that were found by trying to break extensions: settings of the wrong kind, chains, caches."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.build import build_method
from lengthwise.extension.registry import example, extensions
from lengthwise.models import Decoder, ModelConfig
from lengthwise.models.cache import KVCache

Close = Callable[..., None]
DIMS = lw.Dims(dim=32, heads=4, head_dim=8, max_length=64, trained_length=64)
STRANGE = ["4", b"x", {}, 3 + 1j, math.nan, math.inf, torch.tensor(4.0), object(), True, False]


def settings(name: str) -> dict[str, str]:
    return {field.name: str(field.type) for field in dataclasses.fields(extensions[name]) if field.init}


def changed(name: str, field: str, value: object) -> lw.extension.Method:
    return dataclasses.replace(build_method(example(name), DIMS), **{field: value})


@pytest.mark.parametrize("name", list(extensions))
def test_a_setting_of_another_kind_is_refused_by_name(name: str) -> None:
    for field, kind in settings(name).items():
        for value in STRANGE:
            word = isinstance(value, str) and ("Literal" in kind or kind == "Ramp")
            if word or (isinstance(value, bool) and kind == "bool"):
                continue
            with pytest.raises(lw.InvalidArgument, match=field):
                changed(name, field, value)


def test_a_whole_float_is_held_as_the_whole_number_that_it_is() -> None:
    method = lw.DynamicNTK(2, original_length=4096.0)  # pyright: ignore[reportArgumentType]
    assert repr(method) == "DynamicNTK(factor=2, original_length=4096)"
    with pytest.raises(lw.InvalidArgument, match=r"original_length of DynamicNTK must be a whole number, not 4096\.5"):
        lw.DynamicNTK(2, original_length=4096.5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("length", [2**63, 10**30])
def test_a_number_that_no_position_can_reach_is_refused(length: int) -> None:
    with pytest.raises(lw.InvalidArgument, match="length of Clamp"):
        lw.Clamp(length)


def test_a_list_is_held_as_the_tuple_that_can_be_hashed() -> None:
    method = lw.ResampleGrid(rows=2, to=[4, 4])  # pyright: ignore[reportArgumentType]
    assert method == lw.ResampleGrid(rows=2, to=(4, 4))
    assert hash(method) == hash(lw.ResampleGrid(rows=2, to=(4, 4)))


FOLLOWING = [
    "rotary + dynamic_yarn() + rerope(window=4)",
    "rotary + longrope(short_factor=1.0, long_factor=4.0, factor=4) + lm_infinite(sinks=2, local=4)",
    "learned + rotary + dynamic_ntk(factor=2) + streaming_llm(sinks=2, recent=3)",
    "rotary + alibi + dynamic_interpolate() + dynamic_ntk(factor=2) + self_extend(group=3, window=4)",
    "xpos + randomize(longest=40)",
]


@pytest.fixture
def model() -> Callable[[str], Decoder]:
    def make(spec: str) -> Decoder:
        torch.manual_seed(0)
        config = ModelConfig(vocabulary=29, dim=32, layers=2, heads=4, tied=False)
        made = Decoder(config, lw.build(spec, dataclasses.replace(config.dims(), max_length=64, trained_length=8)))
        for block in made.stack.blocks:
            block.attention.out.weight.data.mul_(2)
            block.feed_forward.down.weight.data.mul_(2)
        return made.eval()

    return make


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(29, (2, 14), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("spec", FOLLOWING)
def test_raw_keys_that_follow_the_length_are_fixed_to_one(
    spec: str, model: Callable[[str], Decoder], tokens: Tensor, close: Close
) -> None:
    made = model(spec)
    assert made.stack.follows_length
    with torch.no_grad():
        whole = made(tokens, lw.Positions.sequence(14).with_target(14))
        cache = KVCache(2)
        parts = [made(tokens[:, at : at + 1], lw.Positions.step(at, 1).with_target(14), cache) for at in range(14)]
        close(torch.cat(parts, 1), whole)
        grown = tokens[:, :5]
        for _ in range(9):
            logits = made(grown, lw.Positions.sequence(grown.shape[1]).with_target(14))
            grown = torch.cat((grown, logits[:, -1:].argmax(-1)), 1)
    assert torch.equal(made.generate(tokens[:, :5], 9), grown)


@pytest.mark.parametrize("spec", FOLLOWING)
def test_raw_keys_that_follow_the_length_ask_for_it_before_they_continue(
    spec: str, model: Callable[[str], Decoder], tokens: Tensor
) -> None:
    made, cache = model(spec), KVCache(2)
    made(tokens[:, :5], lw.Positions.sequence(5), cache)
    with pytest.raises(lw.InvalidArgument, match="with_target"):
        made(tokens[:, 5:6], lw.Positions.step(5), cache)


@pytest.mark.parametrize(
    "spec", ["rotary + dynamic_ntk(factor=2) + drope", "rotary + by_query(dynamic_ntk(factor=2), 3)"]
)
def test_what_no_longer_follows_the_length_asks_for_none(spec: str, model: Callable[[str], Decoder]) -> None:
    assert not model(spec).stack.follows_length


@pytest.mark.parametrize(
    "before",
    ["rotary + pose(target_length=40)", "rotary + alibi + pose(target_length=40)", "randomized(rotary, 40, 'given')"],
)
@pytest.mark.parametrize("pairs", ["rerope(window=4)", "self_extend(group=3, window=4)", "lm_infinite(local=4)"])
def test_pairs_are_moved_before_positions_are_drawn(before: str, pairs: str) -> None:
    # The draws, and a bias beside the rotation, would be lost without a word.
    with pytest.raises(lw.InvalidArgument, match="apply it to them first"):
        lw.build(f"{before} + {pairs}", DIMS)


def test_draws_reach_pairs_that_were_moved_before() -> None:
    encoding = lw.build("rotary + rerope(window=4) + pose(target_length=1000)", DIMS)
    generator = torch.Generator().manual_seed(0)
    drawn = lw.prepare(encoding, lw.Positions.sequence(12), generator=generator, training=True)
    assert drawn.positions.q.max() > 12
    assert drawn.logits is not None


@pytest.mark.parametrize(
    "chain",
    [
        "{} + interpolate(factor=2)",
        "interpolate(factor=2) + {}",
        "{} + clamp(length=50)",
        "{} + self_extend(group=3, window=4)",
        "{} + lm_infinite(sinks=1, local=4)",
    ],
)
def test_a_bias_that_follows_the_length_does_so_under_a_second_method(chain: str) -> None:
    at = lw.Positions.sequence(12)
    follows = lw.build(f"alibi + {chain.format('dynamic_interpolate(original_length=4)')}", DIMS)
    fixed = lw.build(f"alibi + {chain.format('interpolate(factor=3)')}", DIMS)
    torch.testing.assert_close(follows.logit_bias(at).dense(), fixed.logit_bias(at).dense())
    assert not torch.equal(follows.logit_bias(at.with_target(8)).dense(), follows.logit_bias(at).dense())


@pytest.mark.parametrize("by", ["a", None, True, math.nan, math.inf, torch.tensor(math.nan), [1, 2]])
def test_keys_are_moved_by_numbers_only(by: object) -> None:
    with pytest.raises(lw.InvalidArgument, match="by is how far keys move"):
        lw.extension.move_keys(torch.ones(1, 1, 3, 8), lw.Rotary(8), by)  # pyright: ignore[reportArgumentType]


def test_keys_are_moved_by_a_tensor_of_one_number_as_by_the_number() -> None:
    keys = torch.randn(1, 1, 3, 8, generator=torch.Generator().manual_seed(0))
    one, other = (lw.extension.move_keys(keys, lw.Rotary(8), by) for by in (torch.tensor(3), 3))
    assert torch.equal(one, other)
