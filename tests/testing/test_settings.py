"""Settings that change most, combinations and other numbers of heads keep the contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_settings_combinations_and_numbers_of_heads_keep_the_contract(
    kit: Callable[[str], dict[str, dict[str, str]]],
) -> None:
    failures = kit("settings")
    assert len(failures) > 50
    assert {label: found for label, found in failures.items() if found} == {}
