"""All checks, one theme a file; importing this enters them into `CHECKS` in the order in which they run."""

from lengthwise.testing.checks import sharing as sharing  # isort: skip
from lengthwise.testing.checks import contract as contract  # isort: skip
from lengthwise.testing.checks import reach as reach  # isort: skip
from lengthwise.testing.checks import state as state  # isort: skip
from lengthwise.testing.checks import precision as precision  # isort: skip
from lengthwise.testing.checks import biases as biases  # isort: skip
from lengthwise.testing.checks import claims as claims  # isort: skip
from lengthwise.testing.checks import cache as cache  # isort: skip
from lengthwise.testing.checks import gradients as gradients  # isort: skip
from lengthwise.testing.checks import construction as construction  # isort: skip
from lengthwise.testing.checks import compiling as compiling  # isort: skip
from lengthwise.testing.checks.registry import CHECKS, Check

__all__ = ["CHECKS", "Check"]
