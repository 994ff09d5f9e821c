"""FoPE: each pair is turned by a mixture of frequencies (Hua et al. 2024, 2412.17739, id UNVERIFIED).

    cos'_h(p) = cos(p w) C_h,   sin'_h(p) = sin(p w) S_h,   w = the theta_m that are at least 2 pi / trained_length

Frequencies of RoPE that have not come full circle within the trained length are taken for zero and left out; the n
that are kept are mixed by the matrices C and S of each head into those of at most head_dim / 4 pairs, and the other
pairs are not turned. Matrices start as the identity plus normal numbers of standard deviation gain sqrt(2 / (n +
outputs)), Xavier's; the gains published are 0.3, 0.4 and 0.6 for models of 60M, 180M and 1.2B parameters. They are not
trained, and are saved with the model.

The published code fills up the other pairs with 1 for cosine and sine both, so that (x1, x2) becomes (x1 - x2,
x2 + x1): turned by 45 degrees and longer, with twice the dot product. That is a defect; here the sine is 0, as in
vLLM. vLLM also has as many outputs as frequencies (`outputs`), and leaves out a frequency of exactly 2 pi /
trained_length.

A logit depends on both positions, not on their distance, as soon as C or S is not the identity, and norms change.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.rotation import Rotation


@encodings.register("fope")
class FoPE(nn.Module):
    """Turns pairs of dims by fixed random mixtures of RoPE's frequencies, the lowest taken for zero.

    Args:
        kv_heads: number of key heads; query heads that share one share its mixtures.
        head_dim: width of one head, even; the two halves of a head make the pairs.
        trained_length: length on which the model is trained, which decides the frequencies that are kept.
        base: ratio that sets the lowest frequency.
        gain: size of the random part of the mixtures.
        outputs: pairs that are turned; where None the smaller of head_dim / 4 and the number of frequencies.
        learned: whether the mixtures are trained.

    Raises:
        InvalidArgument: settings out of range, or a trained length at which no frequency is kept.

    Example:
        >>> import torch, lengthwise as lw
        >>> encoding = lw.FoPE(kv_heads=2, head_dim=16, trained_length=512)
        >>> encoding.cos_mix.shape  # key heads, frequencies, pairs
        torch.Size([2, 4, 4])
    """

    formula: ClassVar[str] = "q, k <- x cos' + rotate_half(x) sin',  cos' = cos(p ω) C_h,  sin' = sin(p ω) S_h"
    paper: ClassVar[str] = "Hua et al. 2024, arXiv 2412.17739"
    claims: ClassVar[frozenset[str]] = frozenset({"pairwise"})

    def __init__(
        self,
        kv_heads: int,
        head_dim: int,
        trained_length: int,
        base: float = 10000.0,
        gain: float = 0.3,
        outputs: int | None = None,
        learned: bool = False,
    ) -> None:
        super().__init__()
        if kv_heads < 1:
            raise InvalidArgument(f"FoPE needs at least 1 key head, not {kv_heads}")
        if head_dim < 4 or head_dim % 2:
            raise InvalidArgument(f"FoPE turns pairs of dims: head_dim must be even, at least 4, not {head_dim}")
        if not base > 0 or not gain >= 0:
            raise InvalidArgument(f"base must be above 0 and gain at least 0, not {base} and {gain}")
        self.kv_heads, self.head_dim, self.trained_length = kv_heads, head_dim, trained_length
        self.base, self.gain, self.learned = float(base), float(gain), learned
        if not self.frequencies:
            raise InvalidArgument(
                f"trained_length {trained_length} keeps no frequency, since none comes full circle within it: at least "
                "7 is needed"
            )
        most = len(self.frequencies)
        self.outputs = min(most, head_dim // 4) if outputs is None else outputs
        if not 0 < self.outputs <= most:
            raise InvalidArgument(f"outputs must be from 1 to the {most} frequencies that are kept, not {outputs}")
        shape = kv_heads, most, self.outputs
        self.cos_mix = nn.Parameter(torch.empty(shape), requires_grad=learned)
        self.sin_mix = nn.Parameter(torch.empty(shape), requires_grad=learned)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the mixtures anew."""
        most = len(self.frequencies)
        std = self.gain * math.sqrt(2 / (most + self.outputs))
        for mix in (self.cos_mix, self.sin_mix):
            identity = torch.eye(most, self.outputs, device=mix.device, dtype=mix.dtype)
            with torch.no_grad():
                mix.normal_(std=std).add_(identity)

    @property
    def frequencies(self) -> list[float]:
        """Frequencies that are kept, from the highest on."""
        each = (self.base ** (-2 * m / self.head_dim) for m in range(self.head_dim // 2))
        return [theta for theta in each if theta * self.trained_length >= 2 * math.pi]

    def rotation(self, positions: Positions) -> Rotation:
        """Mixed cosines and sines at `positions`, each head with its own."""
        q, k = positions.one_axis()
        q_cos, q_sin = self._tables(q)
        k_cos, k_sin = (q_cos, q_sin) if k is q else self._tables(k)
        return Rotation(q_cos, q_sin, k_cos, k_sin, "half")

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"kv_heads={self.kv_heads}, head_dim={self.head_dim}, trained_length={self.trained_length}, "
            f"base={self.base:g}, gain={self.gain:g}, outputs={self.outputs}, learned={self.learned}"
        )

    def _tables(self, place: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, float32 or wider, `[batch or 1, kv_heads, length, head_dim / 2]`."""
        wide = widest_float(place.device)
        rows = place.to(wide) if place.dim() == 2 else place.to(wide)[None]
        angle = rows[:, None, :, None] * torch.tensor(self.frequencies, device=place.device, dtype=wide)
        with torch.autocast(place.device.type, enabled=False):
            cos, sin = angle.cos() @ self.cos_mix.to(wide), angle.sin() @ self.sin_mix.to(wide)
        rest = self.head_dim // 2 - self.outputs
        cos, sin = nn.functional.pad(cos, (0, rest), value=1.0), nn.functional.pad(sin, (0, rest))
        kept = torch.promote_types(self.cos_mix.dtype, torch.float32)
        return cos.to(kept), sin.to(kept)
