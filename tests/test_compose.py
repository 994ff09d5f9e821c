"""Encodings made of encodings: several at once, one axis of several, one for each layer."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions
from lengthwise.models import Decoder, KVCache, ModelConfig
from lengthwise.sites import cached_keys, direction

Close = Callable[..., None]
DIMS = lw.Dims(dim=16, heads=4, max_length=32)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class Reads(nn.Module):
    """Adds a number that it reads off each key's hidden state, kept in its state."""

    shared = False
    direction = "causal"

    def read(self, hidden: Tensor, positions: Positions, state: Any = None) -> tuple[lw.Bias, Any]:
        seen = hidden[..., 0] if state is None else torch.cat((state, hidden[..., 0]), dim=1)  # [batch, keys]
        return lw.DenseBias(seen[:, None, None].expand(-1, 4, hidden.shape[1], -1)), seen


class Doubles(nn.Module):
    """Maps positions to twice themselves, and is a bias of distance."""

    claims = frozenset({"translation_invariant", "pairwise"})

    def map_positions(self, positions: Positions, *, generator: object, training: bool) -> Positions:
        return positions.replace(q=2 * positions.q, k=2 * positions.k)

    def logit_bias(self, positions: Positions) -> lw.Bias:
        return lw.DistanceBias(lambda distance: -distance.abs().float().expand(4, *distance.shape), positions)


def test_a_combination_acts_where_its_parts_act() -> None:
    assert lw.sites(lw.build("rotary + alibi", DIMS)) == ("rotation", "bias")
    assert lw.sites(lw.build("learned + none", DIMS)) == ("embeddings",)
    assert lw.sites(lw.Combined(lw.NoPE())) == ()
    assert lw.sites(lw.Combined(Reads(), lw.Rotary(4))) == ("rotation", "hidden")


def test_a_combination_rotates_in_order_and_sums_biases(close: Close) -> None:
    q, k, v = normal(1, 4, 6, 4), normal(1, 4, 6, 4, seed=1), normal(1, 4, 6, 4, seed=2)
    both = lw.Combined(lw.Rotary(4), lw.ALiBi(4), lw.Rotary(4, base=7.0), lw.T5Bias(4))
    positions = Positions.sequence(6)
    turned = [q, k]
    for part in (both.parts[0], both.parts[2]):
        turned = list(part.rotation(positions)(*turned))
    bias = both.parts[1].logit_bias(positions).dense() + both.parts[3].logit_bias(positions).dense()
    expected = lw.attend(*turned, v, lw.DenseBias(bias), positions)
    close(lw.attention(q, k, v, both), expected)
    close(lw.attention(q, k, v, lw.prepare(both, positions)), expected)
    close(both.rotation(positions).q(q), turned[0])
    close(both.logit_bias(positions).dense(), bias)


def test_each_part_sees_its_own_map_of_the_positions_and_the_mask_none(close: Close) -> None:
    both = lw.Combined(Doubles(), lw.ALiBi(4, max_bias=4))
    ready = lw.prepare(both, Positions.sequence(5))
    slopes = torch.tensor([0.5, 0.25, 0.125, 0.0625]).view(4, 1, 1)
    distance = Positions.sequence(5).distance()
    close(ready.bias.dense(), -(2 + slopes) * distance.abs())
    assert ready.positions.aligned


def test_a_claim_holds_if_every_part_that_acts_there_makes_it() -> None:
    assert lw.claims(lw.build("rotary + alibi", DIMS)) == set(lw.CLAIMS)
    assert lw.claims(lw.build("alibi + t5", DIMS)) == {"translation_invariant", "pairwise"}
    assert lw.claims(lw.build("learned + rotary", DIMS)) == {"norm_preserving", "pairwise"}
    assert lw.claims(lw.build("none + alibi + none", DIMS)) == lw.claims(lw.build("alibi", DIMS))
    assert "nonpositive" in lw.claims(lw.build("rotary + kerple + sandwich", DIMS))
    assert "nonpositive" not in lw.claims(lw.build("alibi + t5", DIMS))


def test_the_strictest_rule_and_the_narrowest_direction_win() -> None:
    raw = lw.Rotary(4)
    raw.cached_keys = "raw"
    both = lw.Combined(lw.Rotary(4), raw, lw.build("learned", DIMS), Reads())
    assert (cached_keys(both), direction(both), both.max_position, both.shared) == ("raw", "causal", 32, False)


