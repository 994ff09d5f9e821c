"""Rows of symbols side by side: what tasks put their prompts, answers and scratchpads together from.

Every piece is int64 `[batch, columns]` with symbol ids, and `BLANK` where a row has no symbol.
"""

from __future__ import annotations

import torch
from jaxtyping import Int64
from torch import Tensor

BLANK = -1


def beside(batch: int, *pieces: int | Tensor, device: torch.device | None = None) -> Int64[Tensor, "batch columns"]:
    """Pieces from left to right: a symbol for every row, one a row `[batch]`, or several a row `[batch, columns]`.

    They go to the device of the first tensor, or to `device` where all are symbols.

    Example:
        >>> beside(2, 7, torch.tensor([1, 2]), torch.tensor([[5, 6], [5, -1]])).tolist()
        [[7, 1, 5, 6], [7, 2, 5, -1]]
    """
    device = next((piece.device for piece in pieces if isinstance(piece, Tensor)), device)
    columns: list[Tensor] = []
    for piece in pieces:
        if isinstance(piece, int):
            columns.append(torch.full((batch, 1), piece, dtype=torch.int64, device=device))
        else:
            columns.append(piece.reshape(batch, -1))
    return torch.cat(columns, dim=1) if columns else torch.empty(batch, 0, dtype=torch.int64, device=device)


def digits_of(numbers: Int64[Tensor, "*shape"], width: int) -> Int64[Tensor, "*shape {width}"]:
    """Decimal digits of numbers from 0 to 10^width - 1, the highest first, with blanks for leading zeros.

    Example:
        >>> digits_of(torch.tensor([0, 42, 305]), 3).tolist()
        [[-1, -1, 0], [-1, 4, 2], [3, 0, 5]]
    """
    powers = 10 ** torch.arange(width - 1, -1, -1, device=numbers.device)
    number = numbers.unsqueeze(-1)
    return (number // powers % 10).where((number >= powers) | (powers == 1), BLANK)


def signed_digits_of(numbers: Int64[Tensor, "*shape"], width: int, minus: int) -> Int64[Tensor, "*shape columns"]:
    """The digits of whole numbers, with the symbol `minus` before those below 0: `width + 1` columns."""
    sign = torch.where(numbers < 0, minus, BLANK).unsqueeze(-1)
    return torch.cat([sign, digits_of(numbers.abs(), width)], dim=-1)


def chosen_places(generator: torch.Generator, batch: int, places: int, count: int) -> Int64[Tensor, "{batch} {count}"]:
    """`count` different places out of `places`, in random order, every choice as likely."""
    keys = torch.rand(batch, places, generator=generator, device=generator.device)
    return keys.argsort(dim=1)[:, :count]
