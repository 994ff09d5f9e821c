"""The slopes of ALiBi, one for each head (Press et al. 2021, section 3)."""

from __future__ import annotations

import math


def alibi_slopes(heads: int, max_bias: float = 8.0) -> list[float]:
    """The published slopes for any number of heads, in the published order.

    Example:
        >>> alibi_slopes(3)
        [0.0625, 0.00390625, 0.25]
    """
    power = 2 ** math.floor(math.log2(heads))
    own = [2 ** (-max_bias * h / power) for h in range(1, power + 1)]
    between = [2 ** (-max_bias * h / (2 * power)) for h in range(1, 2 * power + 1, 2)]
    return own + between[: heads - power]
