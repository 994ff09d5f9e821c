from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lengthwise.errors import InvalidArgument, SpecError
from lengthwise.spec import Call, bind, parse, parse_one


@pytest.mark.parametrize(
    ("spec", "calls"),
    [
        ("rotary", [Call("rotary", (), {})]),
        ("  rotary ( ) ", [Call("rotary", (), {})]),
        ("None", [Call("none", (), {})]),
        ("f(1, -2.5, 'x', [1, 2], a=True, b=None)", [Call("f", (1, -2.5, "x", [1, 2]), {"a": True, "b": None})]),
        ("a + b(2) + c", [Call("a", (), {}), Call("b", (2,), {}), Call("c", (), {})]),
        ("a(b(c), d=e(1))", [Call("a", (Call("b", (Call("c", (), {}),), {}),), {"d": Call("e", (1,), {})})]),
        ("f(\n  1,\n  a=2\n)", [Call("f", (1,), {"a": 2})]),
    ],
)
def test_a_spec_is_read_as_names_calls_and_sums(spec: str, calls: list[Call]) -> None:
    assert parse(spec) == calls


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ("rotary(", "»("),
        ("rotary(base=)", "rotary(base=»)"),
        ("rotary + 3", "rotary + »3"),
        ("rotary - alibi", "»rotary - alibi"),
        ("lw.rotary", "»lw.rotary"),
        ("rotary(**x)", "rotary(**»x)"),
        ("rotary(*x)", "rotary(»*x)"),
        ("rotary(1 + 2)", "rotary(»1 + 2)"),
        ("rotary({[]: 1})", "rotary(»{[]: 1})"),
        ("f(a=1, a=2)", "f(a=1, »a=2)"),
        ("f('é', lambda: 1)", "f('é', »lambda: 1)"),
        ("f(\n\n3 +* 4)", "»* 4"),
        ("f(1) g(2)", "»"),
        ("a\0b", "»"),
        ("'alibi'", "»'alibi'"),
        ("f(x.y)", "f(»x.y)"),
    ],
)
def test_a_spec_that_does_not_parse_shows_the_place_in_one_line(spec: str, place: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(spec)
    assert place in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("spec", ["", "   ", "\n"])
def test_an_empty_spec_is_told_what_a_spec_looks_like(spec: str) -> None:
    with pytest.raises(SpecError, match="the spec is empty: give a name such as 'rotary'"):
        parse(spec)


@given(st.text(alphabet="ab1(),=+.'\" *[]{}-\\\né\0:", max_size=14))
def test_any_text_is_read_or_refused_and_nothing_else(text: str) -> None:
    try:
        answer = parse(text)
    except SpecError as error:
        answer = str(error).splitlines()
    assert len(answer) >= 1
    assert isinstance(answer[0], Call) or len(answer) == 1


def test_only_one_call_where_only_one_is_allowed() -> None:
    assert parse_one("a(1)") == Call("a", (1,), {})
    with pytest.raises(SpecError, match=r"joins 2 things with '\+'"):
        parse_one("a + b")


def taker(first: int, second: str = "x", dim: int = 3) -> None: ...


def any_keyword(first: int, **rest: object) -> None: ...


def anything(*args: object, **kwargs: object) -> None: ...


def test_arguments_are_matched_and_what_is_missing_is_filled() -> None:
    assert bind(taker, parse_one("t(1)")) == {"first": 1}
    assert bind(taker, parse_one("t(second='y')"), {"first": 7, "dim": 8, "other": 9}) == {
        "second": "y",
        "first": 7,
        "dim": 8,
    }
    assert bind(taker, parse_one("t(1, dim=2)"), {"dim": 8}) == {"first": 1, "dim": 2}
    assert bind(any_keyword, parse_one("t(1, a=2)")) == {"first": 1, "a": 2}
    assert bind(anything, parse_one("t")) == {}
    assert bind(anything, parse_one("t(a=1)")) == {"a": 1}


@pytest.mark.parametrize(
    ("maker", "spec", "message"),
    [
        (taker, "t(1, secund='y')", r"'t' has no parameter 'secund': did you mean 'second'\? \(it takes t\(first"),
        (taker, "t()", r"'t' needs 'first'; it takes t\(first"),
        (taker, "t(1, first=2)", r"'t': multiple values for argument 'first'; it takes"),
        (taker, "t(1, 2, 3, 4)", r"'t': too many positional arguments; it takes"),
        (lambda: None, "t(a=1)", r"'t' has no parameter 'a': it has none \(it takes t\(\)\)"),
        (anything, "t(1)", "'t' takes its extra arguments by name only"),
    ],
)
def test_arguments_that_do_not_fit_are_told_with_what_is_taken(maker, spec: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        bind(maker, parse_one(spec))


@pytest.mark.parametrize("spec", ["+".join(["rotary"] * 5000), f"rotary(base={'-' * 5000}1)", "(" * 5000])
def test_a_spec_of_endless_nesting_is_refused_in_one_short_line(spec: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(spec)
    assert len(str(caught.value)) < 300
