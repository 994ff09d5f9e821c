from __future__ import annotations

import pytest
import torch

import lengthwise as lw


def test_the_numbers_of_the_formula_sheet() -> None:
    theta = lw.extend(lw.Rotary(64, base=1e6), lw.Proportional(0.25)).spectrum.inv_freq
    assert int((theta != 0).sum()) == 8
    assert theta[[1, 7]].tolist() == pytest.approx([0.64938164, 0.048696753], rel=1e-7)
    assert theta.sum().item() == pytest.approx(2.76191244, rel=1e-7)
    plain = lw.Rotary(64, base=1e6, fraction=0.25).spectrum.inv_freq
    assert plain[1].item() == pytest.approx(0.17783, rel=1e-4)  # the partial rotation, which is another


def test_slow_pairs_of_a_head_stay_bit_for_bit_where_they_are() -> None:
    x = torch.randn(1, 2, 9, 16, generator=torch.Generator().manual_seed(0))
    turned = lw.extend(lw.Rotary(16), lw.Proportional(0.5)).rotation(lw.Positions.sequence(9)).q(x)
    assert torch.equal(turned[..., 4:8], x[..., 4:8])  # pair m is dims m and m + 8
    assert torch.equal(turned[..., 12:], x[..., 12:])
    whole = lw.Rotary(16).rotation(lw.Positions.sequence(9)).q(x)
    assert torch.equal(turned[..., :4], whole[..., :4])
    assert torch.equal(turned[..., 8:12], whole[..., 8:12])


def test_a_factor_divides_what_turns() -> None:
    theta = lw.extend(lw.Rotary(16), lw.Proportional(0.5, factor=4)).spectrum.inv_freq
    assert torch.equal(theta[:4], lw.Rotary(16).spectrum.inv_freq[:4] / 4)
    assert not theta[4:].any()
    assert torch.equal(
        lw.extend(lw.Rotary(16), lw.Proportional(1.0, factor=4)).spectrum.inv_freq,
        lw.extend(lw.Rotary(16), lw.Interpolate(4)).spectrum.inv_freq,
    )


def test_no_pair_at_all_is_no_rotation() -> None:
    x = torch.randn(1, 2, 9, 16, generator=torch.Generator().manual_seed(0))
    still = lw.extend(lw.Rotary(16), lw.Proportional(0.0))
    assert torch.equal(lw.attention(x, x, x, still), lw.attention(x, x, x, lw.NoPE()))


def test_it_counts_pairs_of_whole_heads_and_refuses_a_partial_rotation() -> None:
    with pytest.raises(lw.InvalidArgument, match=r"rotates a part: give it fraction=1"):
        lw.extend(lw.Rotary(16, fraction=0.5), lw.Proportional(0.5))
    rebased = lw.extend(lw.Rotary(16, fraction=0.5), lw.ChangeBase(1e6))
    with pytest.raises(lw.InvalidArgument, match=r"rotates a part"):
        lw.extend(rebased, lw.Proportional(0.5))
    lw.extend(lw.MRoPE(16), lw.Proportional(0.5))
