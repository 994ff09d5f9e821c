"""Whose attention resembles whose: the distance between the attention of two models (2305.19466, section 5.2).

For a layer of two models P and Q that read the same tokens,

    D_l(P, Q) = min over heads a of P and b of Q of the mean over queries t of JSD(P_t^a || Q_t^b)

and D is the mean over layers. JSD is the Jensen-Shannon divergence in nats, from 0 to ln 2. The study's code computes
something else under this name, which is here by the name "authors": the arguments of the divergence are swapped,
0.5 KL(m || p) + 0.5 KL(m || q), which has no upper end, and only pairs of heads a < b are looked at.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from lengthwise.errors import InvalidArgument, nearest

Variant = Literal["true", "authors"]


def attention_distance(
    first: Sequence[Tensor], second: Sequence[Tensor], variant: Variant = "true"
) -> Float[Tensor, "batch layers"]:
    """Distance of the attention of two models, for each example and layer; its mean over layers is D.

    Args:
        first, second: attention weights `[batch, heads, q, k]`, one a layer, of the same tokens; `Record.weights`.
        variant: `"true"`: the Jensen-Shannon divergence over all pairs of heads; `"authors"`: as the study computed it.

    Raises:
        InvalidArgument: other numbers of layers, other tokens, or one head where the authors' variant needs two.

    Example:
        >>> import torch
        >>> weights = [torch.eye(3).expand(1, 2, 3, 3)]
        >>> attention_distance(weights, weights).tolist()
        [[0.0]]
    """
    if variant not in ("true", "authors"):
        raise InvalidArgument(f"unknown variant {variant!r}: {nearest(variant, ('true', 'authors'))}")
    if len(first) != len(second) or not first:
        raise InvalidArgument(f"one model has {len(first)} layers and the other {len(second)}")
    return torch.stack([_layer(p, q, variant) for p, q in zip(first, second, strict=True)], dim=1)


def divergence(p: Tensor, q: Tensor, variant: Variant = "true") -> Float[Tensor, "*rows"]:
    """Divergence of rows of probabilities `[..., k]`, in nats."""
    p, q = p.double(), q.double()
    middle = (p + q) / 2
    if variant == "true":
        return (_relative(p, middle) + _relative(q, middle)) / 2
    return (_relative(middle, p) + _relative(middle, q)) / 2


def _layer(p: Tensor, q: Tensor, variant: Variant) -> Tensor:
    if p.shape[:1] + p.shape[2:] != q.shape[:1] + q.shape[2:]:
        raise InvalidArgument(f"attention {list(p.shape)} and {list(q.shape)} are of different tokens")
    heads = (range(p.shape[1]), range(q.shape[1]))
    pairs = list(itertools.product(*heads))
    if variant == "authors":
        pairs = [(a, b) for a, b in pairs if a < b]
    if not pairs:
        raise InvalidArgument("the authors' variant looks at pairs of heads a < b, and there is one head only")
    means = [divergence(p[:, a], q[:, b], variant).mean(dim=-1) for a, b in pairs]  # [batch] each
    return torch.stack(means).amin(dim=0)


def _relative(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q); a probability that softmax rounded to 0 counts as the smallest number."""
    tiny = torch.finfo(torch.float32).tiny
    return torch.where(p > 0, p * (p.clamp(min=tiny).log() - q.clamp(min=tiny).log()), 0.0).sum(dim=-1)
