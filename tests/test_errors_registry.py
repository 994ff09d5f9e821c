from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lengthwise import errors
from lengthwise.errors import InvalidArgument, LengthwiseError, UnknownName, nearest
from lengthwise.registry import Registry


@pytest.fixture
def fruits() -> Registry[object]:
    return Registry("fruit", "lengthwise.test_fruits")


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Put a distribution on the path that offers entry points `lines`, backed by a module with source `code`."""

    def make(lines: str, code: str = "") -> None:
        info = tmp_path / "fruit_plugin-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: fruit-plugin\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[lengthwise.test_fruits]\n{lines}\n")
        (tmp_path / "fruit_plugin.py").write_text(code)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "fruit_plugin", raising=False)

    yield make
    sys.modules.pop("fruit_plugin", None)


def test_every_error_is_also_the_built_in_one_that_a_caller_expects() -> None:
    expected = {
        "InvalidArgument": ValueError,
        "SpecError": ValueError,
        "UnknownName": LookupError,
        "PositionOutOfRange": IndexError,
        "BackendRefused": RuntimeError,
        "DataError": OSError,
        "StorageError": OSError,
    }
    for name, built_in in expected.items():
        kind = getattr(errors, name)
        assert issubclass(kind, LengthwiseError)
        assert issubclass(kind, built_in)


@pytest.mark.parametrize(
    ("name", "choices", "hint"),
    [
        ("alibu", ["alibi", "rotary"], "did you mean 'alibi'?"),
        ("zzz", ["rotary", "alibi"], "choose one of alibi, rotary"),
        ("zzz", [], "there is none"),
        ("", ["b", "a"], "choose one of a, b"),
    ],
)
def test_the_nearest_names_are_offered_or_else_all(name: str, choices: list[str], hint: str) -> None:
    assert nearest(name, choices) == hint


def test_a_registered_thing_is_found_under_its_name_and_its_name_under_it(fruits: Registry[object]) -> None:
    apple, plum = object(), object()
    assert fruits.register("plum")(plum) is plum
    fruits.register("apple")(apple)
    assert fruits["apple"] is apple
    assert list(fruits) == ["apple", "plum"]
    assert fruits.items() == [("apple", apple), ("plum", plum)] == fruits.own_items()
    assert len(fruits) == 2
    assert "plum" in fruits
    assert "pear" not in fruits
    assert fruits.name_of(plum) == "plum"


def test_an_unknown_name_is_told_with_the_nearest(fruits: Registry[object]) -> None:
    fruits.register("apple")(object())
    with pytest.raises(UnknownName, match=r"unknown fruit 'appel': did you mean 'apple'\?"):
        fruits["appel"]
    with pytest.raises(UnknownName, match="is not a registered fruit"):
        fruits.name_of("pear")


def test_a_taken_name_is_refused_and_the_same_thing_twice_is_not(fruits: Registry[object]) -> None:
    apple = object()
    fruits.register("apple")(apple)
    fruits.register("apple")(apple)
    with pytest.raises(InvalidArgument, match="the fruit name 'apple' is taken"):
        fruits.register("apple")(object())
    assert fruits["apple"] is apple


def test_entry_points_of_other_packages_are_found(fruits: Registry[object], plugin) -> None:
    plugin("mango = fruit_plugin:Mango", "class Mango: pass")
    fruits.register("apple")(object())
    assert fruits["mango"].__name__ == "Mango"
    assert list(fruits) == ["apple", "mango"]
    assert fruits.others == {"mango"}


def test_what_a_module_of_another_package_registers_is_known_as_theirs(fruits: Registry[object], plugin) -> None:
    plugin("any = fruit_plugin")
    sys.modules["fruit_plugin_host"] = host = ModuleType("fruit_plugin_host")
    host.fruits = fruits  # type: ignore[attr-defined]
    fruits.register("apple")(object())
    (Path(sys.path[0]) / "fruit_plugin.py").write_text(
        "from fruit_plugin_host import fruits\nfruits.register('fig')(object())"
    )
    assert fruits.others == {"fig"}
    assert list(fruits) == ["apple", "fig"]
    del sys.modules["fruit_plugin_host"]


def test_a_name_of_its_own_is_found_without_asking_other_packages(fruits: Registry[object], plugin) -> None:
    plugin("mango = fruit_plugin:Mango", "raise RuntimeError('imported')")
    apple = object()
    fruits.register("apple")(apple)
    assert fruits["apple"] is apple
    assert fruits.own_items() == [("apple", apple)]


def test_a_plugin_that_can_not_be_loaded_is_named_each_time(fruits: Registry[object], plugin) -> None:
    plugin("mango = fruit_plugin:Mango", "raise RuntimeError('rotten')")
    for _ in range(2):
        with pytest.raises(
            LengthwiseError,
            match=r"fruit 'mango' of the package 'fruit-plugin' .*'fruit_plugin:Mango': RuntimeError: rotten",
        ):
            fruits["mango"]


@pytest.mark.parametrize(
    ("name", "why"), [("apple", "is taken"), ("my-apple", "that a spec can hold"), ("plum", "no attribute|has no")]
)
def test_a_plugin_that_can_not_be_used_stops_nothing_else(
    fruits: Registry[object], plugin, name: str, why: str
) -> None:
    plugin(f"{name} = fruit_plugin:{'Mango' if name != 'plum' else 'Plum'}", "class Mango: pass")
    apple = object()
    fruits.register("apple")(apple)
    assert list(fruits) == ["apple"]
    assert fruits["apple"] is apple
    assert re.search(why, str(fruits.broken[name]))
    assert "fruit-plugin" in str(fruits.broken[name])


def test_an_entry_point_that_is_a_module_is_loaded_for_what_it_registers(fruits: Registry[object], plugin) -> None:
    plugin("whatever = fruit_plugin")
    assert list(fruits) == []
    assert "fruit_plugin" in sys.modules
