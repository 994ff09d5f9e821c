"""The sizes and choices of a small Transformer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from lengthwise.dims import Dims
from lengthwise.errors import InvalidArgument, nearest

Norm = Literal["rms", "layer", "none"]
Activation = Literal["gelu", "relu", "swiglu"]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and choices of a `Decoder` or an `Encoder`.

    Args:
        vocabulary: number of token ids; 0 stands for "as many as the task has" in an experiment.
        dim: width of the residual stream.
        layers: number of blocks.
        heads: number of query heads; must divide `dim`.
        kv_heads: number of key and value heads (grouped-query attention); `heads` where 0.
        hidden: width of the feed-forward layer; `4 * dim` where 0.
        norm: `"layer"` (LayerNorm), `"rms"` (RMSNorm) or `"none"`, before each half of a block and at the end.
        activation: `"gelu"`, `"relu"` or the gated `"swiglu"`.
        tied: the output layer is the transposed embedding.
        dropout: on attention weights and on the output of each half of a block.

    Raises:
        InvalidArgument: sizes that do not fit together.
    """

    vocabulary: int = 0
    dim: int = 64
    layers: int = 2
    heads: int = 4
    kv_heads: int = 0
    hidden: int = 0
    norm: Norm = "layer"
    activation: Activation = "relu"
    tied: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        for name in ("dim", "layers", "heads"):
            if getattr(self, name) < 1:
                raise InvalidArgument(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("vocabulary", "kv_heads", "hidden"):
            if getattr(self, name) < 0:
                raise InvalidArgument(f"{name} must not be negative, and is {getattr(self, name)}")
        if self.dim % self.heads:
            raise InvalidArgument(
                f"{self.heads} heads do not divide dim {self.dim}: choose for example dim {self.heads * 16}"
            )
        if self.kv_heads and self.heads % self.kv_heads:
            raise InvalidArgument(f"{self.kv_heads} kv_heads do not divide the {self.heads} heads")
        for value, choices in ((self.norm, ("rms", "layer", "none")), (self.activation, ("gelu", "relu", "swiglu"))):
            if value not in choices:
                raise InvalidArgument(f"unknown choice {value!r}: {nearest(value, choices)}")
        if not 0.0 <= self.dropout < 1.0:
            raise InvalidArgument(f"dropout must be in [0, 1), not {self.dropout}")

    @property
    def head_dim(self) -> int:
        """Width of one head."""
        return self.dim // self.heads

    def dims(self, max_length: int = 1024, trained_length: int = 0) -> Dims:
        """The sizes that an encoding may need, for `lengthwise.build`."""
        return Dims(self.dim, self.heads, self.head_dim, self.layers, max_length, self.kv_heads, trained_length)

    def for_vocabulary(self, size: int) -> ModelConfig:
        """The same model with `size` token ids, where the number was left to the task."""
        return replace(self, vocabulary=size) if self.vocabulary == 0 else self
