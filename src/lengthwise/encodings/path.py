"""PaTH: positions as products of reflections that the tokens decide (Yang et al. 2025, 2505.16381, id UNVERIFIED).

    logit(i, j) = q_i · H_i H_{i-1} ... H_{j+1} k_j / sqrt(head_dim),   H_t = I - beta_t w_t w_t^T
    w_t = unit(silu(conv(P x_t))),   beta_t = 2 sigmoid(u · x_t + b)

P is a linear map through 32 dims; the convolution is depthwise and causal, over 3 tokens. beta = 0 is NoPE. Each key
head has its own w and beta. First values of the weights, and the guard of the unit length, are UNVERIFIED.

The products are never formed (the UT transform). With the w_t of a block of tokens as rows of W, their beta in the
diagonal D, and M = I + D lower(W W^T), the product over the block is I - W^T M^-1 D W. Over the tokens j < s, t <= i
it gives each pair q_i · k_j - (tril(Q W^T) M^-1 D strict_tril(W K^T))_ij. From block to block, the last one first,
queries are moved back by its product: length^2 head_dim steps for a pass, length block head_dim for one new token.
Published decoding moves cached keys on instead; here a cache holds them as they were, and the state w and beta of all
tokens.

The forget gate of the paper is `path + fox` in a spec: its bias joins after the scale, as FoX has it; FLA's code for
both together joins it before, so that there it is divided by sqrt(head_dim).
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.linalg import solve_triangular

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.hidden import causal_conv, check_read, project
from lengthwise.positions import Positions
from lengthwise.sites import Logits

State = tuple[Tensor, Tensor, Tensor]


@encodings.register("path")
class PaTH(nn.Module):
    """Multiplies each key by the reflections of all tokens between it and the query.

    Positions are not read, only order. Tokens of other documents and padding reflect nothing.

    Args:
        dim: width of the hidden states.
        kv_heads: number of key heads.
        head_dim: width of one head.
        rank: inner width of P.
        conv: tokens that the convolution sees.
        block: tokens whose reflections are taken at a time; it decides speed and memory, not the numbers.

    Example:
        >>> import torch, lengthwise as lw
        >>> q = k = v = torch.randn(1, 4, 16, 8)
        >>> hidden = torch.randn(1, 16, 32)
        >>> lw.attention(q, k, v, lw.PaTH(dim=32, kv_heads=4, head_dim=8), hidden=hidden).shape
        torch.Size([1, 4, 16, 8])
    """

    formula: ClassVar[str] = "logit(i, j) = q_i · (Π_{t=i..j+1} (I - β_t w_t w_tᵀ)) k_j / sqrt(head_dim)"
    paper: ClassVar[str] = "Yang et al. 2025, arXiv 2505.16381"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant"})
    direction: ClassVar[str] = "causal"
    shared: ClassVar[bool] = False

    def __init__(self, dim: int, kv_heads: int, head_dim: int, rank: int = 32, conv: int = 3, block: int = 128) -> None:
        super().__init__()
        sizes = {"dim": dim, "kv_heads": kv_heads, "head_dim": head_dim, "rank": rank, "conv": conv, "block": block}
        for name, size in sizes.items():
            if size < 1:
                raise InvalidArgument(f"{name} must be at least 1, not {size}")
        self.dim, self.kv_heads, self.head_dim = dim, kv_heads, head_dim
        self.rank, self.conv, self.block = rank, conv, block
        self.down = nn.Parameter(torch.empty(rank, dim))
        self.up = nn.Parameter(torch.empty(kv_heads * head_dim, rank))
        self.conv_weight = nn.Parameter(torch.empty(kv_heads * head_dim, conv))
        self.beta_weight = nn.Parameter(torch.empty(kv_heads, dim))
        self.beta_bias = nn.Parameter(torch.empty(kv_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as linear and convolution layers of PyTorch do; biases are 0."""
        for part in (self.down, self.up, self.conv_weight, self.beta_weight):
            nn.init.uniform_(part, -(part.shape[1] ** -0.5), part.shape[1] ** -0.5)
        nn.init.zeros_(self.beta_bias)

    def read(
        self, hidden: Float[Tensor, "batch new dim"], positions: Positions, state: State | None = None
    ) -> tuple[Logits, State]:
        """What computes whole logits of the new queries; the state: the convolution's tail, all w, all beta.

        Raises:
            InvalidArgument: keys before the queries that the state does not know.
        """
        check_read(hidden, positions, 0 if state is None else state[1].shape[2])
        tail, past_w, past_beta = (None, None, None) if state is None else state
        mixed, tail = causal_conv(project(project(hidden, self.down), self.up), self.conv_weight, positions, tail)
        heads = nn.functional.silu(mixed).unflatten(-1, (self.kv_heads, self.head_dim))
        w = nn.functional.normalize(heads, dim=-1, eps=1e-6).transpose(1, 2)  # [batch, kv_heads, new, head_dim]
        beta = 2 * project(hidden, self.beta_weight, self.beta_bias).sigmoid().transpose(1, 2)
        if positions.q_segment is not None:
            beta = beta.masked_fill(positions.q_segment.unsqueeze(1) == -1, 0.0)
        w = w if past_w is None else torch.cat((past_w, w), dim=2)
        beta = beta if past_beta is None else torch.cat((past_beta, beta), dim=2)
        return partial(path_logits, w, beta, positions.k_segment, self.block), (tail, w, beta)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"dim={self.dim}, kv_heads={self.kv_heads}, head_dim={self.head_dim}, rank={self.rank}, "
            f"conv={self.conv}, block={self.block}"
        )


