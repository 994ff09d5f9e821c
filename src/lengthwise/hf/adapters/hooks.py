"""What is hung on a model while an encoding is applied to it: copied with the model, and never pickled with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NoReturn

from lengthwise.errors import InvalidArgument


class Hook:
    """A function on a module of a model.

    A copy of the model has it too, for the copy of the module that owns it. Pickled it would need this package, and the
    encoding, to be read again: that is refused.

    Args:
        function: what is called, with the owner before all other arguments where there is one.
        owner: the module whose part it takes.
    """

    def __init__(self, function: Callable[..., Any], owner: Any = None) -> None:
        self.function, self.owner = function, owner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns."""
        return self.function(*args, **kwargs) if self.owner is None else self.function(self.owner, *args, **kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        return Hook(self.function, copy.deepcopy(self.owner, memo))

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            "a model that has its encoding from apply_to can't be pickled: undo that, and apply it again to what is "
            "read; save_pretrained and state_dict work under it, with the model's own weights"
        )
