from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch import nn

import lengthwise as lw
from lengthwise.encodings.registry import encodings, example

DIMS = lw.Dims(dim=64, heads=4, layers=3, max_length=77)


class Wrapper(nn.Module):
    def __init__(self, inner: nn.Module, factor: float = 1.0, heads: int = 0) -> None:
        super().__init__()
        self.inner, self.factor, self.heads = inner, factor, heads


@pytest.fixture
def wrapper() -> Iterator[None]:
    encodings.register("wrapper")(Wrapper)
    yield
    encodings._things.pop("wrapper")


def test_every_registered_encoding_is_built_from_its_name_and_is_a_name_of_the_package() -> None:
    built = {name: lw.build(example(name), DIMS) for name in encodings if name not in encodings.others}
    assert {"none", "learned", "sinusoidal", "rotary", "alibi", "t5"} <= set(built)
    for name, encoding in built.items():
        assert type(encoding) is encodings[name] is getattr(lw, type(encoding).__name__)
        assert type(encoding).__name__ in lw.__all__
        assert encodings.name_of(type(encoding)) == name


def test_sizes_are_filled_from_dims_unless_the_spec_gives_them() -> None:
    assert lw.build("rotary", DIMS).head_dim == 16
    assert lw.build("rotary(head_dim=8)", DIMS).head_dim == 8
    assert lw.build("alibi", DIMS).heads == 4
    assert lw.build("t5(buckets=16)", DIMS).table.shape == (16, 4)
    assert lw.build("learned", DIMS).table.shape == (77, 64)
    assert lw.build("learned(max_length=5)", DIMS).table.shape == (5, 64)
    assert lw.build("sinusoidal(variant='half')", DIMS).dim == 64
    assert lw.build("rotary(base=500000, layout='interleaved')", DIMS).base == 500000.0
    assert isinstance(lw.build("None", DIMS), lw.NoPE)


def test_an_argument_may_be_an_encoding(wrapper: None) -> None:
    outer = lw.build("wrapper(wrapper(rotary(base=5), 2), factor=3)", DIMS)
    assert (outer.factor, outer.heads, outer.inner.factor) == (3, 4, 2)
    assert outer.inner.inner.base == 5


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("rotarry", lw.UnknownName, r"unknown encoding 'rotarry': did you mean 'rotary'"),
        ("rotary(bse=3)", lw.InvalidArgument, r"'rotary' has no parameter 'bse': did you mean 'base'\?"),
        ("none(heads=2)", lw.InvalidArgument, "'none' has no parameter 'heads': it has none"),
        ("rotary(base='x')", lw.InvalidArgument, "'rotary' can't be built from .*'base': 'x'"),
        ("rotary(layout=interleaved)", lw.UnknownName, "unknown encoding 'interleaved' .* quote it, 'interleaved',"),
        ("rotary(layout='halves')", lw.InvalidArgument, r"unknown layout 'halves': did you mean 'half'\?"),
        ("rotary(base=)", lw.SpecError, r"rotary\(base=»\)"),
        ("rotary(base=1, base=2)", lw.SpecError, "'base' is given twice"),
        ("learned + rotory", lw.UnknownName, "unknown encoding or extension 'rotory': did you mean 'rotary'"),
        ("", lw.SpecError, "the spec is empty"),
        ("wrapper", lw.InvalidArgument, "'wrapper' needs 'inner'; it takes wrapper"),
        ("wrapper(rotory)", lw.UnknownName, r"unknown encoding 'rotory' as an argument: did you mean 'rotary'\?"),
        ("wrapper(rotary(bass=1))", lw.InvalidArgument, "'rotary' has no parameter 'bass'"),
        ("learned(init_std=-1)", lw.InvalidArgument, "init_std must be at least 0, not -1"),
    ],
)
def test_a_spec_that_can_not_be_built_says_why_in_one_line(
    wrapper: None, spec: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        lw.build(spec, DIMS)
    assert "\n" not in str(caught.value)


def test_an_encoding_of_another_package_is_built_by_its_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "far_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lengthwise.encodings]\nfar = far_plugin:Far\n")
    (tmp_path / "far_plugin.py").write_text(
        "from torch import nn\nclass Far(nn.Module):\n    def __init__(self, heads):\n"
        "        super().__init__()\n        self.heads = heads\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(encodings, "_entry_points_read", False)
    try:
        assert lw.build("far", DIMS).heads == 4
    finally:
        encodings._things.pop("far", None)
        sys.modules.pop("far_plugin", None)


def test_a_sum_is_an_argument_too() -> None:
    encoding = lw.build("randomized(rotary + alibi, longest=100)", DIMS)
    assert lw.sites(encoding) == ("rotation", "bias")
    assert encoding.longest == 100
    with pytest.raises(lw.UnknownName, match="did you mean 'alibi'"):
        lw.build("randomized(rotary + alibbi)", DIMS)


def test_an_error_about_positions_names_the_encoding() -> None:
    with pytest.raises(lw.InvalidArgument, match="Axial: positions of 2 axes are needed here"):
        lw.prepare(lw.build("axial", DIMS), lw.Positions.sequence(4))