def test_a_combination_is_made_for_the_key_heads_of_its_parts() -> None:
    assert lw.build("rotary + alibi", DIMS).kv_heads is None
    assert lw.build("selective_rope + path", DIMS).kv_heads == 4
    assert lw.build("rotary + fope", lw.Dims(dim=16, heads=4, kv_heads=2)).kv_heads == 2
    assert lw.Combined(lw.MixedRotary(2, 4), lw.Combined(lw.MixedRotary(3, 4), lw.NoPE())).kv_heads == 6
    assert lw.build("randomized(fope)", DIMS).kv_heads == lw.OnAxis(lw.build("fope", DIMS), 0).kv_heads == 4


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], "at least one encoding"),
        (["bidirectional", "causal"], "they can't join"),
        (["logits", "logits"], "two encodings compute whole logits"),
        (["normalizes", "alibi"], "normalizes its rows by itself"),
    ],
)
def test_parts_that_can_not_act_together_are_refused(parts: list[str], message: str) -> None:
    def make(kind: str) -> nn.Module:
        if kind == "alibi":
            return lw.ALiBi(4)
        module = nn.Module()
        if kind in ("logits", "normalizes"):
            module.attention_logits = lambda q, k, positions, scale: q @ k.transpose(-1, -2)
            module.normalizes = kind == "normalizes"
        else:
            module.direction = kind
        return module

    with pytest.raises(lw.InvalidArgument, match=message):
        lw.Combined(*map(make, parts))


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("spec", ["rotary + t5", "learned + alibi", "randomized(t5)"])
def test_copies_stand_on_their_own(spec: str, clone: Callable[[nn.Module], nn.Module]) -> None:
    first = lw.build(spec, DIMS)
    second = clone(first)
    assert lw.sites(first) == lw.sites(second)
    for parameter in first.parameters():
        nn.init.ones_(parameter)
    positions = Positions.sequence(4)
    one, other = lw.prepare(first, positions), lw.prepare(second, positions)
    if one.bias is not None and "t5" in spec:
        assert not torch.equal(one.bias.dense(), other.bias.dense())
    nn.init.ones_(next(second.parameters()))
    if one.bias is not None and "t5" in spec:
        assert torch.equal(one.bias.dense(), lw.prepare(second, positions).bias.dense())


def test_an_axis_of_several_is_read_as_if_it_were_alone(close: Close) -> None:
    place = torch.randint(9, (2, 6, 3), generator=torch.Generator().manual_seed(0))
    positions, column = Positions(place, place), Positions(place[..., 2], place[..., 2])
    q, k, v = normal(2, 4, 6, 4), normal(2, 4, 6, 4, seed=1), normal(2, 4, 6, 4, seed=2)
    for spec in ("rotary", "t5", "rotary + alibi"):
        encoding = lw.build(spec, DIMS)
        on_axis = lw.OnAxis(encoding, axis=2, axes=3)
        assert lw.sites(on_axis) == lw.sites(encoding)
        assert lw.claims(on_axis) == lw.claims(encoding)
        close(lw.attention(q, k, v, on_axis, positions), lw.attention(q, k, v, encoding, column))
    on_axis = lw.OnAxis(lw.Rotary(4), axis=2, axes=3)
    close(on_axis.rotation(positions).k(k), lw.Rotary(4).rotation(column).k(k))


def test_rows_and_columns_can_each_have_their_encoding(close: Close) -> None:
    grid = torch.cartesian_prod(torch.arange(2), torch.arange(3))[None]
    both = lw.Combined(lw.OnAxis(lw.ALiBi(4), axis=0), lw.OnAxis(lw.ALiBi(4), axis=1))
    bias = lw.prepare(both, Positions(grid, grid, causal=False)).bias.dense()
    steps = (grid[0, :, None] - grid[0, None]).abs().sum(-1)
    close(bias[0, 0], -steps / 4)


def test_positions_of_another_number_of_axes_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed here"):
        lw.prepare(lw.OnAxis(lw.Rotary(4), axis=1), Positions.sequence(3))
    with pytest.raises(lw.InvalidArgument, match="axis 2 is none of the 2 axes"):
        lw.OnAxis(lw.Rotary(4), axis=2)


def test_layers_of_a_model_take_each_their_own() -> None:
    config = ModelConfig(vocabulary=7, dim=16, layers=3, heads=4)
    rotary, none = lw.Rotary(4), lw.NoPE()
    torch.manual_seed(0)
    one = Decoder(config, lw.PerLayer([rotary, none, rotary]))
    torch.manual_seed(0)
    other = Decoder(config, [rotary, none, rotary])
    tokens = torch.arange(6)[None]
    assert torch.equal(one(tokens), other(tokens))
    with pytest.raises(lw.InvalidArgument, match="an encoding for each layer"):
        lw.prepare(lw.PerLayer([rotary]), Positions.sequence(3))


