"""What encodings that read hidden states share: wide projections, a short causal convolution, sums of forget gates.

All of it is float32 or wider, whatever the module's dtype and autocast are. What a padding token holds never reaches
another token, nor a state; documents packed one after another do not reach into each other.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from lengthwise.bias import LowRankBias
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import widest_float


def check_read(hidden: Tensor, positions: Positions, past: int | None) -> None:
    """Raise `InvalidArgument` unless tokens and positions agree, and the state is of all keys before the queries.

    Args:
        hidden: `[batch, new, dim]` of the queries' tokens.
        positions: of the queries, and of all keys.
        past: how many tokens the state is of; None where it does not know.
    """
    positions.check_tokens(hidden)
    before = positions.k_length - positions.q_length
    if past is not None and before != past:
        raise InvalidArgument(
            f"the state is of {past} earlier tokens, and these positions have {before} keys before the queries: pass "
            "the state that the call before returned, and none at the beginning"
        )


def project(
    x: Float[Tensor, "batch new size"], weight: Float[Tensor, "out size"], bias: Float[Tensor, " out"] | None = None
) -> Float[Tensor, "batch new out"]:
    """A linear map in float32 or wider."""
    wide = torch.promote_types(torch.promote_types(x.dtype, weight.dtype), torch.float32)
    with torch.autocast(x.device.type, enabled=False):
        return functional.linear(x.to(wide), weight.to(wide), None if bias is None else bias.to(wide))


def causal_conv(
    x: Float[Tensor, "batch new channels"],
    weight: Float[Tensor, "channels width"],
    positions: Positions,
    tail: Float[Tensor, "batch before channels"] | None,
) -> tuple[Float[Tensor, "batch new channels"], Float[Tensor, "batch before channels"]]:
    """A depthwise convolution over each token and the `width - 1` before it in its own document.

    Args:
        x: of the new tokens.
        weight: the last column multiplies the token itself.
        positions: of the new tokens, and of all tokens so far.
        tail: what the last call returned; None at the beginning.

    Returns:
        The convolution, zero at padding; and the inputs of the last `width - 1` tokens.
    """
    before, new = weight.shape[1] - 1, x.shape[1]
    if positions.q_segment is not None:
        x = x.masked_fill(positions.q_segment.unsqueeze(-1) == -1, 0.0)
    tail = x.new_zeros(x.shape[0], before, x.shape[2]) if tail is None else tail
    line = torch.cat((tail, x), dim=1)  # [batch, before + new, channels]
    out = torch.zeros_like(x)
    for back in range(before + 1):
        part = line[:, before - back : before - back + new]
        same = _same_document(positions, before, back)
        part = part if same is None else part * same
        out = out + part * weight[:, before - back].to(x.dtype)
    return out, line[:, new:]


def forgetting(
    log_gates: Float[Tensor, "batch new heads"], positions: Positions, past: Tensor | None
) -> tuple[LowRankBias, Float[Tensor, "batch heads keys"]]:
    """The bias c_i - c_j of log gates whose running sum is c: what the gates of tokens j + 1 to i let through.

    Sums are float64 where the device has it: far along a sequence they are large, and neighbours all but cancel.

    Args:
        log_gates: of the new tokens, float32 or wider.
        positions: of the new tokens, and of all keys.
        past: the running sums of earlier tokens `[batch, heads, past]`; None at the beginning.

    Returns:
        The bias of the new queries on all keys, and the running sums of all tokens.
    """
    gates = log_gates.transpose(1, 2).to(widest_float(log_gates.device))  # [batch, heads, new]
    if positions.q_segment is not None:
        gates = gates.masked_fill(positions.q_segment.unsqueeze(1) == -1, 0.0)
    sums = gates.cumsum(dim=-1)
    keys = sums
    if past is not None:
        sums = sums + past[..., -1:].sum(-1, keepdim=True)  # a sum, so that no past tokens are 0
        keys = torch.cat((past, sums), dim=-1)
    bias = LowRankBias(torch.ones_like(sums).unsqueeze(-1), -keys.unsqueeze(-1), sums, dtype=log_gates.dtype)
    return bias, keys


def _same_document(positions: Positions, before: int, back: int) -> Tensor | None:
    """Whether the token `back` before each new one is of its document, `[batch or 1, new, 1]`; None where all are."""
    if positions.q_segment is None or positions.k_segment is None or back == 0:
        return None
    known = functional.pad(positions.k_segment, (before, 0), value=-1)
    first = positions.k_length - positions.q_length + before - back
    near = known[:, first : first + positions.q_length]
    return (near == positions.q_segment).unsqueeze(-1)
