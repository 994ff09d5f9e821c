"""Attention over shards of keys, merged by log-sum-exp, is attention over all of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions

Close = Callable[..., None]
HEADS = 4


def inputs(length: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(2, HEADS, length, 8, generator=generator).double().requires_grad_() for _ in range(3)]


def ring(encoding: nn.Module, q: Tensor, k: Tensor, v: Tensor, positions: Positions, backend: str, size: int) -> Tensor:
    """Each shard of queries against each shard of keys."""
    length, outs = q.shape[2], []
    for start in range(0, length, size):
        rows = slice(start, start + size)
        shards = []
        for first in range(0, length, size):
            keys = slice(first, first + size)
            own = positions.part(rows, keys)
            shards.append(
                lw.attention(
                    q[:, :, rows], k[:, :, keys], v[:, :, keys], encoding, own, backend=backend, return_lse=True
                )
            )
        outs.append(lw.merge(shards)[0])
    return torch.cat(outs, dim=2)


@pytest.mark.parametrize(
    "spec", ["rotary", "alibi", "t5", "kerple", "fire", "shaw", "rotary + alibi", "none", "sandwich"]
)
@pytest.mark.parametrize("backend", ["reference", "blocks", "auto"])
def test_a_ring_of_shards_gives_the_whole_with_its_gradients(spec: str, backend: str, close: Close) -> None:
    torch.manual_seed(0)
    encoding = lw.build(spec, lw.Dims(dim=32, heads=HEADS)).double()
    q, k, v = inputs(11)
    positions = Positions.packed([4, 7])
    learned = [parameter for parameter in encoding.parameters() if parameter.requires_grad]
    whole = lw.attention(q, k, v, encoding, positions, backend="reference")
    parts = ring(encoding, q, k, v, positions, backend, 4)
    close(parts, whole, of=torch.float32)
    grads = [torch.autograd.grad(out.square().sum(), [q, k, v, *learned]) for out in (parts, whole)]
    for one, other in zip(*grads, strict=True):
        close(one, other, of=torch.float32, times=8)


@pytest.mark.parametrize("spec", ["rotary", "alibi", "t5", "rotary + yarn(2, original_length=8)"])
@pytest.mark.parametrize("world", [1, 3])
def test_shards_by_index_give_the_whole_whether_they_are_runs_or_stripes(spec: str, world: int, close: Close) -> None:
    encoding = lw.build(spec, lw.Dims(dim=32, heads=HEADS)).double()
    q, k, v = (x.detach() for x in inputs(12))
    whole = lw.attention(q, k, v, encoding)
    runs = [range(r * 12 // world, (r + 1) * 12 // world) for r in range(world)]
    stripes = [range(r, 12, world) for r in range(world)]
    for ranks in (runs, stripes):
        for mine in ranks:
            shards = [
                lw.attention(
                    q[:, :, mine], k[:, :, its], v[:, :, its], encoding, Positions.shard(mine, its), return_lse=True
                )
                for its in ranks
            ]
            close(lw.merge(shards)[0], whole[:, :, mine], of=torch.float32)


@pytest.mark.parametrize("backend", ["reference", "blocks", "auto"])
def test_the_log_sum_exp_is_that_of_the_visible_logits(backend: str, close: Close) -> None:
    q, k, v = (x.detach() for x in inputs(5))
    positions = Positions.padded(torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]]))
    out, lse = lw.attention(q, k, v, lw.ALiBi(HEADS), positions, backend=backend, return_lse=True)
    close(out, lw.attention(q, k, v, lw.ALiBi(HEADS), positions, backend="reference"))
    logits = q @ k.transpose(-1, -2) * 8**-0.5 + lw.ALiBi(HEADS).logit_bias(positions).dense()
    visible = positions.visible()
    assert visible is not None
    expected = logits.masked_fill(~visible.unsqueeze(1), float("-inf")).logsumexp(-1)
    close(lse, expected, of=torch.float32)
    assert (lse[0, :, :2] == float("-inf")).all()


def test_rows_that_see_nothing_anywhere_stay_zero_and_have_no_gradient_of_nan() -> None:
    q, k, v = inputs(4)
    nothing = Positions.padded(torch.zeros(2, 4, dtype=torch.bool))
    shard = lw.attention(q, k, v, None, nothing, return_lse=True)
    out, lse = lw.merge([shard, shard])
    assert out.abs().sum() == 0
    assert (lse == float("-inf")).all()
    for grad in torch.autograd.grad(out.sum(), [q, k, v]):
        assert grad.isfinite().all()


def test_a_backend_that_gives_none_says_so_and_no_shard_is_no_attention() -> None:
    q, k, v = inputs(4)
    with pytest.raises(lw.BackendRefused, match="gives no log-sum-exp"):
        lw.attention(q, k, v, backend="sdpa", return_lse=True)
    with pytest.raises(lw.InvalidArgument, match="at least one shard"):
        lw.merge([])
    out, lse = lw.attention(q[:, :, :0], k, v, return_lse=True)
    assert (out.shape, lse.shape) == ((2, HEADS, 0, 8), (2, HEADS, 0))
