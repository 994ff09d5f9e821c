from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch

import lengthwise as lw
from lengthwise import Positions

METHOD = lw.DynamicNTK(factor=2, original_length=16)


def test_each_row_is_that_of_a_sequence_of_the_length_that_its_block_reaches(close: Callable[..., None]) -> None:
    q, k, v = torch.randn(3, 1, 2, 40, 8, generator=torch.Generator().manual_seed(0))
    longer = lw.extend(lw.Rotary(8), lw.ByQuery(METHOD, block=6))
    out = lw.attention(q, k, v, longer)
    for row in range(40):
        reached = (row // 6 + 1) * 6
        base = 10000.0 * (2 * max(reached, 16) / 16 - 1) ** (8 / 6)
        at = Positions.step(row, 1)
        wanted = lw.attention(q[:, :, row : row + 1], k[:, :, : row + 1], v[:, :, : row + 1], lw.Rotary(8, base), at)
        close(out[:, :, row : row + 1], wanted)


def test_prefixes_caches_padded_rows_and_blocks_agree(
    close: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = torch.randn(3, 2, 2, 60, 8, generator=torch.Generator().manual_seed(1))
    longer = lw.extend(lw.Rotary(8), lw.ByQuery(METHOD, block=5))
    assert longer.cached_keys == "raw"
    whole = lw.attention(q, k, v, longer)
    close(lw.attention(q[:, :, :33], k[:, :, :33], v[:, :, :33], longer), whole[:, :, :33])
    close(lw.attention(q[:, :, 57:], k, v, longer, Positions.step(57, 3)), whole[:, :, 57:])
    padded = lw.attention(q, k, v, longer, Positions.padded(torch.arange(60) >= torch.tensor([[0], [7]])))
    close(padded[1:, :, 7:], lw.attention(q[1:, :, 7:], k[1:, :, 7:], v[1:, :, 7:], longer))
    monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", 2 * 2 * 60 * 4)
    with torch.no_grad():
        close(lw.attention(q, k, v, longer), whole)
    q.requires_grad_()
    grads = [
        torch.autograd.grad(lw.attention(q, k, v, longer, backend=name).square().sum(), q)[0]
        for name in ("reference", "blocks")
    ]
    close(grads[1], grads[0], times=4)


def test_within_the_trained_length_it_is_the_rotation_itself() -> None:
    longer = lw.extend(lw.Rotary(8), lw.ByQuery(METHOD, block=4))
    ready = lw.prepare(longer, Positions.sequence(16))
    assert ready.logits is None
    q = torch.randn(1, 1, 16, 8)
    assert torch.equal(ready.rotation.q(q), lw.Rotary(8).rotation(Positions.sequence(16)).q(q))
    assert lw.prepare(longer, Positions.sequence(17)).logits is not None


def test_a_block_of_rows_turns_keys_for_the_spectra_in_it_only(monkeypatch: pytest.MonkeyPatch) -> None:
    products: list[int] = []
    pairs = sys.modules["lengthwise.extension.pairs"]
    product = pairs.product
    monkeypatch.setattr(pairs, "product", lambda q, k: (products.append(q.shape[2]), product(q, k))[1])
    monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", 128 * 8)
    q = torch.randn(1, 1, 128, 8)
    lw.attention(q, q, q, lw.extend(lw.Rotary(8), lw.ByQuery(METHOD, block=16)))  # gradients may be asked for
    assert products == [8] * 16  # each row block lies in one block of queries


def test_what_does_not_follow_the_length_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="Interpolate does not"):
        lw.ByQuery(lw.Interpolate(2), block=4)
    with pytest.raises(lw.InvalidArgument, match="at least 1 query"):
        lw.ByQuery(METHOD, block=0)
    with pytest.raises(lw.InvalidArgument, match="has none"):
        lw.extend(lw.ALiBi(2), lw.ByQuery(METHOD, block=4))
    with pytest.raises(lw.InvalidArgument, match="another method"):
        lw.extend(lw.extend(lw.Rotary(8), lw.Interpolate(2)), lw.ByQuery(METHOD, block=4))
