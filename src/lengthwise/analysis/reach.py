"""How far heads look: the distance to the key that each query attends to most (2305.19466, section 5.1).

d = i - argmax_j attention(i, j), counted from 0;  normalized d / (i + 1), from 0 for itself to below 1 for the first
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from lengthwise.errors import InvalidArgument


def attended_distance(weights: Sequence[Tensor]) -> Float[Tensor, "layers batch heads queries"]:
    """Normalized distance of the key attended to most, for every query of causal attention.

    Args:
        weights: `[batch, heads, length, length]`, one a layer; `Record.weights`.

    Raises:
        InvalidArgument: attention that sees later tokens.

    Example:
        >>> import torch
        >>> attended_distance([torch.eye(3).expand(1, 1, 3, 3)]).flatten().tolist()
        [0.0, 0.0, 0.0]
    """
    found: list[Tensor] = []
    for layer in weights:
        if bool((layer.triu(1) > 0).any()):
            raise InvalidArgument("the attended distance is defined for causal attention, and this sees later tokens")
        place = torch.arange(layer.shape[-2], device=layer.device)
        found.append((place - layer.argmax(dim=-1)) / (place + 1))
    return torch.stack(found)


def histogram(distance: Tensor, bins: int = 10) -> Float[Tensor, " bins"]:
    """Shares of normalized distances in even bins from 0 to 1; they sum to 1."""
    counts = torch.histc(distance.float(), bins=bins, min=0.0, max=1.0)
    return counts / counts.sum()


def mean_distance(weights: Sequence[Tensor]) -> Float[Tensor, "layers heads"]:
    """Mean distance in tokens that each head looks back, weighted by its attention, over queries and examples."""
    place = torch.arange(weights[0].shape[-1], device=weights[0].device)
    back = (place.unsqueeze(-1) - place).clamp(min=0)
    return torch.stack([(layer * back).sum(dim=-1).mean(dim=(0, 2)) for layer in weights])
