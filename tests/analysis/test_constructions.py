from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.analysis.constructions import POSITION, absolute_position, read_positions, relative_position
from lengthwise.analysis.record import record


def tokens(length: int, rows: int = 3) -> Tensor:
    drawn = torch.randint(1, 16, (rows, length), generator=torch.Generator().manual_seed(0))
    drawn[:, 0] = 0
    return drawn


def test_the_first_layer_writes_the_position_of_every_token() -> None:
    found = read_positions(absolute_position(64), tokens(64))
    expected = torch.arange(1, 65, dtype=torch.float64).expand(3, 64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_the_first_layer_changes_no_other_coordinate() -> None:
    seen = record(absolute_position(64), tokens(64))
    kept = [place for place in range(seen.hidden[0].shape[-1]) if place != POSITION]
    torch.testing.assert_close(seen.hidden[1][..., kept], seen.hidden[0][..., kept], rtol=0, atol=1e-12)


def test_attention_of_the_first_layer_is_even_so_that_every_token_gets_a_number_of_its_own() -> None:
    weights = record(absolute_position(8), tokens(8)).weights[0][0, 0]
    torch.testing.assert_close(weights, torch.ones(8, 8).double().tril() / torch.arange(1, 9).double()[:, None])


def test_past_its_length_the_position_stays_at_the_last() -> None:
    found = read_positions(absolute_position(16), tokens(40))
    torch.testing.assert_close(found[:, 16:], torch.full((3, 24), 16.0).double(), rtol=0, atol=1e-9)


def test_in_float32_the_position_is_good_to_a_hundredth_at_length_64() -> None:
    model = absolute_position(64, dtype=torch.float32)
    error = (read_positions(model, tokens(64)) - torch.arange(1, 65)).abs().max().item()
    assert 1e-7 < error < 1e-2


def test_without_bos_first_there_is_no_position_to_read() -> None:
    found = read_positions(absolute_position(16), tokens(8)[:, 1:])
    assert bool((found == 16).all())  # 1/t never arrives: as if infinitely late


@pytest.mark.parametrize("waves", [(), ((0.3, 2.0),), ((0.1, 1.0), (1.7, -0.5))])
def test_logits_of_the_second_layer_are_content_plus_a_function_of_distance(
    waves: tuple[tuple[float, float], ...],
) -> None:
    model = relative_position(64, slope=0.5, waves=waves)
    seen = record(model, tokens(64))
    attention, hidden = model.stack.blocks[1].attention, seen.hidden[1]
    content = 13
    q = hidden @ attention.q.weight[:content].T / math.sqrt(model.config.head_dim)
    k = hidden @ attention.k.weight[:content].T
    place = torch.arange(64, dtype=torch.float64)
    distance = place[:, None] - place
    of_distance = -0.5 * distance
    for frequency, amplitude in waves:
        of_distance = of_distance + amplitude * torch.cos(frequency * distance)
    expected = q @ k.transpose(-1, -2) + of_distance
    mask = torch.ones(64, 64, dtype=torch.bool).tril()
    torch.testing.assert_close(seen.logits[1][:, 0][:, mask], expected[:, mask], rtol=0, atol=1e-9)
    assert (q @ k.transpose(-1, -2)).std() > 0.1


def test_a_slope_alone_attends_as_alibi_does() -> None:
    model = relative_position(32, slope=0.25, content=1)
    attention = model.stack.blocks[1].attention
    with torch.no_grad():
        attention.q.weight[:1] = 0
    weights = record(model, tokens(32)).weights[1][0]
    alibi = lw.ALiBi(heads=1, max_bias=2)
    q = torch.zeros(1, 1, 32, 8)
    torch.testing.assert_close(weights.float(), lw.attention_weights(q, q, alibi)[0])


@pytest.mark.parametrize("sizes", [{"length": 0}, {"length": 4, "vocabulary": 1}, {"length": 4, "content": 0}])
def test_a_size_without_sense_is_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(lw.InvalidArgument, match="at least 1"):
        absolute_position(**sizes)


def test_a_construction_of_one_token_knows_it() -> None:
    assert read_positions(absolute_position(1), tokens(1)).tolist() == [[1.0]] * 3
