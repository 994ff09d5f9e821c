"""Wrong encodings, by which the checks are tested: each has one fault, and names the check that must find it."""

from lengthwise.testing.broken import cache as cache
from lengthwise.testing.broken import claims as claims
from lengthwise.testing.broken import contract as contract
from lengthwise.testing.broken import learning as learning
from lengthwise.testing.broken import precision as precision
from lengthwise.testing.broken import reach as reach
from lengthwise.testing.broken import state as state
from lengthwise.testing.broken.registry import BROKEN, DIMS, Wrong

__all__ = ["BROKEN", "DIMS", "Wrong"]
