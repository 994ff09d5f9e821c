"""Positions that are read off the tokens: places within numbers, for arithmetic.

- Abacus (McLeish et al. 2024, arXiv 2405.17399, id UNVERIFIED; code `mcleish7/arithmetic`, `abacus.py`): a digit's
  place within its number, so that digits of the same weight share a position. Numbers have to be written least
  significant digit first.
- Position coupling (Cho et al. 2024, arXiv 2405.20671, id UNVERIFIED; code `HanseulJo/position-coupling`,
  `src/data/addition.py`): all tokens of an addition that bear on the same digit of the answer share one position.

Both train one learned table, `Learned`, from random offsets, so that its later rows are trained too. These are
functions and no encodings: positions are an argument, and what a token may see goes by its order, which they leave.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Int64
from torch import Tensor

from lengthwise.errors import InvalidArgument


def abacus_positions(
    tokens: Int64[Tensor, "batch length"], digits: Sequence[int], *, offset: int = 0
) -> Int64[Tensor, "batch length"]:
    """Place of each digit within its number, counted from 1, plus `offset`; 0 for every token that is no digit.

    Row 0 of the table is learned like the others, as published. A number of n digits needs n + offset + 1 rows;
    the published table has 1024.

    Args:
        tokens: ids of the tokens; numbers written least significant digit first.
        digits: ids of the ten digits.
        offset: added to the places of digits, not to 0: `abacus_offset` while training, 0 in evaluation.

    Raises:
        InvalidArgument: tokens of another rank, or an offset below 0.

    Example:
        >>> import torch, lengthwise as lw
        >>> from lengthwise.token_positions import abacus_positions
        >>> tokens = torch.tensor([[7, 4, 10, 5, 8, 11, 2, 3, 1]])  # 47 + 85 = 132, each written backwards
        >>> places = abacus_positions(tokens, digits=range(10))
        >>> places.tolist()
        [[1, 2, 0, 1, 2, 0, 1, 2, 3]]
        >>> positions = lw.Positions.sequence(9).replace(q=places, k=places)
        >>> lw.Learned(dim=16, max_length=1024).embed_positions(torch.zeros(1, 9, 16), positions).shape
        torch.Size([1, 9, 16])
    """
    if offset < 0:
        raise InvalidArgument(f"offset must be at least 0, not {offset}: draw one with abacus_offset")
    before, _ = _runs(tokens, digits)
    return torch.where(before > 0, before + offset, 0)


def abacus_offset(generator: torch.Generator | None = None, largest: int = 99) -> int:
    """One offset for a whole batch, from 0 to `largest`, which can be drawn (the published draw).

    Args:
        generator: source of the draw; PyTorch's own where None.
        largest: largest offset; 99 as published.

    Raises:
        InvalidArgument: `largest` below 0.

    Example:
        >>> import torch
        >>> from lengthwise.token_positions import abacus_offset
        >>> 0 <= abacus_offset(torch.Generator().manual_seed(0), largest=99) <= 99
        True
    """
    if largest < 0:
        raise InvalidArgument(f"largest must be at least 0 (no offset at all), not {largest}")
    device = None if generator is None else generator.device
    return int(torch.randint(largest + 1, (), generator=generator, device=device))


def coupled_positions(
    tokens: Int64[Tensor, "batch length"],
    digits: Sequence[int],
    plus: int,
    equals: int,
    *,
    reversed_answer: bool = False,
    answer_digits: int | None = None,
    start: int | Tensor = 1,
) -> Int64[Tensor, "batch length"]:
    """Coupled positions of additions `a + b = c`, with operands written most significant digit first.

    With s the start: a digit of weight 10^t has s + 1 + t, in a, b and c alike; `+` has s; `=` has s where the answer
    is reversed, else s + n + 1 with n the digits of the answer, as if it stood before them; all else has 0. The
    published data pads both operands with zeros to the same number of digits.

    Args:
        tokens: ids of the tokens, one addition a row, with padding on any side.
        digits: ids of the ten digits.
        plus: id of the plus sign.
        equals: id of the equals sign, behind which the answer stands.
        reversed_answer: whether the answer is written least significant digit first.
        answer_digits: digits of a whole answer. None: those that stand there, which is right for whole answers; while
            an answer that is not reversed is being written, its first digit can't know its weight otherwise.
        start: s, one for all or int64 `[batch]`: `coupling_start` while training, 1 in evaluation.

    Raises:
        InvalidArgument: tokens of another rank, a start below 1 or that matches no batch, `answer_digits` below 1.

    Example:
        >>> import torch, lengthwise as lw
        >>> from lengthwise.token_positions import coupled_positions
        >>> tokens = torch.tensor([[4, 7, 10, 8, 5, 11, 2, 3, 1]])  # 47 + 85 = 231, the answer backwards
        >>> places = coupled_positions(tokens, range(10), plus=10, equals=11, reversed_answer=True)
        >>> places.tolist()
        [[3, 2, 1, 3, 2, 1, 2, 3, 4]]
        >>> positions = lw.Positions.sequence(9).replace(q=places, k=places)
    """
    before, after = _runs(tokens, digits)
    if answer_digits is not None and answer_digits < 1:
        raise InvalidArgument(f"answer_digits must be at least 1, not {answer_digits}")
    first = _starts(start, tokens)
    behind = (tokens == equals).cumsum(-1) > 0
    if answer_digits is None:
        count = (behind & (before > 0)).sum(-1, keepdim=True)  # [batch, 1]
        answer_weight = before if reversed_answer else after
    else:
        count = answer_digits
        answer_weight = before if reversed_answer else answer_digits + 1 - before
    weight = torch.where(behind, answer_weight, after)  # 1 + t at digits, 0 elsewhere
    places = torch.where(before > 0, first + weight, 0)
    places = torch.where(tokens == plus, first, places)
    return torch.where(tokens == equals, first if reversed_answer else first + count + 1, places)


def coupling_start(
    answer_digits: int,
    max_position: int,
    *,
    reversed_answer: bool = False,
    rows: int = 1,
    generator: torch.Generator | None = None,
) -> Int64[Tensor, " rows"]:
    """Random starts for `coupled_positions`, evenly from all at which no position passes `max_position`.

    The published draw leaves out the high end that it names: max_position - answer_digits, one more where the answer
    is reversed. That is just what keeps the largest position at `max_position`; the table then has one row more, for 0.

    Args:
        answer_digits: digits of the answer.
        max_position: largest position; 132 in the published settings of addition.
        reversed_answer: whether the answer is written least significant digit first.
        rows: how many to draw, one a row of the batch.
        generator: source of the draw; PyTorch's own where None.

    Raises:
        InvalidArgument: a `max_position` that the answer does not fit under.

    Example:
        >>> import torch
        >>> from lengthwise.token_positions import coupling_start
        >>> coupling_start(3, 4, reversed_answer=True, rows=5)
        tensor([1, 1, 1, 1, 1])
    """
    high = max_position - answer_digits + (1 if reversed_answer else 0)
    if high <= 1:
        raise InvalidArgument(
            f"an answer of {answer_digits} digits needs max_position of at least {max_position + 2 - high}, "
            f"not {max_position}"
        )
    device = None if generator is None else generator.device
    return torch.randint(1, high, (rows,), generator=generator, device=device)


def _runs(tokens: Tensor, digits: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Place of each digit in its run, counted from 1 from the left and from the right; 0 at other tokens."""
    if tokens.dim() != 2:
        raise InvalidArgument(f"tokens must be [batch, length], not of shape {list(tokens.shape)}")
    is_digit = torch.isin(tokens, torch.tensor(list(digits), device=tokens.device, dtype=tokens.dtype))
    index = torch.arange(1, tokens.shape[1] + 1, device=tokens.device).expand_as(tokens)
    if tokens.shape[1] == 0:
        return index, index
    last_other = torch.where(is_digit, 0, index).cummax(-1).values
    beyond = torch.where(is_digit, tokens.shape[1] + 1, index)
    next_other = beyond.flip(-1).cummin(-1).values.flip(-1)
    return index - last_other, next_other - index


def _starts(start: int | Tensor, tokens: Tensor) -> Tensor:
    """Starts as int64 `[batch or 1, 1]`."""
    first = torch.as_tensor(start, device=tokens.device)
    if first.dim() > 1 or first.is_floating_point() or (first.dim() == 1 and len(first) not in (1, len(tokens))):
        raise InvalidArgument(
            f"start must be one whole number, or one for each of {len(tokens)} rows, not of shape {list(first.shape)} "
            f"and {first.dtype}"
        )
    if isinstance(start, int) and start < 1:
        raise InvalidArgument(f"start must be at least 1, not {start}: 0 is the position of all other tokens")
    return first.reshape(-1, 1)
