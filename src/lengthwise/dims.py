"""The sizes of a model that an encoding may need to know."""

from __future__ import annotations

from dataclasses import dataclass, fields

from lengthwise.errors import InvalidArgument


@dataclass(frozen=True)
class Dims:
    """Sizes of a model, from which `lengthwise.build` fills constructor parameters of the same name.

    Args:
        dim: width of the residual stream.
        heads: number of query heads.
        head_dim: width of one head; `dim // heads` where not given.
        layers: number of layers.
        max_length: longest sequence in tokens; learned tables need it, and it stands for `trained_length`.
        kv_heads: number of key and value heads, for rotations that differ between heads; `heads` where not given.
        trained_length: longest sequence in training, for an encoding whose settings follow it and for extensions, as
            their `original_length`; `max_length` where not given.

    Raises:
        InvalidArgument: a size is not a positive whole number, `heads` does not divide `dim` and `head_dim` was not
            given, or `kv_heads` does not divide `heads`.
    """

    dim: int
    heads: int
    head_dim: int = 0
    layers: int = 1
    max_length: int = 1024
    kv_heads: int = 0
    trained_length: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            derived = field.name in ("head_dim", "kv_heads", "trained_length") and size == 0
            if isinstance(size, bool) or not isinstance(size, int) or (size < 1 and not derived):
                raise InvalidArgument(f"Dims.{field.name} must be a positive whole number, not {size!r}")
        if self.head_dim == 0:
            if self.dim % self.heads:
                raise InvalidArgument(
                    f"{self.heads} heads do not divide dim {self.dim}: choose a number of heads that does, "
                    "or give head_dim"
                )
            object.__setattr__(self, "head_dim", self.dim // self.heads)
        if self.trained_length == 0:
            object.__setattr__(self, "trained_length", self.max_length)
        if self.kv_heads == 0:
            object.__setattr__(self, "kv_heads", self.heads)
        if self.heads % self.kv_heads:
            raise InvalidArgument(f"{self.kv_heads} kv_heads do not divide the {self.heads} heads")
