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
        max_length: longest sequence in tokens; only learned tables need it.

    Raises:
        InvalidArgument: a size is not a positive whole number, or `heads` does not divide `dim` and
            `head_dim` was not given.
    """

    dim: int
    heads: int
    head_dim: int = 0
    layers: int = 1
    max_length: int = 1024

    def __post_init__(self) -> None:
        for field in fields(self):
            size = getattr(self, field.name)
            derived = field.name == "head_dim" and size == 0
            if isinstance(size, bool) or not isinstance(size, int) or (size < 1 and not derived):
                raise InvalidArgument(f"Dims.{field.name} must be a positive whole number, not {size!r}")
        if self.head_dim == 0:
            if self.dim % self.heads:
                raise InvalidArgument(
                    f"{self.heads} heads do not divide dim {self.dim}: choose a number of heads that does, "
                    "or give head_dim"
                )
            object.__setattr__(self, "head_dim", self.dim // self.heads)
