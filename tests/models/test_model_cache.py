"""The cache: any way of cutting a sequence into chunks gives what one pass gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.models import Decoder, KVCache, ModelConfig
from lengthwise.positions import Positions
from lengthwise.rotation import Rotation

Make = Callable[..., Decoder]
Close = Callable[..., None]


class Stretched(nn.Module):
    """A rotary whose base depends on the length so far, as in dynamic NTK: cached keys must stay as they are."""

    cached_keys = "raw"

    def rotation(self, positions: Positions) -> Rotation:
        return lw.Rotary(4, base=100.0 + 50.0 * positions.k_length).rotation(positions)


class RawRotary(nn.Module):
    """A rotary that lets the cache hold keys that are not rotated."""

    cached_keys = "raw"

    def rotation(self, positions: Positions) -> Rotation:
        return lw.Rotary(4).rotation(positions)


class Squeezed(nn.Module):
    """A rotary that reads a third of every position."""

    def map_positions(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Positions:
        return positions.replace(q=positions.q / 3.0, k=positions.k / 3.0)

    def rotation(self, positions: Positions) -> Rotation:
        return lw.Rotary(4).rotation(positions)


class SqueezedRaw(Squeezed):
    """The same over raw keys."""

    cached_keys = "raw"


class Drawn(nn.Module):
    """Positions drawn at random while training, as in randomized positional encodings."""

    def map_positions(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Positions:
        if not training:
            return positions
        drawn = torch.randperm(100, generator=generator)[: positions.k_length].sort().values
        return positions.replace(q=drawn[-positions.q_length :], k=drawn)

    def rotation(self, positions: Positions) -> Rotation:
        return lw.Rotary(4).rotation(positions)


def chunkings(length: int) -> Iterator[list[int]]:
    """All ways to write `length` as a sum of positive numbers, in order."""
    if length == 0:
        yield []
    for first in range(1, length + 1):
        for rest in chunkings(length - first):
            yield [first, *rest]


def in_chunks(model: Decoder, tokens: Tensor, chunks: list[int]) -> Tensor:
    cache = KVCache(model.config.layers)
    return torch.cat([model(part, cache=cache) for part in tokens.split(chunks, dim=1)], dim=1)


def test_there_are_sixteen_ways_to_cut_five_tokens() -> None:
    assert len(list(chunkings(5))) == 16


@torch.no_grad()
def test_every_chunking_gives_what_one_pass_gives(make_decoder: Make, spec: str, tokens: Tensor, close: Close) -> None:
    model = make_decoder(spec)
    whole = model(tokens[:, :5])
    for chunks in chunkings(5):
        close(in_chunks(model, tokens[:, :5], chunks), whole)


@torch.no_grad()
@pytest.mark.parametrize("encoding", [RawRotary(), Squeezed(), SqueezedRaw(), Drawn()], ids=lambda e: type(e).__name__)
def test_every_chunking_holds_for_raw_keys_and_mapped_positions(
    make_decoder: Make, tokens: Tensor, encoding: nn.Module, close: Close
) -> None:
    model = make_decoder(encoding)
    whole = model(tokens[:, :5])
    for chunks in chunkings(5):
        close(in_chunks(model, tokens[:, :5], chunks), whole)


@torch.no_grad()
def test_a_map_of_positions_reaches_the_model(make_decoder: Make, tokens: Tensor, close: Close) -> None:
    place = torch.arange(7) / 3.0
    by_hand = make_decoder("rotary")(tokens, Positions(place, place))
    close(make_decoder(Squeezed())(tokens), by_hand)
    assert not torch.allclose(by_hand, make_decoder("rotary")(tokens))


@torch.no_grad()
def test_raw_keys_are_rotated_for_the_length_so_far(make_decoder: Make, tokens: Tensor, close: Close) -> None:
    model = make_decoder(Stretched(), ModelConfig(vocabulary=11, dim=16, layers=1, heads=4))
    for chunks in ([4, 3], [1] * 7, [6, 1]):  # one layer: earlier outputs, at shorter lengths, feed nothing later
        close(in_chunks(model, tokens, chunks)[:, -chunks[-1] :], model(tokens)[:, -chunks[-1] :])


@torch.no_grad()
def test_grouped_heads_are_cached_as_they_are(make_decoder: Make, tokens: Tensor, close: Close) -> None:
    model = make_decoder("rotary", ModelConfig(vocabulary=11, dim=16, layers=2, heads=4, kv_heads=2))
    cache = KVCache(2)
    first = model(tokens[:, :4], cache=cache)
    k, _ = cache.append(0, torch.zeros(3, 2, 0, 4), torch.zeros(3, 2, 0, 4))
    assert k.shape == (3, 2, 4, 4)
    close(torch.cat((first, model(tokens[:, 4:], cache=cache)), dim=1), model(tokens))


def test_an_encoding_without_a_cache_is_refused_one(make_decoder: Make, tokens: Tensor) -> None:
    encoding = lw.Combined(lw.CAPE(16, normalize=True), lw.Rotary(4))
    assert encoding.cached_keys == "none"
    model = make_decoder(encoding)
    assert model(tokens).isfinite().all()
    cache = KVCache(layers=2)
    model(tokens[:, :3], cache=cache)
    with pytest.raises(lw.InvalidArgument, match="Combined can't decode with a cache"):
        model(tokens[:, 3:], cache=cache)


def test_a_cache_counts_its_tokens(make_decoder: Make, tokens: Tensor) -> None:
    cache = KVCache(2)
    assert cache.length == 0
    make_decoder(None)(tokens, cache=cache)
    assert cache.length == 7


def test_positions_that_forget_the_cache_are_refused(make_decoder: Make, tokens: Tensor) -> None:
    model, cache = make_decoder("rotary"), KVCache(2)
    model(tokens[:, :4], cache=cache)
    with pytest.raises(lw.InvalidArgument, match="3 and 7"):
        model(tokens[:, 4:], Positions.sequence(3), cache)


def test_positions_are_drawn_from_the_generator_and_in_training_only(make_decoder: Make, tokens: Tensor) -> None:
    model = make_decoder(Drawn())

    def logits(seed: int) -> Tensor:
        return model(tokens, generator=torch.Generator().manual_seed(seed))

    assert torch.equal(logits(1), logits(2))
    model.train()
    assert torch.equal(logits(1), logits(1))
    assert not torch.allclose(logits(1), logits(2))
