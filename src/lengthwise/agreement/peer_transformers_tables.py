"""What models of `transformers` add to token embeddings: sinusoids in their variants, and a learned table."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from lengthwise.agreement import exact
from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import added, embeddings, encoding
from lengthwise.agreement.peers import model
from lengthwise.agreement.place import Place


def _sum(place: Place, table: Tensor) -> Tensor:
    """Embeddings and the last rows of a table, in the dtype of the place."""
    return embeddings(place) + table[-place.length :].to(place.dtype)


def _frozen(name: str, made: str) -> Make:
    def theirs(place: Place) -> Tensor:
        embedding = getattr(model(name), made)(place.start + place.length, 64)
        return _sum(place, embedding.create_weight())

    return theirs


def _grown(name: str, made: str, skipped: int = 0) -> Make:
    def theirs(place: Place) -> Tensor:
        table = getattr(model(name), made).get_embedding(place.start + place.length + skipped, 64)
        return _sum(place, table[: place.start + place.length])

    return theirs


def _whisper(place: Place) -> Tensor:
    return _sum(place, model("whisper").sinusoids(place.start + place.length, 64))


def _opt(place: Place) -> Tensor:
    theirs = model("opt").OPTLearnedPositionalEmbedding(place.length, 64)
    theirs.weight[theirs.offset :] = encoding("learned").table
    found = theirs.to(place.dtype)(torch.ones(1, place.length, dtype=torch.int64))
    return embeddings(place) + found


def _learned(place: Place) -> Tensor:
    return encoding("learned").to(place.dtype).embed_positions(embeddings(place), place.positions)


def _exact(last: int, order: Callable[[Tensor, Tensor], Tensor]) -> Make:
    return lambda place: embeddings(place).double() + order(*exact.sinusoids(place, last=last))


def _half(sines: Tensor, cosines: Tensor) -> Tensor:
    return torch.cat((sines, cosines), -1)


def _sinusoids(
    variant: str, part: str, theirs: Make, starts: tuple[int, ...] = (0, 65536), why: str = ""
) -> Comparison:
    spec = f"sinusoidal(variant='{variant}')"
    by_paper = _exact(int(variant == "tensor2tensor"), _half)
    return Comparison(
        spec, "transformers", part, "embeddings", added(spec), theirs, by_paper, starts=starts, why=why or _FAR
    )


_FAR = (
    "The table is formed in float32: at position 65,536 an angle is known to 1/256 of a radian. The sums differ "
    "by {far32} there and by {float32} at positions 0 to 127; from the formula in float64 theirs is off by "
    "{theirs_far32}, ours by {ours_far32}."
)
_MUSICGEN = (
    "MusicGen has all cosines first, then all sines, the other way round than fairseq and tensor2tensor: the same "
    "numbers in another order, {float32} apart. Its checkpoints need its order: swap the halves. Far angles are "
    "rounded as in the other tables."
)

COMPARISONS = (
    # Marian forms its table number by number in Python: far positions would take minutes.
    _sinusoids("half", "Marian", _frozen("marian", "MarianSinusoidalPositionalEmbedding"), (0,)),
    _sinusoids("half", "RoFormer", _frozen("roformer", "RoFormerSinusoidalPositionalEmbedding"), (0,)),
    _sinusoids("tensor2tensor", "M2M100", _grown("m2m_100", "M2M100SinusoidalPositionalEmbedding", 2)),
    _sinusoids("tensor2tensor", "Speech2Text", _grown("speech_to_text", "Speech2TextSinusoidalPositionalEmbedding", 2)),
    _sinusoids("tensor2tensor", "Whisper", _whisper),
    _sinusoids("tensor2tensor", "MusicGen", _grown("musicgen", "MusicgenSinusoidalPositionalEmbedding"), why=_MUSICGEN),
    Comparison("learned", "transformers", "OPT", "embeddings", _learned, _opt, starts=(0,)),
)
