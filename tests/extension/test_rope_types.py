"""Frequencies against those of `transformers`, for each of its types, over settings drawn at random."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import lengthwise as lw
from lengthwise.extension import Method
from lengthwise.spectrum import Spectrum

HEAD_DIMS = st.sampled_from([16, 32, 64, 80, 128])
FRACTIONS = st.sampled_from([1.0, 0.5, 0.25])
BASES = st.floats(1e3, 1e6)
LENGTHS = st.integers(64, 100_000)
FACTORS = st.floats(1.0, 64.0)


def theirs(
    rope_type: str, head_dim: int, base: float, fraction: float, trained: int, length: int | None = None, **more: Any
) -> tuple[torch.Tensor, float]:
    rope = {"rope_type": rope_type, "rope_theta": base, "partial_rotary_factor": fraction, **more}
    config = LlamaConfig(
        hidden_size=2 * head_dim,
        num_attention_heads=2,
        head_dim=head_dim,
        max_position_embeddings=trained,
        rope_parameters=rope,
    )
    inv_freq, attention_factor = ROPE_INIT_FUNCTIONS[rope_type](config, torch.device("cpu"), seq_len=length)
    return inv_freq.double(), float(attention_factor)


def ours(
    method: Method, head_dim: int, base: float, fraction: float, length: int | None = None
) -> tuple[torch.Tensor, float]:
    spectrum: Spectrum = lw.extend(lw.Rotary(head_dim, base, fraction), method).spectrum_at(length)
    return spectrum.inv_freq, float(spectrum.attention_factor)


def agree(close, mine: tuple[torch.Tensor, float], other: tuple[torch.Tensor, float], base: float) -> None:
    pairs = len(mine[0])
    plain = Spectrum.of_base(base, 2 * pairs).inv_freq
    # As shares of the plain frequencies, which transformers forms in float32: a few roundings of a logarithm's size.
    close(mine[0] / plain, other[0] / plain, of=torch.float32, times=2)
    assert mine[1] == pytest.approx(other[1], rel=1e-12)


@given(HEAD_DIMS, FRACTIONS, BASES, FACTORS)
def test_linear(close, head_dim: int, fraction: float, base: float, factor: float) -> None:
    other = theirs("linear", head_dim, base, fraction, 2048, factor=factor)
    agree(close, ours(lw.Interpolate(factor), head_dim, base, fraction), other, base)


@given(HEAD_DIMS, FRACTIONS, BASES, LENGTHS, st.floats(1.0, 8.0), st.floats(0.1, 16.0))
def test_dynamic(close, head_dim: int, fraction: float, base: float, trained: int, factor: float, reach: float) -> None:
    length = math.ceil(trained * reach)
    other = theirs("dynamic", head_dim, base, fraction, trained, length, factor=factor)
    agree(close, ours(lw.DynamicNTK(factor, trained), head_dim, base, fraction, length), other, base)


@given(
    HEAD_DIMS,
    FRACTIONS,
    BASES,
    LENGTHS,
    FACTORS,
    st.floats(0.5, 4.0),
    st.floats(4.0, 64.0),
    st.booleans(),
    st.sampled_from([{}, {"attention_factor": 1.25}, {"mscale": 0.707, "mscale_all_dim": 1.0}, {"mscale": 0.707},
                     {"mscale_all_dim": 1.0}, {"mscale": 1.0, "mscale_all_dim": 0.0}]),
)  # fmt: skip
def test_yarn(
    close,
    head_dim: int,
    fraction: float,
    base: float,
    trained: int,
    factor: float,
    slow: float,
    times: float,
    truncate: bool,
    more: dict[str, float],
) -> None:
    settings = {"beta_slow": slow, "beta_fast": slow * times, "truncate": truncate, **more}
    other = theirs(
        "yarn", head_dim, base, fraction, trained, factor=factor, original_max_position_embeddings=trained, **settings
    )
    agree(close, ours(lw.YaRN(factor, trained, **settings), head_dim, base, fraction), other, base)


@given(HEAD_DIMS, FRACTIONS, BASES, LENGTHS, FACTORS, st.randoms(use_true_random=False), st.booleans())
def test_longrope(close, head_dim: int, fraction: float, base: float, trained: int, factor: float, draw, given) -> None:
    pairs = int(head_dim * fraction) // 2
    short, long = ([draw.uniform(1, top) for _ in range(pairs)] for top in (1.5, 1.25 * factor))
    more = {"attention_factor": 1.1} if given else {"factor": factor}
    method = lw.LongRoPE(short, long, trained, **more)
    for length in (1, trained, trained + 1, 4 * trained):
        other = theirs(
            "longrope", head_dim, base, fraction, trained, length, short_factor=short, long_factor=long,
            original_max_position_embeddings=trained, **more,
        )  # fmt: skip
        agree(close, ours(method, head_dim, base, fraction, length), other, base)


@given(HEAD_DIMS, FRACTIONS, BASES, LENGTHS, FACTORS, st.floats(0.25, 4.0), st.floats(1.0, 8.0))
def test_llama3(
    close, head_dim: int, fraction: float, base: float, trained: int, factor: float, low: float, more: float
) -> None:
    other = theirs(
        "llama3", head_dim, base, fraction, trained, factor=factor, original_max_position_embeddings=trained,
        low_freq_factor=low, high_freq_factor=low + more,
    )  # fmt: skip
    agree(close, ours(lw.Llama3(factor, trained, low, low + more), head_dim, base, fraction), other, base)


@given(HEAD_DIMS, BASES, FACTORS, st.floats(0.0, 1.0))
def test_proportional(close, head_dim: int, base: float, factor: float, fraction: float) -> None:
    other = theirs("proportional", head_dim, base, fraction, 2048, factor=factor)
    agree(close, ours(lw.Proportional(fraction, factor), head_dim, base, 1.0), other, base)


def test_these_are_all_types_of_transformers() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(ROPE_INIT_FUNCTIONS) <= tested
