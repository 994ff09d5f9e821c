"""Small models with an encoding of each kind; the conformance kit asks every registered one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.models import Decoder, Encoder, ModelConfig
from lengthwise.sites import direction

CONFIG = ModelConfig(vocabulary=11, dim=16, layers=2, heads=4)


@pytest.fixture(params=["none", "learned", "sinusoidal", "rotary", "alibi", "t5", "kerple", "rotary + alibi"])
def spec(request: pytest.FixtureRequest) -> str:
    """An encoding of each kind in turn."""
    return request.param


@pytest.fixture
def config() -> ModelConfig:
    """Two layers of width 16."""
    return CONFIG


@pytest.fixture
def tokens() -> Tensor:
    """Three rows of seven random ids."""
    return torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def make_decoder() -> Callable[..., Decoder]:
    """`make_decoder(spec or encoding, config)`: the same weights every time, in evaluation mode."""

    def make(encoding: str | nn.Module | list[nn.Module] | None = None, config: ModelConfig = CONFIG) -> Decoder:
        torch.manual_seed(0)
        if isinstance(encoding, str):
            encoding = lw.build(encoding, config.dims(max_length=32))
        return Decoder(config, encoding).eval()

    return make


@pytest.fixture
def make_encoder() -> Callable[..., Encoder]:
    """`make_encoder(spec, config)`: as above, with the bidirectional form of encodings that have two."""

    def make(spec: str | None = None, config: ModelConfig = CONFIG) -> Encoder:
        torch.manual_seed(0)
        encoding = None if spec is None else lw.build(spec, config.dims(max_length=32))
        if encoding is not None and direction(encoding) == "causal":
            encoding = lw.build(f"{spec}(bidirectional=True)", config.dims(max_length=32))
        return Encoder(config, encoding).eval()

    return make
