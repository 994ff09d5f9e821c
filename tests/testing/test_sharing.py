"""Whether modules share something does not depend on what ran before."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import lengthwise as lw
from lengthwise.testing import CHECKS, check_encoding
from lengthwise.testing.broken import DIMS
from lengthwise.testing.broken import state as faults


@pytest.mark.parametrize("wrong", [faults.SharesAGrowingTable, faults.SharesItsTable, faults.SharesALongTable])
def test_a_shared_table_is_found_in_the_whole_suite_and_again_when_it_is_large(wrong: type[nn.Module]) -> None:
    faults.forget()
    for _ in range(2):
        assert "nothing_shared" in check_encoding(wrong, dims=DIMS).failures
    faults.forget()


def test_sharing_is_looked_at_before_anything_else() -> None:
    assert next(iter(CHECKS)) == "nothing_shared"


def test_a_setting_that_changes_nothing_is_told_by_name_and_one_of_first_values_is_not() -> None:
    class Settings(lw.ALiBi):
        def __init__(self, heads: int = 4, unread: float = 1.0) -> None:
            super().__init__(heads)
            self.unread = unread

    class First(Settings):
        def __init__(self, heads: int = 4, scale: float = 1.0) -> None:
            super().__init__(heads)
            self.scale = scale
            self.weight = nn.Parameter(torch.full((heads,), scale))

    message = check_encoding(Settings, checks=["nothing_shared"]).failures["nothing_shared"]
    assert "twins with another unread give the same numbers" in message
    assert check_encoding(First, checks=["nothing_shared"]).passed == ["nothing_shared"]
