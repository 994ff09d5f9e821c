"""A bias of distance as a strided view of one vector: equal to the reference, in memory that grows with the length."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions

Close = Callable[..., None]
HEADS = 4
BIASES = [
    "alibi",
    "t5(bidirectional=True)",
    "kerple",
    "sandwich",
    "alibi + t5(bidirectional=True)",
    "window(window=70)",
]


def windowed(length: int, causal: bool, window: int) -> Positions:
    plain = Positions.sequence(length, causal)
    return Positions(plain.q, plain.k, causal=causal, window=window, aligned=True)


def holes(length: int) -> Tensor:
    mask = torch.ones(2, length, dtype=torch.bool)
    mask[0, : length // 2 + 20] = False
    mask[1, length - 30 :] = False
    mask[1, 40] = False
    return mask


POSITIONS: dict[str, Callable[[], Positions]] = {
    "1": lambda: Positions.sequence(1),
    "2": lambda: Positions.sequence(2),
    "255": lambda: Positions.sequence(255),
    "256": lambda: Positions.sequence(256),
    "257": lambda: Positions.sequence(257),
    "600, seeing all": lambda: Positions.sequence(600, causal=False),
    "3 new of 400": lambda: Positions.step(397, 3),
    "300 new of 700": lambda: Positions.step(400, 300),
    "a window": lambda: windowed(530, True, 100),
    "a window both ways": lambda: windowed(530, False, 100),
    "padded": lambda: Positions.padded(holes(530)),
    "padded, 20 new": lambda: Positions.padded(holes(530), new=20),
    "padded, seeing all": lambda: Positions.padded(holes(530), causal=False),
    "packed": lambda: Positions.packed([3, 200, 0, 327]),
    "nothing real": lambda: Positions.padded(torch.zeros(2, 300, dtype=torch.bool)),
}


def run(
    backend: str,
    encoding: nn.Module | None,
    positions: Positions,
    dtype: torch.dtype = torch.float32,
    kv_heads: int = 2,
) -> list[Tensor]:
    """Output, and gradients of q, k, v and all parameters."""
    generator = torch.Generator().manual_seed(0)
    queries, keys = positions.q_length, positions.k_length
    shapes = ((2, HEADS, queries, 8), (2, kv_heads, keys, 8), (2, kv_heads, keys, 6))
    q, k, v = (torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes)
    out = lw.attention(q, k, v, encoding, positions, backend=backend)
    learned = [] if encoding is None else list(encoding.parameters())
    grads = torch.autograd.grad(out, [q, k, v, *learned], torch.randn(out.shape, generator=generator).to(dtype))
    return [out.detach(), *grads]


def bias(spec: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(1)
    encoding = lw.build(spec, lw.Dims(dim=32, heads=HEADS)).to(dtype)
    for parameter in encoding.parameters():
        nn.init.normal_(parameter)
    return encoding


@pytest.mark.parametrize("spec", BIASES)
@pytest.mark.parametrize("where", POSITIONS)
def test_outputs_and_gradients_are_those_of_the_reference(spec: str, where: str, close: Close) -> None:
    encoding, positions = bias(spec), POSITIONS[where]()
    for fast, right in zip(run("toeplitz", encoding, positions), run("reference", encoding, positions), strict=True):
        # A learned number collects the gradients of up to 600 x 600 pairs.
        close(fast, right, times=max(1.0, float(right.abs().max())) * 4)


@pytest.mark.parametrize("where", ["a window", "padded", "packed", "padded, seeing all"])
def test_what_is_seen_is_laid_out_without_a_bias_too(where: str, close: Close) -> None:
    positions = POSITIONS[where]()
    for fast, right in zip(run("toeplitz", None, positions), run("reference", None, positions), strict=True):
        close(fast, right, times=4)
    q = torch.zeros(2, HEADS, positions.q_length, 8)
    assert lw.explain_attention(q, q, q, None, positions).chosen == "toeplitz"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kv_heads", [1, 4])
def test_every_dtype_is_near_the_reference_in_float64(dtype: torch.dtype, kv_heads: int, close: Close) -> None:
    positions = Positions.sequence(300)
    fast = run("toeplitz", bias("t5", dtype), positions, dtype, kv_heads)
    right = run("reference", bias("t5", dtype).double(), positions, torch.float64, kv_heads)
    assert all(part.dtype == dtype for part in fast)
    for one, other in zip(fast, right, strict=True):
        close(one.double(), other, of=dtype, times=4 * max(1.0, float(other.abs().max())))


def test_it_is_chosen_for_long_biases_of_distance_and_says_what_it_can_not_take() -> None:
    q = torch.zeros(1, HEADS, 300, 8)
    assert lw.explain_attention(q, q, q, bias("t5")).chosen == "toeplitz"
    assert lw.explain_attention(q[:, :, :1], q, q, bias("t5")).chosen == "sdpa"
    far = Positions(torch.arange(300) * 2, torch.arange(300) * 2)
    for positions, encoding, message in (
        (far, bias("alibi"), "do not promise to be aligned"),
        (None, bias("fire"), "no function of distance alone"),
        (None, None, "neither a bias nor a mask"),
        (None, bias("cope"), "whole logits"),
    ):
        with pytest.raises(lw.BackendRefused, match=message):
            lw.attention(q, q, q, encoding, positions, backend="toeplitz")


def test_under_autocast_the_bias_keeps_its_digits(close: Close) -> None:
    # A far distance times a slope of ALiBi has more digits than bfloat16: rounded, neighbours would be one.
    q = torch.zeros(1, HEADS, 600, 8)
    v = torch.randn(1, HEADS, 600, 8, generator=torch.Generator().manual_seed(0))
    exact = lw.attention(q, q, v, lw.ALiBi(HEADS, max_bias=2), backend="reference")
    with torch.autocast("cpu", torch.bfloat16):
        out = lw.attention(q, q, v, lw.ALiBi(HEADS, max_bias=2), backend="toeplitz")
    assert out.dtype == torch.bfloat16
    close(out.float(), exact, of=torch.bfloat16)


def test_the_gradient_of_a_learned_vector_is_right_in_float64() -> None:
    encoding = bias("t5(buckets=4, max_distance=6)", torch.float64)
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, HEADS, 5, 2, generator=generator).double().requires_grad_() for _ in range(3))

    def out(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
        distance = lw.DistanceBias(
            lambda d: nn.functional.embedding(encoding.bucket(d), table).movedim(-1, 0), Positions.sequence(5)
        )
        return lw.attend(q, k, v, distance, backend="toeplitz")

    assert torch.autograd.gradcheck(out, (q, k, v, encoding.table))
