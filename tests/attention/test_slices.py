from __future__ import annotations

import sys

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.attention.slices import Slices


def _x() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 3, 7, 4, dtype=torch.float64, generator=generator).requires_grad_()


def _loss(x: Tensor) -> Tensor:
    some = Slices(x)
    return sum((some(slice(last - 3, last)).sin() * last).sum() for last in (7, 3, 5)) + x.square().sum()  # pyright: ignore[reportReturnType]


def _plain(x: Tensor) -> Tensor:
    return sum((x[:, :, last - 3 : last].sin() * last).sum() for last in (7, 3, 5)) + x.square().sum()  # pyright: ignore[reportReturnType]


def test_slices_that_share_a_buffer_are_slices_with_the_gradients_of_slices() -> None:
    x = _x()
    some = Slices(x)
    assert all(torch.equal(some(part), x[:, :, part]) for part in (slice(0, 0), slice(0, 4), slice(2, 7)))
    torch.testing.assert_close(torch.autograd.grad(_loss(x), x), torch.autograd.grad(_plain(x), x))


def test_a_second_backward_pass_through_the_same_graph_gives_the_same_again() -> None:
    x = _x()
    loss = _loss(x)
    once = torch.autograd.grad(loss, x, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(loss, x), once)


def test_what_a_failed_backward_pass_has_added_is_no_part_of_the_next() -> None:
    x = _x()
    some = Slices(x)
    broken = [True]

    def fail(grad: Tensor) -> Tensor:
        if broken[0]:
            raise RuntimeError("on the way")
        return grad

    late = some(slice(0, 3)).sin()
    late.register_hook(fail)
    loss = late.sum() + some(slice(0, 5)).cos().sum()
    with pytest.raises(RuntimeError, match="on the way"):
        torch.autograd.grad(loss, x, retain_graph=True)
    broken[0] = False
    mine = torch.autograd.grad(loss, x)
    torch.testing.assert_close(mine, torch.autograd.grad(x[:, :, :3].sin().sum() + x[:, :, :5].cos().sum(), x))


def test_backward_passes_through_one_graph_may_overlap() -> None:
    x = _x()
    some = Slices(x)
    inner: list[Tensor] = []
    late, early = some(slice(0, 3)).sin(), some(slice(0, 5)).cos()
    loss = late.sum() + early.sum()
    plain = torch.autograd.grad(x[:, :, :3].sin().sum() + x[:, :, :5].cos().sum(), x)

    def again(grad: Tensor) -> None:
        if not inner:
            inner.append(grad)
            inner[:] = torch.autograd.grad(loss, x, retain_graph=True)

    late.register_hook(again)
    torch.testing.assert_close(torch.autograd.grad(loss, x, retain_graph=True), plain)
    torch.testing.assert_close(tuple(inner), plain)


@pytest.mark.parametrize("rows", [None, 3])
def test_attention_by_blocks_gives_batches_of_gradients(rows: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if rows is not None:
        monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", rows * 2 * 8)
    encoding = lw.build("fire", lw.Dims(8, 2)).double()
    q, k, v = (torch.randn(1, 2, 8, 4, dtype=torch.float64).requires_grad_() for _ in range(3))

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return lw.attention(q, k, v, encoding, backend="blocks")

    out = attend(q, k, v)
    several = torch.randn(3, *out.shape, dtype=torch.float64)
    batch = torch.autograd.grad(out, (q, k, v), several, is_grads_batched=True, retain_graph=True)
    for number, one in enumerate(several):
        alone = torch.autograd.grad(out, (q, k, v), one, retain_graph=True)
        torch.testing.assert_close(tuple(part[number] for part in batch), alone)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # read by the compiler
def test_attention_by_blocks_has_gradients_under_compiled_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo import compiled_autograd

    monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", 3 * 2 * 8)
    encoding = lw.build("fire", lw.Dims(8, 2)).double()
    q, k, v = (torch.randn(1, 2, 8, 4, dtype=torch.float64).requires_grad_() for _ in range(3))
    plain = torch.autograd.grad(lw.attention(q, k, v, encoding, backend="blocks").sin().sum(), (q, k, v))
    with compiled_autograd._enable(lambda graph: graph):  # pyright: ignore[reportPrivateUsage]
        lw.attention(q, k, v, encoding, backend="blocks").sin().sum().backward()
    torch.testing.assert_close((q.grad, k.grad, v.grad), plain)


def test_slices_have_gradients_of_gradients() -> None:
    def both(x: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(_loss(x), x, create_graph=True)
        return grad.square().sum()

    def plain(x: Tensor) -> Tensor:
        (grad,) = torch.autograd.grad(_plain(x), x, create_graph=True)
        return grad.square().sum()

    x = _x()
    torch.testing.assert_close(torch.autograd.grad(both(x), x), torch.autograd.grad(plain(x), x))


def test_slices_under_torch_func_are_plain_ones() -> None:
    x = _x().detach()
    torch.testing.assert_close(torch.func.grad(_loss)(x), torch.func.grad(_plain)(x))
    torch.testing.assert_close(torch.func.vmap(lambda row: Slices(row)(slice(0, 2)))(x[None]), x[None, :, :, :2])
