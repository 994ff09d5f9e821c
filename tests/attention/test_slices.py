from __future__ import annotations

import pytest
import torch
from torch import Tensor

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
