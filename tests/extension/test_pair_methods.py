"""Distances of the formula sheet, for each method that moves pairs."""

from __future__ import annotations

from math import inf

import pytest
import torch

import lengthwise as lw
from lengthwise.extension import Method, effective_distance

ROWS = [
    (lw.SelfExtend(group=2, window=4), 11, [7, 7, 6, 6, 5, 5, 4, 4, 3, 2, 1, 0]),
    (lw.SelfExtend(group=3, window=4), 7, [2 + 4 - 4 / 3] * 3 + [1 + 4 - 4 / 3] + [3, 2, 1, 0]),
    (lw.ReRoPE(window=3), 5, [3, 3, 3, 2, 1, 0]),
    (lw.ReRoPE(window=3, leak=2), 5, [4, 3.5, 3, 2, 1, 0]),
    (lw.DualChunk(chunk=6, local=2), 11, [6, 5, 4, 3, 6, 5, 4, 3, 3, 2, 1, 0]),
    (lw.DualChunk(chunk=6, local=2), 7, [6, 5, 4, 3, 3, 2, 1, 0]),
    (lw.StreamingLLM(sinks=2, recent=3), 4, [4, 3, 2, 1, 0]),
    (lw.StreamingLLM(sinks=2, recent=3), 7, [4, 3, inf, inf, inf, 2, 1, 0]),
    (lw.LMInfinite(sinks=2, local=3), 7, [3, 3, inf, inf, inf, 2, 1, 0]),
]


@pytest.mark.parametrize(("method", "row", "distances"), ROWS, ids=repr)
def test_distances_are_those_of_the_formula_sheet(method: Method, row: int, distances: list[float]) -> None:
    seen = effective_distance(method, row + 1)[row]
    torch.testing.assert_close(seen, torch.tensor(distances, dtype=torch.float64))


def test_published_defaults_stand() -> None:
    assert (lw.SelfExtend().group, lw.SelfExtend().window) == (8, 1024)
    assert (lw.ReRoPE().window, lw.ReRoPE().leak) == (512, None)
    assert (lw.StreamingLLM().sinks, lw.StreamingLLM().recent) == (4, 512)
    assert lw.DualChunk.published(4096) == lw.DualChunk(chunk=3072, local=512)


def test_self_extend_reads_l_less_w_times_g_plus_w_without_an_unseen_distance() -> None:
    trained, group, window = 24, 4, 8
    longest = (trained - window) * group + window
    distance = effective_distance(lw.SelfExtend(group, window), longest)
    assert distance.nan_to_num().max() <= trained
    assert effective_distance(lw.SelfExtend(group, window), 2 * longest).nan_to_num().max() > trained


def test_dual_chunks_see_no_distance_above_the_chunk_and_near_ones_as_they_are() -> None:
    distance = effective_distance(lw.DualChunk(chunk=12, local=4), 100)
    place = torch.arange(100)
    back = place[:, None] - place
    assert distance.nan_to_num().max() == 12
    near = (back >= 0) & (back <= 4)
    assert torch.equal(distance[near], back[near].double())


@pytest.mark.parametrize("method", [lw.SelfExtend(3, 7), lw.SelfExtend(4, 8), lw.ReRoPE(5), lw.ReRoPE(5, 3)], ids=repr)
def test_distances_never_fall_as_keys_lie_farther_back(method: Method) -> None:
    last = effective_distance(method, 60)[-1]
    assert bool((last.diff() <= 0).all())


def test_rerope_on_a_bias_of_distance_stays_one_and_equals_its_branches() -> None:
    for method in (lw.ReRoPE(3), lw.ReRoPE(3, 2.0)):
        bias = lw.extend(lw.ALiBi(2), method).logit_bias(lw.Positions.sequence(9))
        assert isinstance(bias, lw.DistanceBias)
        distance = effective_distance(method, 9)
        seen = ~distance.isnan()
        torch.testing.assert_close(bias.dense()[:, seen], lw.ALiBi(2).of_distance(distance).float()[:, seen])


@pytest.mark.parametrize("method", [lw.SelfExtend(group=1), lw.ReRoPE(leak=1)], ids=repr)
@pytest.mark.parametrize("spec", ["rotary", "alibi"])
def test_a_factor_of_1_is_the_encoding_itself(method: Method, spec: str) -> None:
    encoding = lw.build(spec, lw.Dims(dim=16, heads=2))
    longer = lw.extend(encoding, method)
    q = k = v = torch.randn(1, 2, 9, 8)
    assert lw.sites(longer) == lw.sites(encoding)
    assert torch.equal(lw.attention(q, k, v, longer), lw.attention(q, k, v, encoding))


def test_only_rerope_claims_to_be_translation_invariant() -> None:
    kept = {
        name
        for name, kind in lw.extension.extensions.items()
        if hasattr(kind, "branches") and "translation_invariant" in kind.preserves
    }
    assert kept == {"rerope"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lw.SelfExtend(group=0), "at least 1 token, not 0 and 1024"),
        (lambda: lw.ReRoPE(window=0), "at least 1 token, not 0"),
        (lambda: lw.ReRoPE(leak=0.5), "at least 1, not 0.5"),
        (lambda: lw.DualChunk(4, 4), "not 4 and 4"),
        (lambda: lw.StreamingLLM(recent=0), "recent needs at least 1 token"),
        (lambda: lw.LMInfinite(sinks=-1, local=3), "given are 3 and -1"),
    ],
)
def test_settings_out_of_range_are_errors_that_name_them(make: object, message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        make()  # pyright: ignore[reportCallIssue]
