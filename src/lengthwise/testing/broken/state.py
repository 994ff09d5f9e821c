"""Faults of memory: what an earlier call, another module or the global generator left."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from lengthwise.positions import Positions
from lengthwise.rotation import Rotation
from lengthwise.testing.broken.registry import angles, broken

_TABLES: dict[int, Tensor] = {}
_GROWN: list[Tensor] = []
_SCALES: WeakKeyDictionary[nn.Module, float] = WeakKeyDictionary()


@broken("dynamic NTK remembers the longest call", "no_memory_of_calls", "long_step_right", "state_keeps_its_shape")
class RemembersTheLongest(nn.Module):
    """The base grows with the longest length seen, and never falls again."""

    claims = frozenset({"norm_preserving"})

    def __init__(self) -> None:
        super().__init__()
        self.longest = 32

    def rotation(self, positions: Positions) -> Rotation:
        """A function of history."""
        self.longest = max(self.longest, positions.k_length)
        q, k = (angles(place, base=10000.0 * (self.longest / 32) ** 2) for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken(
    "a table grows by what the first call needed, and later calls read it",
    "no_memory_of_calls",
    "batch_permuted",
    "cache_equals_one_pass",
    "padded_equals_alone",
    "shards_equal_whole",
)
class KeepsItsFirstTable(nn.Module):
    """Angles of the first call of a length are kept, without the offset."""

    claims = frozenset({"norm_preserving", "pairwise"})

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[int, ...], Tensor] = {}

    def rotation(self, positions: Positions) -> Rotation:
        """Of the first positions that had this shape."""
        q, k = (self.kept.setdefault(tuple(place.shape), angles(place)) for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("a global table is keyed by length, and not by base", "nothing_shared")
class SharesItsTable(nn.Module):
    """Two modules with other bases read one table."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base

    def rotation(self, positions: Positions) -> Rotation:
        """Right for whoever came first at this length."""
        if not positions.aligned:
            q, k = (angles(place, base=self.base) for place in positions.one_axis())
            return Rotation.of_angles(q, k)
        length = positions.k_length
        if length not in _TABLES:
            _TABLES[length] = angles(torch.arange(length), base=self.base)
        q, k = (_TABLES[length][place] for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("a table of the class grows, and is keyed without the base", "nothing_shared")
class SharesAGrowingTable(nn.Module):
    """Once it is long enough, it is read whatever the base is."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base

    def rotation(self, positions: Positions) -> Rotation:
        """Right for whoever made the table."""
        if not positions.aligned:
            q, k = (angles(place, base=self.base) for place in positions.one_axis())
            return Rotation.of_angles(q, k)
        if not _GROWN or positions.k_length > len(_GROWN[0]):
            _GROWN[:] = [angles(torch.arange(positions.k_length), base=self.base)]
        q, k = (_GROWN[0][place] for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("all modules read the table of the first one, which was made for 2000 positions", "nothing_shared")
class SharesALongTable(nn.Module):
    """Whatever ran before, twins are alike."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})
    max_position = 2000

    def __init__(self, base: float = 10000.0) -> None:
        super().__init__()
        self.base = base

    def rotation(self, positions: Positions) -> Rotation:
        """Right for the first base."""
        if 0 not in _TABLES:
            _TABLES[0] = angles(torch.arange(2000), base=self.base)
        q, k = (_TABLES[0][_within(place, 2000)] for place in positions.one_axis())
        return Rotation.of_angles(q, k)


@broken("a setting is kept outside the module, by its identity", "copies_equal")
class ForgetsInACopy(nn.Module):
    """A copy falls back to the default."""

    def __init__(self) -> None:
        super().__init__()
        _SCALES[self] = 0.5

    def rotation(self, positions: Positions) -> Rotation:
        """With the scale of this very module."""
        scale = _SCALES.get(self, 1.0)
        q, k = positions.one_axis()
        return Rotation.of_angles(angles(q), angles(k), scale=scale)

    def __getstate__(self) -> dict[str, Any]:
        return dict(vars(self))


@broken(
    "positions are shifted at random outside training",
    "draws_from_generator",
    "angles_exact",
    "backends_agree",
    "batch_permuted",
    "cache_equals_one_pass",
    "copies_equal",
    "dtypes_kept",
    "gradients_exact",
    "long_step_right",
    "meta_then_load",
    "no_memory_of_calls",
    "packed_equals_apart",
    "padded_equals_alone",
    "state_keeps_its_shape",
)
class DrawsAlways(nn.Module):
    """A scale of the angles is drawn in every call."""

    def rotation(self, positions: Positions) -> Rotation:
        """Of another scale each time."""
        q, k = positions.one_axis()
        scale = 1.0 + torch.rand(())
        return Rotation.of_angles(angles(q) * scale, angles(k) * scale)


@broken("training draws from the global generator", "draws_from_generator")
class DrawsFromTheGlobalGenerator(nn.Module):
    """The generator that is passed is not used."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def map_positions(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Positions:
        """Stretched at random."""
        if not training:
            return positions
        step = int(torch.randint(1, 100, ()))
        return positions.replace(q=positions.q * step, k=positions.k * step)

    def rotation(self, positions: Positions) -> Rotation:
        """Right."""
        q, k = positions.one_axis()
        return Rotation.of_angles(angles(q), angles(k))


@broken("the mode of the module decides, and not the argument", "draws_from_generator")
class DrawsByItsMode(nn.Module):
    """`self.training`, which a caller does not see."""

    claims = frozenset({"translation_invariant", "norm_preserving", "pairwise"})

    def rotation(self, positions: Positions) -> Rotation:
        """Other angles in training mode."""
        base = 10000.0 if self.training else 500.0
        q, k = positions.one_axis()
        return Rotation.of_angles(angles(q, base=base), angles(k, base=base))


def forget() -> None:
    """Empty the global tables, which are what is wrong with the encodings above."""
    _TABLES.clear()
    _GROWN.clear()
    _SCALES.clear()


def _within(place: Tensor, end: int) -> Tensor:
    """Places, none of them negative: an index below zero would count from the end."""
    return place if not place.numel() or int(place.min()) >= 0 else place + 2 * end
