"""M-RoPE: one rotation for text, images and videos (Qwen2-VL, Wang et al. 2024, 2409.12191, id UNVERIFIED).

    pair m is turned by p_a(m) base^(-2m / head_dim),   a(m) one of time, row and column

Frequencies are those of RoPE over the whole head; each pair reads one of the three coordinates. Text has the same
number on all three, so that it is turned as by RoPE, bit for bit: positions of one axis mean that here.

- in sections (Qwen2-VL, (16, 24, 24) for 64 pairs): time has the highest frequencies, column the lowest.
- interleaved (Qwen3-VL, 2511.21631, id UNVERIFIED; (24, 20, 20)): time, row, column by turns, and time alone at the
  lowest, when the others have had their number.

The released models set their own base (`rope_theta` in their configs). `mrope_positions` says where the tokens of text,
images and videos stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from lengthwise.encodings.registry import encodings
from lengthwise.errors import InvalidArgument, nearest
from lengthwise.positions import Positions
from lengthwise.precision import widest_float
from lengthwise.rotation import Layout, Rotation
from lengthwise.spectrum import Spectrum


@encodings.register("mrope")
class MRoPE(nn.Module):
    """Rotates queries and keys by time, row and column, pairs of dims for each; text as by RoPE.

    Args:
        head_dim: width of one head, even.
        sections: pairs for time, row and column. None: as Qwen has them, in proportion to what is rotated. In
            sections, time has a quarter of the pairs, rounded down, and row and column half of the rest each;
            interleaved, row and column have 5/16 each, rounded down, and time the rest. An odd one goes to the row.
        base: ratio that sets the lowest frequency.
        interleaved: whether time, row and column take turns (Qwen3-VL), or each has a section (Qwen2-VL).
        layout: which dims make a pair, `"half"` as published, or `"interleaved"`.
        fraction: part of each head that is rotated, its first dims (GLM-4.5V 0.5, Qwen3.5 0.25).

    Raises:
        InvalidArgument: sections that do not sum to rotary_dim / 2, or that have no room to take turns; when called,
            positions of 2 axes or of more than 3.

    Example:
        >>> import torch, lengthwise as lw
        >>> place = torch.tensor([[[0, 0, 0], [1, 1, 1], [1, 1, 2], [3, 3, 3]]])  # text, two patches in a row, text
        >>> q = k = torch.randn(1, 2, 4, 128)
        >>> q, k = lw.MRoPE(head_dim=128).rotation(lw.Positions(place, place))(q, k)
    """

    formula: ClassVar[str] = "q_i, k_j <- R(p_i) q_i, R(p_j) k_j,  angle of pair m: (t, row or column) base^(-2m / d)"
    paper: ClassVar[str] = "Wang et al. 2024, arXiv 2409.12191"
    claims: frozenset[str] = frozenset({"translation_invariant", "norm_preserving", "pairwise"})
    axes: ClassVar[int] = 3

    def __init__(
        self,
        head_dim: int,
        sections: Sequence[int] | None = None,
        base: float = 10000.0,
        interleaved: bool = False,
        layout: Layout = "half",
        fraction: float = 1.0,
    ) -> None:
        super().__init__()
        if not 0 < fraction <= 1:
            raise InvalidArgument(f"fraction is the part of the head that is rotated, above 0 to 1, not {fraction}")
        rotary_dim = int(head_dim * fraction)
        if rotary_dim < 2 or rotary_dim % 2:
            raise InvalidArgument(
                f"MRoPE turns pairs of dims: head_dim must be even, at least 2, not {head_dim}"
                + ("" if fraction == 1 else f", of which fraction {fraction} leaves {rotary_dim}")
            )
        if not base > 0:
            raise InvalidArgument(f"base must be above 0, not {base}")
        if layout not in ("half", "interleaved"):
            raise InvalidArgument(f"unknown layout {layout!r}: {nearest(layout, ('half', 'interleaved'))}")
        self.head_dim, self.base, self.interleaved = head_dim, float(base), interleaved
        self.fraction, self.rotary_dim = float(fraction), rotary_dim
        self.layout: Layout = layout
        self.sections = _scaled(rotary_dim // 2, interleaved) if sections is None else tuple(sections)
        if len(self.sections) != 3 or min(self.sections) < 0 or sum(self.sections) != rotary_dim // 2:
            half = "head_dim / 2" if fraction == 1 else "rotary_dim / 2"
            raise InvalidArgument(
                f"sections must be 3 numbers of pairs (time, row, column) that sum to {half} = {rotary_dim // 2}, "
                f"not {self.sections}, which sum to {sum(self.sections)}"
            )
        if sorted(self.axis_of_pair) != sorted(_in_sections(self.sections)):
            raise InvalidArgument(
                f"sections {self.sections} can't take turns: the last turn of row and of column is past the last pair; "
                "give time more, or interleaved=False"
            )
        self._own = Spectrum.of_base(self.base, rotary_dim)  # no buffer: float64 whatever `.to()` does

    @property
    def axis_of_pair(self) -> list[int]:
        """The coordinate that each pair reads: 0 time, 1 row, 2 column."""
        if not self.interleaved:
            return _in_sections(self.sections)
        turns = [0] * (self.rotary_dim // 2)
        for axis in (1, 2):
            for m in range(axis, min(3 * self.sections[axis], len(turns)), 3):
                turns[m] = axis
        return turns

    @property
    def spectrum(self) -> Spectrum:
        """Frequencies of the pairs, whichever coordinate each reads; what extensions change."""
        return self._own

    def with_spectrum(self, spectrum: Spectrum) -> MRoPE:
        """The same encoding at other frequencies; itself is left as it is.

        Raises:
            InvalidArgument: a spectrum for another number of dims.
        """
        if spectrum.rotary_dim != self.rotary_dim:
            raise InvalidArgument(
                f"a spectrum of {spectrum.rotary_dim} dims does not fit the {self.rotary_dim} that are rotated"
            )
        other = type(self)(self.head_dim, self.sections, spectrum.base, self.interleaved, self.layout, self.fraction)
        other._own = spectrum
        if isinstance(spectrum.attention_factor, Tensor) or spectrum.attention_factor != 1.0:
            other.claims = self.claims - {"norm_preserving"}  # cosines and sines that are multiplied change lengths
        return other

    def rotation(self, positions: Positions) -> Rotation:
        """The rotation at `positions`, `[batch or 1, length, 3]`, or of one axis where all is text."""
        return self.rotation_by(self.spectrum, positions)

    def rotation_by(self, spectrum: Spectrum, positions: Positions) -> Rotation:
        """The rotation at `positions` by frequencies that may follow from the length of the sequence."""
        q, k = positions.one_axis() if positions.axes == 1 else positions.several_axes(3)
        several = positions.axes != 1
        q_angles = self._angles(q, several, spectrum)
        k_angles = q_angles if k is q else partial(self._angles, k, several, spectrum)
        if callable(k_angles) and (k.requires_grad or spectrum.inv_freq.requires_grad):
            k_angles = k_angles()
        return Rotation.of_angles(q_angles, k_angles, self.layout, spectrum.attention_factor)

    def extra_repr(self) -> str:
        """Settings, for `print`."""
        return (
            f"head_dim={self.head_dim}, sections={self.sections}, base={self.base:g}, interleaved={self.interleaved}, "
            f"layout={self.layout!r}, fraction={self.fraction:g}"
        )

    def _angles(self, place: Tensor, several: bool, spectrum: Spectrum) -> Float[Tensor, "*rows length pairs"]:
        wide = widest_float(place.device)
        of_pair = place[..., self.axis_of_pair] if several else place.unsqueeze(-1)
        return of_pair.to(wide) * spectrum.inv_freq.to(place.device, wide)


def mrope_positions(
    pieces: Sequence[int | tuple[int, int, int]], *, interval: float = 1.0, then: Literal["largest", "grid"] = "largest"
) -> Int64[Tensor, "1 length 3"]:
    """Positions (time, row, column) of a sequence of text, images and videos, for one row of a batch.

    Text counts on, the same on all axes. An image or a video that begins at c has time c + floor(frame * interval), row
    c + r, column c + s. Text behind it goes on after the largest position in use, as in the paper; `transformers` 5.24
    goes on at c + max(rows, columns), which is the same for images, and which positions of a longer video overlap.

    Args:
        pieces: in order, a number of tokens of text, or (frames, rows, columns) of tokens, after any merging.
        interval: positions between frames: 1 in Qwen2-VL; tokens per second times seconds per frame in Qwen2.5-VL.
        then: `"largest"`, or `"grid"` for `transformers` 5.24.

    Raises:
        InvalidArgument: sizes below 0, or no sizes at all; an interval below 0, or an unknown `then`.

    Example:
        >>> import lengthwise as lw
        >>> from lengthwise.encodings.mrope import mrope_positions
        >>> place = mrope_positions([2, (1, 1, 2), 1])  # two tokens of text, two patches in a row, one more of text
        >>> place[0].tolist()
        [[0, 0, 0], [1, 1, 1], [2, 2, 2], [2, 2, 3], [4, 4, 4]]
        >>> last = lw.Positions(place[:, -1:], place)  # a step: the last token is new
    """
    if then not in ("largest", "grid"):
        raise InvalidArgument(f"unknown then {then!r}: {nearest(then, ('largest', 'grid'))}")
    if not interval >= 0:
        raise InvalidArgument(f"interval must be at least 0, not {interval}")
    parts, start = [torch.empty(0, 3, dtype=torch.int64)], 0
    for piece in pieces:
        sizes = (piece,) if isinstance(piece, int) else tuple(piece)
        if len(sizes) not in (1, 3) or min(sizes) < 0:
            raise InvalidArgument(f"a piece is a number of tokens or (frames, rows, columns) of them, not {piece}")
        if len(sizes) == 1:
            place = torch.arange(sizes[0]).unsqueeze(-1).expand(-1, 3)
        else:
            frames, rows, columns = (torch.arange(size) for size in sizes)
            place = torch.cartesian_prod((frames * interval).floor().long(), rows, columns)
        parts.append(place + start)
        if len(sizes) == 3 and then == "grid":
            start += max(sizes[1:])
        elif len(place):
            start = int(parts[-1].max()) + 1
    return torch.cat(parts)[None]


def _in_sections(sections: tuple[int, ...]) -> list[int]:
    return [axis for axis, pairs in enumerate(sections) for _ in range(pairs)]


def _scaled(pairs: int, interleaved: bool) -> tuple[int, int, int]:
    if interleaved:
        each = 5 * pairs // 16
        return pairs - 2 * each, each, each
    rest = pairs - pairs // 4
    return pairs // 4, rest - rest // 2, rest // 2
