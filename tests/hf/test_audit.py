"""An audit finds what is planted, and nothing where nothing is wrong."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lengthwise.hf.checks import check_config


def beside(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hf_test_{name}", Path(__file__).parent / f"{name}.py")
    assert spec
    assert spec.loader
    module = sys.modules.setdefault(spec.name, importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


models, configs = beside("models"), beside("wrong_configs")


@pytest.mark.parametrize("fault", configs.WRONG)
def test_a_planted_fault_is_found_and_nothing_else(fault: str) -> None:
    code, config = configs.WRONG[fault]
    found = {one.code for one in check_config(config) if one.level != "note"}
    assert found == {code}


@pytest.mark.parametrize("name", configs.RIGHT)
def test_a_right_config_is_clean(name: str) -> None:
    assert [one for one in check_config(configs.RIGHT[name]) if one.level != "note"] == []
