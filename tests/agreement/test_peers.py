"""What is compared with installed peers, and how far ours and theirs are from the papers' formulas."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.agreement import COMPARISONS, TOLERANCE, Comparison, Outcome, exact, measure, paragraph
from lengthwise.agreement.ours import rotated
from lengthwise.agreement.pages import names
from lengthwise.agreement.peers import module, quiet
from lengthwise.agreement.place import STARTS, Place
from lengthwise.encodings.registry import encodings
from lengthwise.extension.registry import extensions
from lengthwise.positions import Positions


def pick(peer: str, part: str) -> Comparison:
    return next(one for one in COMPARISONS if (one.peer, one.part) == (peer, part))


@cache
def outcomes(peer: str, part: str) -> dict[tuple[str, int], Outcome]:
    return {(outcome.dtype, outcome.start): outcome for outcome in measure(pick(peer, part))}


def test_rotary_alibi_t5_and_sinusoids_are_compared_and_every_name_is_registered() -> None:
    compared = {name for comparison in COMPARISONS for name in names(comparison)}
    assert {"rotary", "alibi", "t5", "sinusoidal", "xpos", "mrope", "axial", "deberta", "swin"} <= compared
    assert compared <= set(encodings) | set(extensions)
    assert {one.peer for one in COMPARISONS} == {"transformers", "x-transformers", "rotary-embedding-torch"}


def test_every_rope_type_of_transformers_is_compared_and_what_the_other_packages_have_of_extensions() -> None:
    kinds = {one.part.split(",")[0] for one in COMPARISONS if "+" in one.spec and one.peer == "transformers"}
    assert set(module("transformers.modeling_rope_utils").ROPE_INIT_FUNCTIONS) <= kinds
    for peer in ("x-transformers", "rotary-embedding-torch"):
        compared = {name for one in COMPARISONS if one.peer == peer for name in names(one)}
        assert {"interpolate", "ntk"} <= compared


def test_no_two_rows_look_alike() -> None:
    rows = [(one.spec, one.peer, one.part) for one in COMPARISONS]
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize(
    ("peer", "part"),
    [
        ("transformers", "T5 decoder"),
        ("transformers", "T5 encoder"),
        ("transformers", "MPT"),
        ("transformers", "Marian"),
        ("transformers", "Swin"),
        ("transformers", "DeBERTa v2"),
        ("transformers", "Qwen2-VL vision"),
        ("transformers", "Wav2Vec2-BERT"),
        ("transformers", "Wav2Vec2-BERT, relative"),
        ("transformers", "window of 32"),
        ("x-transformers", "ALiBi, 8 heads"),
        ("x-transformers", "T5, scale 1"),
        ("rotary-embedding-torch", "axial"),
        ("rotary-embedding-torch", "xPos, interpolated"),
        ("transformers", "longrope at 8,192"),
        ("transformers", "DeepSeek V3, softmax"),
        ("transformers", "ViT"),
        ("transformers", "DINOv2"),
    ],
)
def test_these_agree_at_every_place_within_the_tolerance_of_the_dtype(peer: str, part: str) -> None:
    for (dtype, _), outcome in outcomes(peer, part).items():
        assert outcome.status == "agrees"
        assert outcome.difference is not None
        assert outcome.difference <= TOLERANCE[getattr(torch, dtype)]


@pytest.mark.parametrize(
    ("peer", "part", "place", "which"),
    [
        ("transformers", "Llama", ("float32", 2**20), "far32"),
        ("transformers", "Llama, .to(bfloat16)", ("bfloat16", 0), "bfloat16"),
        ("transformers", "BLOOM", ("bfloat16", 65536), "far16"),
        ("transformers", "Falcon", ("float32", 0), "float32"),
        ("rotary-embedding-torch", "module in float32", ("bfloat16", 65536), "far16"),
        ("rotary-embedding-torch", "after a bfloat16 call", ("float32", 0), "float32"),
        ("rotary-embedding-torch", "xPos, cached keys", ("float32", 0), "float32"),
        ("x-transformers", "xPos", ("float32", 65536), "far32"),
        ("transformers", "linear", ("float32", 2**20), "far32"),
        ("transformers", "dynamic", ("float32", 2**20), "far32"),
        ("transformers", "8,192 after 65,536", ("float32", 0), "float32"),
        ("transformers", "4,096 after 65,536", ("float32", 0), "float32"),
        ("transformers", "yarn", ("float32", 2**20), "far32"),
        ("transformers", "yarn, another ramp", ("float32", 0), "float32"),
        ("transformers", "yarn by layer type", ("float32", 0), "float32"),
        ("transformers", "longrope", ("float32", 2**20), "far32"),
        ("transformers", "llama3", ("float32", 2**20), "far32"),
        ("transformers", "proportional, by 8", ("float32", 2**20), "far32"),
        ("x-transformers", "base_rescale_factor", ("bfloat16", 0), "bfloat16"),
        ("x-transformers", "xPos, interpolation", ("float32", 0), "float32"),
        ("rotary-embedding-torch", "interpolate_factor", ("bfloat16", 65536), "far16"),
        ("rotary-embedding-torch", "axial, interpolated", ("float32", 0), "float32"),
    ],
)
def test_where_these_differ_ours_is_the_one_that_follows_the_formula(
    peer: str, part: str, place: tuple[str, int], which: str
) -> None:
    outcome = outcomes(peer, part)[place]
    assert outcome.status == "differs"
    assert outcome.ours_off is not None
    assert outcome.theirs_off is not None
    assert outcome.ours_off <= TOLERANCE[getattr(torch, place[0])] < outcome.theirs_off
    comparison = pick(peer, part)
    assert f"{{{which}}}" in comparison.why or f"{{theirs_{which}}}" in comparison.why
    assert "{" not in paragraph(comparison, outcomes(peer, part).values())


def at_length(length: int) -> Callable[[Place], Positions]:
    return lambda place: place.positions.with_target(length)


def patches(place: Place) -> Positions:
    points = torch.cartesian_prod(torch.arange(8), torch.arange(6))[None]
    return Positions(points, points, causal=False)


@pytest.mark.parametrize(
    ("peer", "part", "as_they_do"),
    [
        (
            "transformers",
            "yarn by layer type",
            rotated("rotary + yarn(factor=16, original_length=4096, truncate=True)"),
        ),
        (
            "transformers",
            "8,192 after 65,536",
            rotated("rotary + dynamic_ntk(factor=2, original_length=4096)", at_length(65536)),
        ),
        (
            "transformers",
            "4,096 after 65,536",
            rotated("rotary + dynamic_ntk(factor=2, original_length=4096)", at_length(65536)),
        ),
        (
            "transformers",
            "yarn, another ramp",
            rotated("rotary + yarn(factor=16, original_length=4096, ramp='index')"),
        ),
        (
            "rotary-embedding-torch",
            "axial, interpolated",
            rotated("axial(base=10000, order=(0, 1))", patches),
        ),
    ],
)
def test_the_cause_that_is_told_is_the_cause(peer: str, part: str, as_they_do: Callable[[Place], Tensor]) -> None:
    near = [one for one in measure(replace(pick(peer, part), ours=as_they_do)) if one.dtype == "float32"]
    assert all(one.difference is not None and one.difference < 2e-5 for one in near)
    assert min(one.difference or 0.0 for key, one in outcomes(peer, part).items() if key[0] == "float32") > 0.1


def test_what_a_peer_logs_is_kept_from_the_table_and_its_errors_are_not(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("a-peer")
    log.setLevel(logging.WARNING)
    with quiet("a-peer"):
        log.warning("unknown key")
        log.error("it broke")
    log.warning("afterwards")
    assert [record.message for record in caplog.records] == ["it broke", "afterwards"]


def test_the_exact_formulas_are_those_of_the_encodings_to_float32() -> None:
    for start in STARTS:
        place = Place(torch.float64, start)
        for spec, formula in (
            ("rotary", exact.rotary()),
            ("rotary(layout='interleaved', fraction=0.5, base=500)", exact.rotary(500.0, 32, True)),
        ):
            torch.testing.assert_close(rotated(spec)(place), formula(place), rtol=1e-6, atol=1e-6)
    assert exact.slopes(12).tolist() == pytest.approx(lw.ALiBi(12).slopes)
    distance = torch.arange(500)
    assert torch.equal(exact.t5_bucket(distance), lw.T5Bias(1).bucket(distance))


def test_a_peer_is_imported_without_its_warnings() -> None:
    assert module("x_transformers.x_transformers").AlibiPositionalBias is not None
