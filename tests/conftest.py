"""Shape checks, one thread and one table of tolerances for all tests."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import hypothesis
import jaxtyping
import pytest
import torch
from beartype import beartype

# A job that a shell put into the background ignores Ctrl-C, and tests that press it would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def check_tensors(function: FunctionType) -> FunctionType:
    """Check the shapes and dtypes of tensors, once a call has returned.

    Once it has returned, so that a wrong shape meets the error that a user would get; what a function lets pass must
    agree with its signature. Other types are left to the static checker: tests pass wrong ones on purpose.
    """
    hints = function.__annotations__
    if hints.get("return") is Any:  # the half that jaxtyping runs before the call
        return function
    function.__annotations__ = {name: hint for name, hint in hints.items() if "Tensor" in str(hint)}
    return beartype(function)


# The hook wants the name of a checker. Before the first import of the package: from here on its every call is checked.
sys.modules["tensor_checks"] = ModuleType("tensor_checks")
vars(sys.modules["tensor_checks"])["check_tensors"] = check_tensors
jaxtyping.install_import_hook("lengthwise", "tensor_checks.check_tensors")

torch.set_num_threads(1)

hypothesis.settings.register_profile("lengthwise", deadline=None, database=None, derandomize=True, max_examples=40)
hypothesis.settings.load_profile("lengthwise")

TOLERANCE = {
    # A few roundings of numbers near 1, in units of the dtype's epsilon.
    torch.float64: 64 * torch.finfo(torch.float64).eps,
    torch.float32: 32 * torch.finfo(torch.float32).eps,
    torch.float16: 4 * torch.finfo(torch.float16).eps,
    torch.bfloat16: 4 * torch.finfo(torch.bfloat16).eps,
}

Close = Callable[..., None]


@pytest.fixture(scope="session")
def tolerance() -> dict[torch.dtype, float]:
    """Relative and absolute tolerance of results near 1, by dtype."""
    return TOLERANCE


@pytest.fixture(scope="session")
def close() -> Close:
    """`close(actual, expected, of=None, times=1)`: equal within `times` the tolerance of `of`, or actual's dtype."""

    def check(actual: torch.Tensor, expected: torch.Tensor, of: torch.dtype | None = None, times: float = 1.0) -> None:
        allowed = times * TOLERANCE[of or actual.dtype]
        torch.testing.assert_close(actual, expected, rtol=allowed, atol=allowed, check_dtype=False)

    return check


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest first, so that no process is left alone with one at the end."""
    long = ("testing", "attention", "report")
    items.sort(key=lambda item: not any(f"tests/{name}/" in item.path.as_posix() for name in long))
