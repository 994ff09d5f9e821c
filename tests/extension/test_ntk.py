from __future__ import annotations

import pytest
import torch

import lengthwise as lw


@pytest.mark.parametrize(
    ("head_dim", "factor", "base"),
    [
        (64, 2, 20452.2287),
        (64, 4, 41829.3659),
        (64, 8, 85550.3759),
        (128, 2, 20221.2617),
        (128, 4, 40889.9424),
        (128, 8, 82684.6226),
    ],
)
def test_it_is_rope_of_the_base_of_the_formula_sheet(close, head_dim: int, factor: int, base: float) -> None:
    longer = lw.extend(lw.Rotary(head_dim), lw.NTK(factor)).spectrum
    assert longer.base == pytest.approx(base, rel=1e-8)
    assert longer.attention_factor == 1.0
    close(longer.inv_freq / lw.Rotary(head_dim, base=longer.base).spectrum.inv_freq, torch.ones(head_dim // 2).double())


def test_the_highest_frequency_stays_and_the_lowest_is_divided_by_the_factor(close) -> None:
    ratio = lw.extend(lw.Rotary(64), lw.NTK(4)).spectrum.inv_freq / lw.Rotary(64).spectrum.inv_freq
    assert ratio[0] == 1.0
    close(ratio[-1], torch.tensor(0.25, dtype=torch.float64))
    assert (ratio.diff() < 0).all()


def test_sus_variant_is_another_base_and_another_division(close) -> None:
    longer = lw.extend(lw.Rotary(64), lw.NTK(4, variant="su")).spectrum
    m = torch.arange(32, dtype=torch.float64)
    close(longer.inv_freq * 4 ** (2 / 64), 40000.0 ** (-2 * m / 64))  # vLLM: base b s, then divided by s^(2/r)
    ratio = longer.inv_freq / lw.Rotary(64).spectrum.inv_freq
    assert ratio[0] < 1
    close(ratio[-1], torch.tensor(0.25, dtype=torch.float64))


@pytest.mark.parametrize(("length", "total"), [(2048, 3.99790823), (4096, 3.62023886), (8192, 3.38140974)])
def test_the_dynamic_sums_of_the_formula_sheet(length: int, total: float) -> None:
    longer = lw.extend(lw.Rotary(64), lw.DynamicNTK(2, 2048))
    assert longer.spectrum_at(length).inv_freq.sum().item() == pytest.approx(total, rel=1e-7)
    assert longer.spectrum_at(None).inv_freq.sum().item() == pytest.approx(3.99790823, rel=1e-7)


def test_lengths_in_any_order_give_the_sum_of_each() -> None:
    # In this order transformers 5.24 gives 3.3814 at 4096 and 2048 too, from the 8192 before.
    longer = lw.extend(lw.Rotary(64), lw.DynamicNTK(2, 2048))
    sums = [longer.spectrum_at(length).inv_freq.sum().item() for length in (1000, 8192, 4096, 2048, 2047)]
    assert sums == pytest.approx([3.9979, 3.3814, 3.6202, 3.9979, 3.9979], abs=5e-5)


def test_factor_one_of_the_dynamic_form_is_the_static_one_at_the_ratio_of_lengths(close) -> None:
    dynamic = lw.extend(lw.Rotary(64), lw.DynamicNTK(1, 2048)).spectrum_at(3 * 2048).inv_freq
    close(dynamic / lw.extend(lw.Rotary(64), lw.NTK(3)).spectrum.inv_freq, torch.ones(32, dtype=torch.float64))


def test_frequencies_that_follow_the_length_are_not_read_without_one() -> None:
    longer = lw.extend(lw.Rotary(64), lw.DynamicNTK(2, 2048))
    with pytest.raises(lw.InvalidArgument, match=r"follow the length: use spectrum_at\(length\)"):
        _ = longer.spectrum


@pytest.mark.parametrize("method", [lw.NTK(2), lw.DynamicNTK(2, 64)])
def test_a_single_pair_is_refused_when_it_is_extended(method) -> None:
    with pytest.raises(lw.InvalidArgument, match="a single pair of dims has one"):
        lw.extend(lw.Rotary(2), method)
    with pytest.raises(lw.InvalidArgument, match="a single pair of dims has one"):
        lw.extend(lw.Rotary(8, fraction=0.25), method)
    assert torch.equal(lw.extend(lw.Rotary(2), lw.NTK(2, variant="su")).spectrum.inv_freq, torch.tensor([0.5]).double())


def test_the_length_of_training_is_filled_in_by_name() -> None:
    longer = lw.build("rotary + dynamic_ntk(factor=2)", lw.Dims(dim=64, heads=4, max_length=256, trained_length=128))
    assert longer.method == lw.DynamicNTK(2, 128)
