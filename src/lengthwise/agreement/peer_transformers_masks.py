"""Windows and chunks of `transformers`, which are masks there and biases of -inf here."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lengthwise.agreement.comparison import Comparison, Make
from lengthwise.agreement.ours import bias, encoding
from lengthwise.agreement.peers import module
from lengthwise.agreement.place import Place


def _seen_here(spec: str) -> Make:
    """Which pairs of a causal sequence are seen, as ones and zeros."""
    return lambda place: bias(encoding(spec), place.positions)[0].exp().tril().to(place.dtype)


def _seen_there(name: str, *settings: Any) -> Make:
    def made(place: Place) -> Tensor:
        seen = getattr(module("transformers.masking_utils"), name)(*settings)
        found = seen(torch.tensor(0), torch.tensor(0), place.index[:, None], place.index[None, :])
        return found.to(place.dtype)

    return made


def _mask(spec: str, part: str, theirs: Make) -> Comparison:
    dtypes = (torch.float32,)
    return Comparison(spec, "transformers", part, "seen pairs", _seen_here(spec), theirs, dtypes=dtypes)


COMPARISONS = (
    # A window there counts the token itself.
    _mask("window(window=31)", "window of 32", _seen_there("sliding_window_causal_mask_function", 32)),
    _mask(
        "chunks(chunk=32)",
        "chunks of 32",
        _seen_there("chunked_causal_mask_function", 32, torch.zeros(1, dtype=torch.int64)),
    ),
)
