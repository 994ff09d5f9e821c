from __future__ import annotations

import pytest
import torch

import lengthwise as lw


@pytest.mark.parametrize("spec", ["rotary", "rotary + yarn(factor=4)", "rotary + dynamic_ntk(factor=2)", "xpos"])
def test_without_its_rotation_an_encoding_is_none(spec: str) -> None:
    left = lw.build(f"{spec} + drope", lw.Dims(dim=16, heads=2, max_length=8))
    q, k, v = torch.randn(3, 1, 2, 12, 8, generator=torch.Generator().manual_seed(0))
    assert lw.sites(left) == ()
    assert left.cached_keys == "rotated"
    assert torch.equal(lw.attention(q, k, v, left), lw.attention(q, k, v, lw.NoPE()))


def test_what_else_an_encoding_does_stays_in_each_layer() -> None:
    dims = lw.Dims(dim=16, heads=2)
    left = lw.extend(lw.PerLayer([lw.build("rotary + alibi", dims), lw.build("rotary", dims), lw.NoPE()]), lw.DroPE())
    assert [lw.sites(one) for one in left] == [("bias",), (), ()]


def test_only_rotations_can_be_dropped() -> None:
    for encoding in (lw.ALiBi(2), lw.NoPE(), lw.QueryTemperature(), lw.extend(lw.Rotary(8), lw.LogN(4))):
        with pytest.raises(lw.InvalidArgument, match="rotation"):
            lw.extend(encoding, lw.DroPE())