def path_logits(
    w: Float[Tensor, "batch kv_heads k head_dim"],
    beta: Float[Tensor, "batch kv_heads k"],
    segment: Tensor | None,
    block: int,
    q: Float[Tensor, "batch heads q head_dim"],
    k: Float[Tensor, "batch some_heads k head_dim"],
    positions: Positions,
    scale: float,
) -> Float[Tensor, "batch heads q k"]:
    """Logits of queries, which are the last of the keys; at later keys they mean nothing.

    Args:
        w: unit vectors of all tokens.
        beta: of all tokens.
        segment: document of all tokens `[batch or 1, k]`; None where there is one.
        block: tokens at a time.
        q: queries.
        k: keys, of as many heads or fewer.
        positions: not read.
        scale: factor of the product.
    """
    wide = torch.promote_types(q.dtype, w.dtype)
    q, k, w = (_for_heads(x.to(wide), q.shape[1]) for x in (q, k, w))
    beta = _for_heads(beta.to(wide), q.shape[1])
    length, new = k.shape[2], q.shape[2]
    past = length - new
    # A compiler takes all tokens as one block: it would write out the loop, and know one length only.
    whole = torch.compiler.is_compiling()
    starts = (0,) if whole else range(0, length, block)
    columns, moved, known = [q[..., :0]], q[:, :, :0], new  # queries from `known` on have been moved
    with torch.autocast(q.device.type, enabled=False):
        for start in reversed(starts):
            end = length if whole else min(start + block, length)
            first = max(start - past, 0)  # the first query that sees some of the block
            moved, known = torch.cat((q[:, :, first:known], moved), dim=2), first
            own, keys, step = (x[:, :, start:end] for x in (w, k, beta.unsqueeze(-1)))
            touch = (moved @ own.transpose(-1, -2)).tril(past + first - start)  # w_t · q_i, t <= i
            inner = step * (own @ own.transpose(-1, -2)).tril(-1)
            reach = (own @ keys.transpose(-1, -2)).tril(-1)  # w_s · k_j, s > j
            if segment is not None:
                document = segment[:, None, start:end]
                same = document.unsqueeze(-1) == document.unsqueeze(-2)  # [batch or 1, 1, block, block]
                touch = touch * (segment[:, None, past + first :, None] == document.unsqueeze(-2))
                inner = inner * same  # other documents' pairs in `reach` meet zeros of `touch`
            mixed = solve_triangular(inner, touch, upper=False, left=False, unitriangular=True)
            mixed = mixed * step.transpose(-1, -2)
            seen = moved @ keys.transpose(-1, -2) - mixed @ reach
            columns.append(nn.functional.pad(seen, (0, 0, first, 0)))
            moved = moved - mixed @ own
    return torch.cat(columns[::-1], dim=-1) * scale


def _for_heads(x: Tensor, heads: int) -> Tensor:
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], dim=1)
