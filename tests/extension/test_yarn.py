from __future__ import annotations

import math

import pytest
import torch

import lengthwise as lw
from lengthwise.spectrum import Spectrum


def spectrum(method: lw.YaRN, head_dim: int = 64, base: float = 10000.0) -> Spectrum:
    return lw.extend(lw.Rotary(head_dim, base), method).spectrum


def test_the_numbers_of_the_formula_sheet() -> None:
    longer = spectrum(lw.YaRN(4, 2048))
    assert longer.attention_factor == pytest.approx(1.13862944, abs=5e-9)
    assert longer.inv_freq[[8, 15, 16, 23]].tolist() == pytest.approx(
        [0.1, 0.0079498393, 0.0053846152, 3.3338036e-4], rel=1e-6
    )
    assert longer.inv_freq.sum().item() == pytest.approx(3.93068574, rel=1e-7)
    assert spectrum(lw.YaRN(4, 2048, truncate=False)).inv_freq.sum().item() == pytest.approx(3.92703285, rel=1e-7)


def test_pairs_before_the_ramp_stay_and_those_behind_are_divided_bit_for_bit() -> None:
    plain, longer = lw.Rotary(64).spectrum.inv_freq, spectrum(lw.YaRN(4, 2048)).inv_freq
    assert torch.equal(longer[:9], plain[:9])  # the ramp is from 8 to 21
    assert torch.equal(longer[21:], plain[21:] / 4)
    assert (longer[9:21] < plain[9:21]).all()
    assert (longer[9:21] > plain[9:21] / 4).all()


def test_deepseeks_two_scales_are_parted_between_the_rotation_and_the_softmax() -> None:
    version3 = lw.YaRN(40, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert version3.rotation_multiplier == 1.0
    assert not version3.scales_rotation
    assert version3.softmax_multiplier == pytest.approx(1.87385420709, rel=1e-11)
    assert spectrum(version3).inv_freq.sum().item() == pytest.approx(3.94893627, rel=1e-7)
    assert lw.YaRN(40, 4096, mscale=0.707, mscale_all_dim=1.0).rotation_multiplier == pytest.approx(
        0.921042355, rel=1e-8
    )
    assert lw.YaRN(40, 4096).softmax_multiplier == 1.0
    assert "norm_preserving" in lw.claims(lw.extend(lw.Rotary(64), version3))


def test_logits_of_deepseek_grow_by_both(close) -> None:
    # M = 0.1 k ln f + 1: with the softmax multiplier that the model applies, all logits are times M(mscale)^2.
    method = lw.YaRN(40, 64, mscale=0.7, mscale_all_dim=0.3)
    whole = (0.1 * 0.7 * math.log(40) + 1) ** 2
    assert method.rotation_multiplier**2 * method.softmax_multiplier == pytest.approx(whole, rel=1e-12)
    q = torch.randn(1, 1, 9, 16, generator=torch.Generator().manual_seed(0))
    at = lw.Positions.sequence(9)
    scaled, plain = (
        lw.extend(lw.Rotary(16), one).rotation(at)(q, q) for one in (method, lw.YaRN(40, 64, attention_factor=1.0))
    )
    logits = [turned @ keys.transpose(-1, -2) for turned, keys in (scaled, plain)]
    close(logits[0] * method.softmax_multiplier, logits[1] * whole, times=4)


def test_one_of_deepseeks_scales_alone_is_read_as_transformers_reads_it() -> None:
    usual = lw.YaRN(40, 4096).rotation_multiplier
    assert usual == pytest.approx(1.3688879454, rel=1e-9)
    for alone in ({"mscale": 0.7}, {"mscale_all_dim": 0.7}, {"mscale": 0.7, "mscale_all_dim": 0.0}):
        assert lw.YaRN(40, 4096, **alone).rotation_multiplier == usual
    assert lw.YaRN(40, 4096, mscale=0.7, mscale_all_dim=0.5, attention_factor=1.5).rotation_multiplier == 1.5


def test_the_paper_ramp_is_by_parts_and_another_one_than_that_of_the_code(close) -> None:
    paper = spectrum(lw.YaRN(4, 2048, ramp="rotations"))
    assert torch.equal(paper.inv_freq, spectrum(lw.NTKByParts(4, 2048)).inv_freq)
    plain = lw.Rotary(64).spectrum.inv_freq
    expected = []
    for theta in plain.tolist():
        turns = 2048 * theta / (2 * math.pi)
        share = min(max((turns - 1) / (32 - 1), 0), 1)
        expected.append((1 - share) * theta / 4 + share * theta)
    close(paper.inv_freq / plain, torch.tensor(expected, dtype=torch.float64) / plain)
    assert (paper.inv_freq - spectrum(lw.YaRN(4, 2048)).inv_freq).abs().max() > 1e-3


def test_other_bounds_move_the_ramp_by_parts() -> None:
    plain = lw.Rotary(64).spectrum.inv_freq
    turns = 2048 * plain / (2 * math.pi)
    moved = lw.extend(lw.Rotary(64), lw.NTKByParts(4, 2048, slow=2, fast=8)).spectrum.inv_freq
    assert torch.equal(moved[turns >= 8], plain[turns >= 8])
    assert torch.equal(moved[turns <= 2], plain[turns <= 2] / 4)
    between = (turns > 2) & (turns < 8)
    assert between.any()
    assert ((moved < plain) & (moved > plain / 4))[between].all()


def test_pairs_that_all_turn_often_stay_where_the_bounds_of_the_index_are_the_wrong_way_round() -> None:
    # c(32) = 100 is past the last bound, r - 1 = 63, and a line between them would divide every pair.
    plain = lw.Rotary(64, base=100.0).spectrum.inv_freq
    longer = spectrum(lw.YaRN(4, 360_000_000), base=100.0)
    assert torch.equal(longer.inv_freq, plain)


def test_dynamic_yarn_is_yarn_of_the_length_over_the_trained_one(close) -> None:
    for ramp in ("index", "rotations"):
        dynamic = lw.extend(lw.Rotary(64), lw.DynamicYaRN(2048, ramp=ramp, truncate=False)).spectrum_at(3 * 2048)
        static = spectrum(lw.YaRN(3, 2048, ramp=ramp, truncate=False))
        assert torch.equal(dynamic.inv_freq, static.inv_freq)
        assert float(dynamic.attention_factor) == pytest.approx(static.attention_factor, rel=1e-15)
    fixed = lw.extend(lw.Rotary(64), lw.DynamicYaRN(2048, attention_factor=1.3))
    assert fixed.spectrum_at(10).attention_factor == fixed.spectrum_at(10_000).attention_factor == 1.3


def test_the_rotation_of_dynamic_yarn_multiplies_by_its_factor(close) -> None:
    longer = lw.extend(lw.Rotary(16), lw.DynamicYaRN(32))
    q = torch.randn(1, 2, 20, 16, generator=torch.Generator().manual_seed(0))
    for length, factor in ((20, 1.0), (32, 1.0), (128, 0.1 * math.log(4) + 1)):
        turned = longer.rotation(lw.Positions.sequence(20).with_target(length)).q(q)
        close(turned.norm(dim=-1), q.norm(dim=-1) * factor)
    assert lw.claims(longer) == {"translation_invariant", "pairwise"}


def test_a_base_of_one_has_no_ramp_in_the_index() -> None:
    with pytest.raises(lw.InvalidArgument, match="a base of 1"):
        lw.extend(lw.Rotary(16, base=1.0), lw.YaRN(2, 64))
