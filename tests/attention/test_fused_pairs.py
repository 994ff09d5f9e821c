"""Extensions that move pairs, without gradients: a call of the fused kernel for each kind of pairs is whole logits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import Positions
from lengthwise.attention import blocks

LENGTH = 90
DIMS = lw.Dims(dim=64, heads=4, trained_length=32)
PADDED = torch.ones(2, LENGTH, dtype=torch.bool)
PADDED[0, :21] = False
PADDED[1, -30:] = False
POSITIONS = {
    "sequence": Positions.sequence(LENGTH),
    "some last ones": Positions.step(LENGTH - 7, 7),
    "the last one": Positions.step(LENGTH - 1),
    "padded": Positions.padded(PADDED),
    "packed": Positions.packed([33, LENGTH - 33]),
    "stripes": Positions.shard(range(1, 2 * LENGTH, 2), range(0, 2 * LENGTH, 2)),
    "in no order": Positions.shard(torch.randperm(LENGTH), torch.randperm(LENGTH)),
}
METHODS = [
    "self_extend(group=4, window=16)",
    "rerope(window=10)",
    "dual_chunk(chunk=24, local=8)",
    "streaming_llm(sinks=3, recent=20)",
    "lm_infinite(sinks=2, local=25)",
    "by_query(dynamic_yarn(original_length=16), block=16)",
]


def inputs(positions: Positions, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, positions.q_length, 16, generator=generator)
    k, v = torch.randn(2, 2, 2, positions.k_length, 16, generator=generator)
    return q.to(dtype), k.to(dtype), v.to(dtype)


@pytest.mark.parametrize("rows", [256, 13])
@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("method", METHODS)
def test_it_gives_the_outputs_and_sums_of_the_reference(
    method: str, kind: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "_ROWS", rows)
    monkeypatch.delattr(blocks, "_attend_formed")  # the other road
    encoding, positions = lw.build(f"rotary + {method}", DIMS), POSITIONS[kind]
    given = inputs(positions)
    with torch.no_grad():
        prepared = lw.prepare(encoding, positions)
        for _ in range(2):  # what one layer found serves the next
            out, lse = lw.attention(*given, prepared, backend="blocks", return_lse=True)
            expected, sums = lw.attention(*given, encoding, positions, backend="reference", return_lse=True)
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(lse, sums, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(lw.attention(*given, prepared, backend="blocks"), out, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_it_keeps_the_dtype_and_narrows_once(dtype: torch.dtype) -> None:
    encoding, positions = lw.build(f"rotary + {METHODS[0]}", DIMS), POSITIONS["padded"]
    given = inputs(positions, dtype)
    with torch.no_grad():
        out = lw.attention(*given, encoding, positions, backend="blocks")
        expected = lw.attention(*(x.double() for x in given), encoding, positions, backend="reference")
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=0.01 if dtype.itemsize == 2 else 1e-6)


def test_a_batch_under_vmap_is_that_of_its_rows() -> None:
    encoding, positions = lw.build(f"rotary + {METHODS[0]}", DIMS), POSITIONS["sequence"]
    q, k, v = inputs(positions)
    with torch.no_grad():
        each = torch.vmap(lambda *one: lw.attention(*(x[None] for x in one), encoding, positions, backend="blocks")[0])
        whole = lw.attention(q, k, v, encoding, positions, backend="blocks")
        torch.testing.assert_close(each(q, k, v), whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec", [f"rotary + {METHODS[0]}", "alibi", "t5", "none"])
@pytest.mark.parametrize("part", range(3))
def test_numbers_that_do_not_lie_side_by_side_give_what_copies_of_them_give(spec: str, part: int) -> None:
    encoding, positions = lw.build(spec, DIMS), POSITIONS["padded"]
    given = list(inputs(positions))
    given[part] = given[part].transpose(-1, -2).contiguous().transpose(-1, -2)
    backends = ("blocks", "auto") if "rotary" in spec else ("blocks", "auto", "toeplitz")
    expected = lw.attention(*(x.contiguous() for x in given), encoding, positions, backend="reference")
    for backend in backends:
        for grad in (False, True):
            with torch.set_grad_enabled(grad):
                out = lw.attention(*given, encoding, positions, backend=backend)
                torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
        leaves = [x.detach().requires_grad_() for x in given]
        grads = [
            torch.autograd.grad(lw.attention(*leaves, encoding, positions, backend=name).sin().sum(), leaves)
            for name in (backend, "reference")
        ]
        for got, wanted in zip(*grads, strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("limit", [1, 200, 5000])
def test_large_masks_are_not_copied_for_each_query_head(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_MASK", limit)
    encoding, positions = lw.build(f"rotary + {METHODS[0]}", DIMS), POSITIONS["padded"]
    with torch.no_grad():
        out = lw.attention(*inputs(positions), encoding, positions, backend="blocks")
        expected = lw.attention(*inputs(positions), encoding, positions, backend="reference")
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
