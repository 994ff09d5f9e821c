"""`apply_to`: a loaded model of `transformers` with another positional encoding, and back again."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import TracebackType
from typing import Any

from torch import nn

from lengthwise.errors import InvalidArgument

_MARK = "_lengthwise_applied"


class Applied:
    """A model under another encoding, until `undo()` or the end of a `with` block.

    Args:
        model: the model, changed in place.
        encoding: the encoding that it has now.
        undo: what takes the changes back, in the order in which they were made.
    """

    def __init__(self, model: Any, encoding: nn.Module, undo: list[Callable[[], None]]) -> None:
        self.model, self.encoding = model, encoding
        self._undo = undo

    def undo(self) -> None:
        """Give the model back its own encoding, bit for bit; a second call does nothing."""
        while self._undo:
            self._undo.pop()()

    def __enter__(self) -> Applied:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.undo()

    def __repr__(self) -> str:
        return f"Applied({type(self.model).__name__}, {self.encoding!r}{'' if self._undo else ', undone'})"


def apply_to(model: Any, encoding: nn.Module, *, target_length: int | None = None, raw: bool = False) -> Applied:
    """Give a loaded model of `transformers` another positional encoding, without touching its weights.

    An encoding that turns queries and keys as the model itself does is given to the model as cosines and sines. All
    others run in this package's attention over keys that wait in the cache as they were projected: whole logits,
    biases, several maps, and methods whose frequencies follow the length, whose keys are turned anew at each length.
    (What deeper layers kept was still computed at the lengths of then: only `target_length` makes such a method the
    same with a cache and without.) Rows of a padded batch count from their first real token.

    GPT-2, OPT and BERT take encodings of token embeddings in place of their table (`table_of(model)` is the one that
    they have), T5, BLOOM and MPT biases in place of theirs. Parameters of the encoding are no part of the model's
    state dict, and are not moved with it.

    Args:
        model: a model of `transformers`, on any device, in any dtype.
        encoding: an encoding; `lengthwise.PerLayer` where layers differ.
        target_length: the length to which a length-dependent method is fixed; its keys may then be cached turned.
        raw: run in this package's attention in any case, which turns in float32 whatever the dtype of the model.

    Returns:
        What undoes it: `applied.undo()`, or `with apply_to(model, encoding):`.

    Raises:
        InvalidArgument: an unknown architecture, an encoding that acts where the model gives no access, or a model
            that `apply_to` has changed already.

    Example:
        >>> import torch, lengthwise as lw
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> model = LlamaForCausalLM(LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32,
        ...     num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2))
        >>> with apply_to(model, lw.Rotary(head_dim=8, base=500000.0)):
        ...     logits = model(torch.arange(4)[None]).logits
        >>> logits.shape
        torch.Size([1, 4, 32])
    """
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", None)
    if not isinstance(model, nn.Module) or kind is None:
        raise InvalidArgument(f"apply_to takes a loaded model of transformers, not {type(model).__name__}")
    if not isinstance(encoding, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidArgument(
            f"an encoding is a torch.nn.Module, not {encoding!r}: lengthwise.build makes one of a name"
        )
    for module in model.modules():
        if _MARK in vars(module):
            raise InvalidArgument(
                "this model has an encoding from apply_to already: undo that first, and extend an encoding to combine"
            )
    family = _family(kind)
    undo = family(model, encoding, target_length, raw)
    changed = [module for module in model.modules() if hasattr(module, "config")]  # a part of it is changed too
    for module in changed:
        object.__setattr__(module, _MARK, True)
        undo.append(lambda module=module: object.__delattr__(module, _MARK))
    return Applied(model, encoding, undo)


def supported() -> list[str]:
    """Architectures that `apply_to` takes, by their `model_type`."""
    return sorted(kind for name in _FAMILIES for kind in importlib.import_module(f"{_HERE}.{name}").FAMILIES)


_HERE = "lengthwise.hf.adapters"
_FAMILIES = ("rotary", "tables", "biases")


def _family(kind: str) -> Callable[[Any, nn.Module, int | None, bool], list[Callable[[], None]]]:
    for name in _FAMILIES:
        module = importlib.import_module(f"{_HERE}.{name}")
        if kind in module.FAMILIES:
            return module.swap
    raise InvalidArgument(f"apply_to does not know the architecture {kind!r}; it knows {', '.join(supported())}")