def test_what_hidden_states_decide_reaches_attention_and_its_state_the_next_call(close: Close) -> None:
    hidden, q, v = normal(2, 5, 16), normal(2, 4, 5, 4), normal(2, 4, 5, 4, seed=1)
    both = lw.Combined(Reads(), lw.Rotary(4))
    whole = lw.attention(q, q, v, both, hidden=hidden)
    read, state = lw.prepare(both, Positions.step(0, 3)).read(hidden[:, :3])
    close(lw.attention(q[:, :, :3], q[:, :, :3], v[:, :, :3], read), whole[:, :, :3])
    ready = lw.prepare(both, Positions.step(3, 2))
    last = ready.read(hidden[:, 3:], state)[0]
    turn = lw.Rotary(4).rotation(Positions.sequence(5))
    new = ready.rotation_of_new()
    close(lw.attend(new.q(q[:, :, 3:]), turn.k(q), v, last.bias, ready.positions), whole[:, :, 3:])
    with pytest.raises(lw.InvalidArgument, match="reads hidden states: pass hidden="):
        lw.attention(q, q, v, both)


@pytest.mark.parametrize("chunks", [[5], [1] * 5, [2, 3], [4, 1]])
def test_a_model_whose_encoding_reads_hidden_states_decodes_as_in_one_pass(chunks: list[int], close: Close) -> None:
    config = ModelConfig(vocabulary=7, dim=16, layers=2, heads=4)
    torch.manual_seed(0)
    model = Decoder(config, [lw.Combined(Reads(), lw.Rotary(4)), Reads()]).eval()
    tokens = torch.tensor([[1, 4, 2, 0, 6]])
    cache, outs = KVCache(2), []
    with torch.no_grad():
        for part in tokens.split(chunks, dim=1):
            outs.append(model(part, cache=cache))
        close(torch.cat(outs, 1), model(tokens), times=4)


def test_a_model_draws_for_each_row_where_the_encoding_says_so() -> None:
    config = ModelConfig(vocabulary=7, dim=16, layers=1, heads=4)
    tokens = torch.tensor([[1, 2, 3]]).expand(40, 3)
    for spec, rows in (("shape", 40), ("randomized(sinusoidal)", 1), ("shape + rotary", 40)):
        model = Decoder(config, lw.build(spec, config.dims())).train()
        out = model(tokens, generator=torch.Generator().manual_seed(0))
        several = len({tuple(row) for row in out.flatten(1).tolist()})
        assert (several > 1) == (rows > 1)


@pytest.mark.parametrize("spec", ["randomized(rotary)", "randomized(sinusoidal)", "rotary + randomized(t5)"])
def test_an_encoding_that_follows_the_length_decodes_as_in_one_pass_at_the_length_that_was_stated(
    spec: str, close: Close
) -> None:
    config = ModelConfig(vocabulary=50, dim=16, layers=2, heads=4)
    torch.manual_seed(0)
    model = Decoder(config, lw.build(spec, config.dims())).eval()
    tokens = torch.randint(50, (20, 9), generator=torch.Generator().manual_seed(0))
    cache, outs = KVCache(2), []
    with torch.no_grad():
        whole = model(tokens, Positions.sequence(9).with_target(9))
        for start, stop in ((0, 4), (4, 5), (5, 9)):
            positions = Positions.step(start, stop - start).with_target(9)
            outs.append(model(tokens[:, start:stop], positions, cache))
        close(torch.cat(outs, 1), whole, times=8)
        longer = model.generate(tokens[:, :3], 5)
        for length in range(3, 8):
            one_pass = model(longer[:, :length], Positions.sequence(length).with_target(8))
            assert torch.equal(one_pass[:, -1].argmax(-1), longer[:, length])
        with pytest.raises(lw.InvalidArgument, match=r"with_target\(length\) fixes it"):
            model(tokens[:, :1], cache=cache)


def test_a_rotation_beside_whole_logits_is_no_more_invariant() -> None:
    for spec in ("rotary + shaw", "rotary + cope", "rotary + path", "rotary + alibi + deberta"):
        encoding = lw.build(spec, DIMS)
        assert "translation_invariant" not in lw.claims(encoding)
    assert "translation_invariant" in lw.claims(lw.build("shaw + alibi", DIMS))


def test_encodings_of_different_axes_are_not_joined_as_they_are() -> None:
    with pytest.raises(lw.InvalidArgument, match=r"ALiBi reads 1 axis, and another encoding 2: OnAxis"):
        lw.build("alibi2d + alibi", DIMS)
    lw.Combined(lw.ALiBi2D(4), lw.OnAxis(lw.ALiBi(4), axis=1), lw.NoPE())
