"""The encoding under test: how it is made, what it says of itself, and positions that it can take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lengthwise.compose import PerLayer
from lengthwise.dims import Dims
from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.sites import CACHE_RULES, DIRECTIONS, SITES

Make = Callable[[], nn.Module]
TARGET = 96
"""The length to which length-dependent encodings are fixed, and longer than any sequence of the checks."""


@dataclass(frozen=True)
class Case:
    """Sizes of one input.

    Args:
        batch: rows.
        length: tokens.
        kv_heads: heads of keys and values; 0 for as many as query heads.
    """

    batch: int = 2
    length: int = 7
    kv_heads: int = 0


class Subject:
    """A maker of encodings, with all that the checks want to know of what it makes.

    Args:
        make: returns a fresh module at each call.
        dims: sizes of the inputs.
        cases: shapes of the inputs; a choice that covers grouped queries and short lengths where None.
    """

    def __init__(self, make: Make, dims: Dims | None = None, cases: Sequence[Case] | None = None) -> None:
        self.make = make
        self.dims = dims or Dims(dim=32, heads=4, head_dim=8)
        one = self.build()
        self.type = type(one)
        self.sites = frozenset(site for site, method in SITES.items() if hasattr(one, method))
        # Unknown words are for one check to tell; the others go on with the defaults.
        self.claims = frozenset(str(claim) for claim in getattr(one, "claims", ()))
        self.direction = _known(getattr(one, "direction", "any"), DIRECTIONS, "any")
        self.cached_keys = _known(getattr(one, "cached_keys", "rotated"), CACHE_RULES, "rotated")
        self.axes = max(1, int(getattr(one, "axes", 1)))
        self.max_position: int | None = getattr(one, "max_position", None)
        self.learned = [name for name, part in one.named_parameters() if part.is_floating_point()]
        self.cases = tuple(self._cases(one) if cases is None else cases)

    @property
    def causal(self) -> bool:
        """Whether most checks use causal attention."""
        return self.direction != "bidirectional"

    @property
    def ways(self) -> tuple[bool, ...]:
        """Causal attention or not: both where it is made for any."""
        return {"causal": (True,), "bidirectional": (False,)}.get(self.direction, (True, False))

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return getattr(self.make, "label", None) or self.type.__name__

    def build(self, dtype: torch.dtype = torch.float32, *, rounded: torch.dtype | None = None) -> nn.Module:
        """A module with generic parameters, the same at each call.

        Each parameter keeps its own first value, with some noise: zeros at first would hide faults, and numbers of
        another kind would break what the encoding may count on. `rounded` rounds parameters first, so that a module
        moved to that dtype holds the same ones.
        """
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)  # torch.manual_seed formats a traceback for each absent accelerator
            if torch.cuda.is_initialized():
                torch.cuda.manual_seed_all(0)
            encoding = self.make()
        if not isinstance(encoding, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidArgument(f"an encoding is a torch.nn.Module, not {encoding!r}: pass what makes one")
        if isinstance(encoding, PerLayer):
            raise InvalidArgument(f"{encoding!r} holds an encoding for each layer: give one of its encodings")
        generator = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in encoding.parameters():
                if parameter.is_floating_point() and not parameter.is_meta:
                    parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator).to(parameter.dtype))
                    if rounded is not None:
                        parameter.copy_(parameter.to(rounded))
        return encoding.to(dtype)

    def heads_of_keys(self, case: Case) -> int:
        """Number of key heads in a case."""
        return case.kv_heads or self.dims.heads

    def fits(self, length: int) -> int:
        """A length, or the longest that the encoding takes."""
        return length if self.max_position is None else min(length, self.max_position)

    # --- positions ----------------------------------------------------------------------------------------------

    def place(self, index: Tensor) -> Tensor:
        """Positions of tokens by their index: as it is for one axis, `[1, length, axes]` coordinates for several."""
        if self.axes == 1:
            return index
        index = index if index.dim() == 2 else index[None]
        digits = [(index // 3**axis) % 3 if axis < self.axes - 1 else index // 3**axis for axis in range(self.axes)]
        return torch.stack(digits[::-1], dim=-1)  # the first axis has no end, the others 3 steps each

    def sequence(
        self, length: int, *, causal: bool | None = None, target: bool = True, window: int | None = None
    ) -> Positions:
        """One sequence that attends to itself."""
        index = torch.arange(length)
        return self.part(index, index, causal=causal, target=target, window=window)

    def part(
        self,
        q: Tensor,
        k: Tensor,
        *,
        causal: bool | None = None,
        target: bool = True,
        ordered: bool = False,
        window: int | None = None,
    ) -> Positions:
        """Tokens `q` that attend to tokens `k` of one sequence, both by index `[length]`.

        `ordered` says their order too, which any others than the last keys need.
        """
        q_place, k_place = self.place(q), self.place(k)
        if q.shape == k.shape and torch.equal(q, k):
            k_place = q_place
        return Positions(
            q_place,
            k_place,
            q_order=q if ordered else None,
            k_order=k if ordered else None,
            causal=self.causal if causal is None else causal,
            window=window,
            aligned=self.axes == 1 and not ordered,
            target_length=self._target(target),
        )

    def window(self, start: int, length: int, causal: bool | None = None) -> Positions:
        """A sequence whose positions begin at `start` on every axis, and step on all of them at once."""
        place = torch.arange(start, start + length)
        place = place if self.axes == 1 else place[None, :, None].expand(1, length, self.axes).contiguous()
        return Positions(
            place, place, causal=self.causal if causal is None else causal, target_length=self._target(True)
        )

    def far(self, length: int = 64) -> int:
        """Where the far window of `length` tokens starts: at 2^20, or at the end of a table."""
        from lengthwise.testing.tolerances import FAR

        return FAR if self.max_position is None else max(0, self.max_position - length)

    def padded(self, mask: Tensor, causal: bool | None = None) -> Positions:
        """Rows padded left or right, `mask [batch, length]` true where a token is real."""
        return self._of(Positions.padded(mask, causal=self.causal if causal is None else causal))

    def packed(self, lengths: Sequence[int], causal: bool | None = None) -> Positions:
        """Documents one after another in one row."""
        return self._of(Positions.packed(lengths, causal=self.causal if causal is None else causal))

    def rows(self, positions: Positions, batch: int) -> Positions:
        """The same positions written out for each row of a batch, without any promise."""
        q, k = positions.q, positions.k
        q, k = (x[None] if x.dim() == 1 else x for x in (q, k))
        return positions.replace(
            q=q.expand(batch, *q.shape[1:]).contiguous(), k=k.expand(batch, *k.shape[1:]).contiguous()
        )

    def _of(self, base: Positions) -> Positions:
        """Segments and places by index as those of the encoding, with all promises."""
        q = base.q if self.axes == 1 else self.place(base.q)
        return Positions(
            q,
            q,
            q_segment=base.q_segment,
            k_segment=base.k_segment,
            causal=base.causal,
            aligned=self.axes == 1,
            target_length=self._target(True),
        )

    def _target(self, wanted: bool) -> int | None:
        return (self.max_position or TARGET) if wanted and self.cached_keys == "rotated_at_target_length" else None

    def _cases(self, one: nn.Module) -> list[Case]:
        heads, own = self.dims.heads, getattr(one, "kv_heads", None)
        choices: set[int] = {self.dims.kv_heads, heads, 1} | ({heads // 2} if heads % 2 == 0 else set())
        if isinstance(own, int) and own:  # made for this number of key heads, and for no other
            choices = {own}
        grouped = sorted(choices, reverse=True)
        first = grouped[0]
        longer = [Case(2, self.fits(7), number) for number in grouped]
        return [*longer, Case(3, 1, first), Case(1, 0, first), Case(0, self.fits(3), first)]


def _known(word: object, words: Sequence[str], default: str) -> str:
    return word if isinstance(word, str) and word in words else default
