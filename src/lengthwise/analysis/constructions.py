"""Two theorems as weights that run: a decoder without any encoding can know positions and distances.

Kazemnejad et al. 2023 (2305.19466), section 5 and appendix C: a causal decoder without positional encoding can
represent absolute positions (theorem 1) and relative ones (theorem 2). The constructions here were derived anew, and
may number coordinates otherwise than the appendix does. They are ordinary `Decoder`s without norms and with ReLU, whose
weights are set by hand. Coordinates of the hidden state: 0 holds 1, 1 holds 1 at <bos> alone, 2 is free for the
position, then a pair for each frequency, and the content of the token in the rest.

**Absolute.** The first layer attends evenly to all it sees, and only <bos> has something to say there: token t, counted
from 1, receives 1/t. A feed-forward layer that is piecewise linear with knots at 1/N ... 1/1 turns 1/t into t, exactly.
So every token gets a position of its own, not <bos> alone: what it is read from is the denominator of the softmax,
which the causal mask makes different for each.

**Relative.** A later layer whose queries hold (-t, 1) and whose keys hold (1, t) beside the content has logits of
content plus slope times (key - query); with cosines and sines of t in the hidden state, any sum of cosines of distance.

Nothing in the theorems says that training finds such weights, and past N the position stays at N.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from lengthwise.analysis.record import blocks, record
from lengthwise.errors import InvalidArgument
from lengthwise.models.config import ModelConfig
from lengthwise.models.decoder import Decoder

ONE, BOS, POSITION = 0, 1, 2
"""Coordinates of the hidden state: the constant 1, the mark of <bos>, and the position once it is known."""


def absolute_position(
    length: int, *, vocabulary: int = 16, content: int = 13, seed: int = 0, dtype: torch.dtype = torch.float64
) -> Decoder:
    """A decoder without encoding whose first layer writes the position of each token into coordinate 2 (theorem 1).

    Token 0 is <bos> and must come first; it has position 1. Positions past `length` are all `length`.

    Args:
        length: longest sequence whose positions are told apart, <bos> included.
        vocabulary: number of token ids, at least 2.
        content: coordinates of the hidden state that hold what the token is.
        seed: of the random content.
        dtype: of the weights.

    Raises:
        InvalidArgument: a size below 1.

    Example:
        >>> import torch
        >>> from lengthwise.analysis.constructions import absolute_position, read_positions
        >>> model = absolute_position(length=8)
        >>> read_positions(model, torch.tensor([[0, 5, 5, 3]])).round().tolist()
        [[1.0, 2.0, 3.0, 4.0]]
    """
    return _decoder(length, vocabulary, content, (), 1, seed, dtype)


def relative_position(
    length: int,
    *,
    slope: float = 1.0,
    waves: Sequence[tuple[float, float]] = (),
    vocabulary: int = 16,
    content: int = 13,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Decoder:
    """A decoder without encoding whose second layer's logits are content plus a function of distance (theorem 2).

        logit(n, m) = <A q_n, B k_m> + slope (m - n) + sum of amplitude cos(frequency (n - m))

    The first layer is that of `absolute_position`, the second leaves the hidden state as it is.

    Args:
        length: longest sequence whose positions are told apart, <bos> included.
        slope: how fast a logit falls with distance, as in ALiBi.
        waves: pairs (frequency in radians a position, amplitude).
        vocabulary, content, seed, dtype: as for `absolute_position`; A and B are random.

    Raises:
        InvalidArgument: a size below 1.
    """
    model = _decoder(length, vocabulary, content, [frequency for frequency, _ in waves], 2, seed, dtype)
    attention = blocks(model)[1].attention
    generator = torch.Generator().manual_seed(seed + 1)
    first = 3 + 2 * len(waves)
    up = math.sqrt(model.config.head_dim)  # attention divides by it
    q, k = torch.zeros_like(attention.q.weight), torch.zeros_like(attention.k.weight)
    for matrix in (q, k):
        matrix[:content, first:] = (
            torch.randn(content, content, generator=generator, dtype=torch.float64) / content**0.5
        )
    q[:content] *= up
    q[content, POSITION], k[content, ONE] = -slope * up, 1.0
    q[content + 1, ONE], k[content + 1, POSITION] = slope * up, 1.0
    for wave, (_, amplitude) in enumerate(waves):
        for part in (3 + 2 * wave, 4 + 2 * wave):  # cosine and sine of the position
            row = content + 2 + part - 3
            q[row, part], k[row, part] = amplitude * up, 1.0
    with torch.no_grad():
        attention.q.weight.copy_(q)
        attention.k.weight.copy_(k)
    return model


def read_positions(model: Decoder, tokens: Int64[Tensor, "batch length"]) -> Float[Tensor, "batch length"]:
    """The position that the hidden state of a construction holds after its first layer, counted from 1."""
    return record(model, tokens).hidden[1][..., POSITION]


def _decoder(
    length: int, vocabulary: int, content: int, frequencies: Sequence[float], layers: int, seed: int, dtype: torch.dtype
) -> Decoder:
    if length < 1 or vocabulary < 2 or content < 1:
        raise InvalidArgument(
            f"a construction needs a length and content of at least 1 and 2 token ids, not {length}, {content} and "
            f"{vocabulary}"
        )
    dim = 3 + 2 * len(frequencies) + content
    config = ModelConfig(
        vocabulary=vocabulary, dim=dim, layers=layers, heads=1, hidden=length + 2, norm="none", activation="relu"
    )
    with torch.random.fork_rng(devices=[]):
        model = Decoder(config).to(dtype)
    generator = torch.Generator().manual_seed(seed)
    targets: list[Callable[[int], float]] = [float]
    for frequency in frequencies:
        targets += [_wave(math.cos, frequency), _wave(math.sin, frequency)]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        embedding = torch.zeros(vocabulary, dim, dtype=torch.float64)
        embedding[:, ONE], embedding[0, BOS] = 1.0, 1.0
        embedding[:, -content:] = torch.randn(vocabulary, content, generator=generator, dtype=torch.float64)
        model.embedding.weight.copy_(embedding / math.sqrt(dim))  # the decoder multiplies by it
        first = blocks(model)[0]
        attention, feed_forward = first.attention, first.feed_forward
        attention.q.weight[0, ONE] = attention.k.weight[0, ONE] = 1.0  # one logit for all: even attention
        attention.v.weight[0, BOS] = 1.0
        attention.out.weight[POSITION, 0] = 1.0  # 1/t
        up, down = _from_inverse(length, targets, dim)
        feed_forward.up.weight.copy_(up)
        feed_forward.down.weight.copy_(down)
    return model


def _wave(function: Callable[[float], float], frequency: float) -> Callable[[int], float]:
    return lambda t: function(frequency * t)


def _from_inverse(length: int, targets: Sequence[Callable[[int], float]], dim: int) -> tuple[Tensor, Tensor]:
    """Weights of a ReLU layer that maps 1/t to each target(t), into coordinates 2, 3, ..., for t = 1 ... length.

    Each is piecewise linear in u = 1/t: f(u) = f(u_0) + sum of (s_i - s_(i-1)) relu(u - u_i), u_i = 1/(length - i).
    """
    up = torch.zeros(length + 2, dim, dtype=torch.float64)
    down = torch.zeros(dim, length + 2, dtype=torch.float64)
    times = list(range(length, 0, -1))
    knots = [1 / t for t in times]
    for unit, knot in enumerate(knots):
        up[unit, POSITION], up[unit, ONE] = 1.0, -knot
    up[length, ONE] = 1.0  # the constant
    up[length + 1, POSITION] = 1.0  # u itself, which the stream still holds
    for place, target in enumerate(targets):
        values = [target(t) for t in times]
        slopes = [(values[i + 1] - values[i]) / (knots[i + 1] - knots[i]) for i in range(length - 1)]
        before = 0.0
        for unit, slope in enumerate(slopes):
            down[POSITION + place, unit] = slope - before
            before = slope
        down[POSITION + place, length] = values[0]
    down[POSITION, length + 1] = -1.0
    return up, down
