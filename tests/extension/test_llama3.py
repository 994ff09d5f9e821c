from __future__ import annotations

import math

import pytest
import torch

import lengthwise as lw

PLAIN = lw.Rotary(128, base=500000.0)
LONGER = lw.extend(PLAIN, lw.Llama3(8, 8192)).spectrum


def test_the_numbers_of_llama_3_1() -> None:
    theta = LONGER.inv_freq
    assert torch.equal(theta[:29], PLAIN.spectrum.inv_freq[:29])
    assert torch.equal(theta[35:], PLAIN.spectrum.inv_freq[35:] / 8)
    blended = theta[29:35]
    assert ((blended < PLAIN.spectrum.inv_freq[29:35]) & (blended > PLAIN.spectrum.inv_freq[29:35] / 8)).all()
    assert theta[[29, 30, 32, 34, 35, 63]].tolist() == pytest.approx(
        [2.1665706e-3, 1.3718937e-3, 5.2484602e-4, 1.7850779e-4, 9.5562122e-5, 3.0689259e-7], rel=2e-6
    )
    assert theta.sum().item() == pytest.approx(5.38605826, rel=1e-7)
    assert LONGER.attention_factor == 1.0


def test_it_is_continuous_at_both_ends_of_the_ramp() -> None:
    # The frequency of the second pair of two runs past the bounds of 4 turns and of 1 turn in 1024 tokens.
    for turns, share in ((4.0, 1.0), (1.0, 1 / 8)):
        ratios = []
        for nudge in (1 - 1e-9, 1 + 1e-9):
            plain = lw.Rotary(4, base=(2 * math.pi * turns * nudge / 1024) ** -2)
            after = lw.extend(plain, lw.Llama3(8, 1024)).spectrum.inv_freq[1]
            ratios.append((after / plain.spectrum.inv_freq[1]).item())
        assert ratios == pytest.approx([share, share], abs=1e-7)


def test_it_is_by_parts_with_other_bounds() -> None:
    parts = lw.extend(PLAIN, lw.NTKByParts(8, 8192, slow=1.0, fast=4.0)).spectrum
    assert torch.equal(parts.inv_freq, LONGER.inv_freq)


def test_the_encoding_keeps_what_it_claims() -> None:
    assert lw.claims(lw.extend(PLAIN, lw.Llama3(8, 8192))) == lw.claims(PLAIN)
