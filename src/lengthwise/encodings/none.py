"""No positional encoding: order reaches a causal model through its mask alone.

Haviv et al. 2022 (2203.16634, id UNVERIFIED); Kazemnejad et al. 2023 (2305.19466, id UNVERIFIED), where it is "NoPE".
Without a causal mask nothing tells the tokens apart: the model is then permutation-equivariant.
"""

from __future__ import annotations

from typing import ClassVar

from torch import nn

from lengthwise.encodings.registry import encodings


@encodings.register("none")
class NoPE(nn.Module):
    """Adds nothing anywhere.

    Example:
        >>> import lengthwise as lw
        >>> lw.sites(lw.NoPE())
        ()
    """

    formula: ClassVar[str] = "logit(i, j) = q_i · k_j / sqrt(head_dim)"
    paper: ClassVar[str] = "Kazemnejad et al. 2023, arXiv 2305.19466"
    claims: ClassVar[frozenset[str]] = frozenset({"translation_invariant", "pairwise"})

    def __init__(self) -> None:
        super().__init__()
