"""How far heads look, what order does, and what hidden states know of position."""

from __future__ import annotations

import pytest
import torch

import lengthwise as lw
from lengthwise.analysis.constructions import absolute_position
from lengthwise.analysis.order import order_effect, similarity_across_places
from lengthwise.analysis.probes import probe_distance, probe_position
from lengthwise.analysis.reach import attended_distance, histogram, mean_distance
from lengthwise.analysis.record import record
from lengthwise.models import Decoder, Encoder, ModelConfig

CONFIG = ModelConfig(vocabulary=20, dim=32, heads=4, layers=2)


def model(kind: type, spec: str) -> Decoder | Encoder:
    torch.manual_seed(0)
    made = kind(CONFIG, lw.build(spec, CONFIG.dims()))
    with torch.no_grad():
        for block in made.stack.blocks:
            block.attention.q.weight.mul_(3)  # so that attention is not flat
    return made.double()


TOKENS = torch.stack([torch.randperm(20, generator=torch.Generator().manual_seed(row))[:12] for row in range(8)])
ORDER = torch.randperm(12, generator=torch.Generator().manual_seed(9))


def test_a_head_that_attends_to_the_first_token_looks_as_far_as_it_can() -> None:
    first = torch.zeros(1, 1, 5, 5)
    first[..., 0] = 1
    found = attended_distance([first])[0, 0, 0]
    torch.testing.assert_close(found, torch.tensor([0, 1 / 2, 2 / 3, 3 / 4, 4 / 5]))
    assert histogram(found, bins=5).tolist() == pytest.approx([0.2, 0, 0.2, 0.4, 0.2])
    assert mean_distance([first]).item() == pytest.approx(2.0)


def test_attended_distance_of_attention_to_later_tokens_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="causal"):
        attended_distance([torch.full((1, 1, 3, 3), 1 / 3)])


def test_an_encoder_without_an_encoding_is_permutation_equivariant() -> None:
    effect = order_effect(model(Encoder, "none"), TOKENS, ORDER)
    assert effect.largest < 1e-12
    assert min(effect.by_layer) == pytest.approx(1.0)


@pytest.mark.parametrize("spec", ["sinusoidal", "rotary", "alibi", "t5(bidirectional=True)"])
def test_an_encoder_with_an_encoding_is_not(spec: str) -> None:
    assert order_effect(model(Encoder, spec), TOKENS, ORDER).largest > 1e-3


def test_a_decoder_without_an_encoding_knows_order_by_its_mask() -> None:
    effect = order_effect(model(Decoder, "none"), TOKENS, ORDER)
    assert effect.by_layer[0] == pytest.approx(1.0)
    assert effect.by_layer[-1] < 0.999


def test_one_token_repeated_is_the_same_at_every_place_only_without_an_encoding() -> None:
    assert similarity_across_places(model(Encoder, "none"), 3, 8).min().item() == pytest.approx(1.0)
    assert similarity_across_places(model(Encoder, "sinusoidal"), 3, 8).min() < 0.99


def test_an_order_that_is_no_permutation_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="each place from 0 to 11 once"):
        order_effect(model(Encoder, "none"), TOKENS, torch.zeros(12, dtype=torch.int64))


@pytest.mark.parametrize("kind", ["linear", "mlp"])
def test_a_probe_reads_the_position_that_a_construction_wrote_and_none_before(kind: str) -> None:
    tokens = torch.randint(1, 16, (32, 24), generator=torch.Generator().manual_seed(0))
    tokens[:, 0] = 0
    hidden = record(absolute_position(24), tokens).hidden
    assert probe_position(hidden[1], kind).r2 > 0.97  # pyright: ignore[reportArgumentType]
    assert probe_distance(hidden[1], kind).r2 > 0.97  # pyright: ignore[reportArgumentType]
    assert probe_position(hidden[0][:, 1:], kind).r2 < 0.2  # pyright: ignore[reportArgumentType]
    assert abs(probe_position(hidden[1], kind, shuffled=True).r2) < 0.3  # pyright: ignore[reportArgumentType]


def test_a_probe_of_too_few_rows_or_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="at least 4 sequences"):
        probe_position(torch.randn(3, 5, 4))
    with pytest.raises(lw.InvalidArgument, match="did you mean 'linear'"):
        probe_position(torch.randn(8, 5, 4), "liner")  # pyright: ignore[reportArgumentType]
