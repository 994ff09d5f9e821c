"""Where the tokens of one forward pass of a `transformers` model stand, and what they may see.

A model says it in three places: `position_ids`, the mask of padding, and the cache. The positions of keys that wait in
a cache are kept on the cache itself, since the cache has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument
from lengthwise.positions import Positions
from lengthwise.prepared import Prepared, prepare

_ON_CACHE = "_lengthwise_positions"


@dataclass(frozen=True, eq=False)
class Seen:
    """What a mask of `transformers` says, without the mask: no tensor of queries times keys.

    Args:
        padding: bool `[batch, all keys so far]`, True where a token is real; None where all are.
        q_first, k_first: index in the whole sequence of the first query and the first key.
        q_length, k_length: how many there are.
        window: how many tokens back a query sees, itself not counted; None for all.
    """

    padding: Tensor | None
    q_first: int
    k_first: int
    q_length: int
    k_length: int
    window: int | None


@dataclass(eq=False)
class Forward:
    """One forward pass: the positions of its tokens, and what encodings made of them.

    Args:
        q: positions of the new tokens, `[1 or batch, new]`.
        training: whether the model is in training mode.
        target_length: the length to which a length-dependent method is fixed.
        seed: of the draws of encodings that make some, None for none.
    """

    q: Tensor
    training: bool
    target_length: int | None
    seed: int | None = None
    k: Tensor | None = None
    cached: bool = False
    made: dict[Any, Any] = field(default_factory=dict[Any, Any])

    def meet(self, cache: Any, padding: Tensor | None = None) -> None:
        """Learn where the keys of a cache stand, and leave there where the new ones do; once a pass.

        A cache whose rows were chosen, repeated or put in another order holds them as its mask of padding says.
        """
        if self.k is not None:
            return
        self.cached = cache is not None
        past = 0 if cache is None else int(cache.get_seq_length())
        if past == 0:
            self.k = self.q
        else:
            known = getattr(cache, _ON_CACHE, None)
            if known is None or known.shape[1] < past:
                raise InvalidArgument(
                    f"the cache holds {past} tokens from before apply_to, and keys of two encodings do not mix: "
                    "start with an empty cache"
                )
            known = self._rows(known[:, :past], padding)
            rows = max(known.shape[0], self.q.shape[0])
            self.k = torch.cat([part.expand(rows, -1) for part in (known, self.q)], dim=1)
        if cache is not None:
            setattr(cache, _ON_CACHE, self.k)

    def _rows(self, known: Tensor, padding: Tensor | None) -> Tensor:
        """Positions of the keys before, `[1 or batch, past]`, for the rows that the cache has now."""
        if known.shape[0] == 1 or bool((known == known[:1]).all()):
            return known[:1]
        past, rows = known.shape[1], self.q.shape[0] if padding is None else padding.shape[0]
        if known.shape[0] == rows and bool((known[:, -1:] + 1 == self.q[:, :1]).all()):
            return known
        if padding is not None and padding.shape[1] == past + self.q.shape[1]:
            counted = Positions.padded(padding.bool()).q
            if bool((counted[:, past:] == self.q).all()):
                return counted[:, :past]
        if known.shape[0] != rows:
            raise InvalidArgument(
                f"the cache was filled by {known.shape[0]} padded rows, and now has {rows}: give their attention_mask, "
                "[batch, all keys], and no position_ids"
            )
        return known

    def own(self) -> Positions:
        """The new tokens among themselves, for a rotation."""
        return self._once("own", lambda: Positions(_row(self.q), _row(self.q), target_length=self.target_length))

    def rotation(self, encoding: nn.Module) -> Any:
        """What an encoding turns the new queries and keys by."""
        return self._prepare(("rotation", encoding), encoding, self.own()).rotation

    def prepared(self, encoding: nn.Module, seen: Seen) -> Prepared:
        """All that an encoding has to say for the pairs that are seen."""
        positions = self._once(seen, lambda: self._positions(seen))
        return self._prepare((encoding, seen), encoding, positions)

    def _prepare(self, key: Any, encoding: nn.Module, positions: Positions) -> Prepared:
        def make() -> Prepared:
            generator = None if self.seed is None else torch.Generator().manual_seed(self.seed)
            return prepare(encoding, positions, generator=generator, training=self.training)

        # Checkpoints compute a layer again for its gradients, and must find all of it to compute.
        if torch.is_grad_enabled() and any(weight.requires_grad for weight in encoding.parameters()):
            return make()
        return self._once(key, make)

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def _positions(self, seen: Seen) -> Positions:
        q, all_k = self.q, cast(Tensor, self.k)
        k = all_k[:, seen.k_first : seen.k_first + seen.k_length]
        if k.shape[1] != seen.k_length or seen.q_first + seen.q_length != seen.k_first + seen.k_length:
            raise InvalidArgument(
                f"this cache shows {seen.k_length} keys where {k.shape[1]} tokens have been: "
                "use a DynamicCache, the default of transformers, and not one of a fixed size"
            )
        real = None
        if seen.padding is not None:
            real = seen.padding[:, seen.k_first : seen.k_first + seen.k_length]
            real = None if bool(real.all()) else real
        segment = None if real is None else torch.where(real, 0, -1)
        if seen.padding is None and not self.cached:  # several documents in one row
            segment = _documents(k)
        aligned = seen.k_first == 0 and self._aligned(k, segment)
        if segment is None:
            q, k = _row(q), _row(k)
        else:
            rows = max(part.shape[0] for part in (q, k, segment))
            q, k, segment = (part.expand(rows, -1) for part in (q, k, segment))
            if aligned:
                k = torch.where(segment >= 0, k, 0)  # what stands for padding may point anywhere
                q = k[:, k.shape[1] - seen.q_length :]
        return Positions(
            q,
            k,
            q_segment=None if segment is None else segment[:, segment.shape[1] - seen.q_length :],
            k_segment=segment,
            window=seen.window,
            aligned=aligned,
            target_length=self.target_length,
        )

    @staticmethod
    def _aligned(k: Tensor, segment: Tensor | None) -> bool:
        """Whether the positions of real tokens are differences in index, from at least 0; read from the tensors."""
        index = torch.arange(k.shape[1], device=k.device)
        back = index - k  # how far each row, and each document, is shifted
        if segment is None:
            return bool((back == 0).all())
        rows = max(back.shape[0], segment.shape[0])
        back, own = back.expand(rows, -1), segment.expand(rows, -1)
        steady = (back[:, 1:] == back[:, :-1]) | (own[:, 1:] != own[:, :-1])
        whole = _runs(own)  # holes in a row would need a closer look
        return whole and bool((steady | (own[:, 1:] < 0)).all()) and bool((back >= 0)[own >= 0].all())


def draws(encoding: nn.Module) -> bool:
    """Whether an encoding draws random numbers while training, found by asking it; True where it can't be asked."""
    generator = torch.Generator()
    before, at = generator.get_state(), torch.arange(2, device="cpu")
    try:
        prepare(encoding, Positions(at, at), generator=generator, training=True)
    except (InvalidArgument, RuntimeError):  # too small a table, or weights on another device
        return True
    return not torch.equal(before, generator.get_state())


def _row(place: Tensor) -> Tensor:
    """`[length]` where all rows are the same, which keeps fast roads open."""
    same = place.shape[0] == 1 or bool((place == place[:1]).all())
    return place[0] if same else place


def _documents(place: Tensor) -> Tensor | None:
    """Which document each token belongs to, where positions start anew within a row; None for one a row."""
    starts = torch.diff(place, dim=1) != 1
    return None if not bool(starts.any()) else torch.nn.functional.pad(starts.cumsum(1), (1, 0))


def _runs(segment: Tensor) -> bool:
    """Whether the real tokens of each row stand together."""
    real = (segment >= 0).long()
    return bool(((torch.diff(real, dim=1) == 1).sum(1) + real[:, 0] <= 1).all())
