"""How long it takes to rotate queries and keys, here and in two other packages.

Each line is one shape: milliseconds for q and k together, the median of 7 rounds in which ours and the peer take turns,
so that noise of the machine meets both; the ratio is the median of the rounds' ratios (above 1: ours is faster).
Eager, tables of cosines ready on both sides. `transformers` rounds its cosines to the dtype of q, as its models do;
ours stay in float32. "heads last" means a transposed view of [batch, length, heads, head_dim], as attention makes it.
A last table holds what bounds a rotation: copies, new memory that is only filled, and one kernel made by a compiler.

    python benchmarks/rotary.py
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import torch
from rotary_embedding_torch import RotaryEmbedding
from torch import Tensor
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as gptj_rotary
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama_rotary

from lengthwise.rotation import Layout, Rotation

THREADS = 2
ROUNDS = 7
LONG = (1, 32, 4096, 128)
SHAPES = [LONG, (8, 8, 256, 64), (32, 4, 128, 16), (1, 8, 1, 64)]  # long context, two trainings, one decoding step

Pair = tuple[Tensor, Tensor]
Rotate = Callable[[Tensor, Tensor], Pair]


def main() -> None:
    torch.set_num_threads(THREADS)
    print(f"torch {torch.__version__}, {THREADS} threads, q and k, eager\n")
    print(f"{'shape':18} {'dtype':9} {'layout':12} {'pass':19} {'peer':23} {'ours ms':>9} {'peer ms':>9} {'ratio':>6}")
    for dtype in (torch.float32, torch.bfloat16):
        for layout in ("half", "interleaved"):
            for shape in SHAPES:
                compare(shape, dtype, layout, backward=False)
                if shape != (1, 8, 1, 64):
                    compare(shape, dtype, layout, backward=True)
            compare(LONG, dtype, layout, backward=False, heads_last=True)
    print(f"\nwhat bounds it, {list(LONG)}\n\n{'dtype':9} {'layout':12} {'what':26} {'ms':>9} {'clone / it':>10}")
    for dtype in (torch.float32, torch.bfloat16):
        for layout in ("half", "interleaved"):
            bounds(dtype, layout)


def bounds(dtype: torch.dtype, layout: Layout) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k = (draw(LONG, False, generator).to(dtype) for _ in range(2))
    rotation = Rotation.of_angles(angles := angles_of(LONG), angles, layout)
    run: dict[str, Rotate] = {
        "q.clone(), k.clone()": lambda q, k: (q.clone(), k.clone()),
        "new memory, filled": lambda q, k: (torch.empty_like(q).fill_(1.0), torch.empty_like(k).fill_(1.0)),
        "ours": rotation,
        "ours, compiled": torch.compile(lambda q, k: rotation(q, k)),
    }
    rounds = [[seconds(f, q, k, 1) for f in run.values()] for _ in range(ROUNDS + 1)][1:]
    for name, mine in zip(run, zip(*rounds, strict=True), strict=True):
        ratio = median(row[0] / own for row, own in zip(rounds, mine, strict=True))
        print(f"{str(dtype)[6:]:9} {layout:12} {name:26} {1e3 * median(mine):9.1f} {ratio:10.2f}", flush=True)


def compare(
    shape: tuple[int, int, int, int], dtype: torch.dtype, layout: Layout, backward: bool, heads_last: bool = False
) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, dq, dk = (draw(shape, heads_last, generator).to(dtype) for _ in range(4))
    if backward:
        q.requires_grad_()
        k.requires_grad_()
    angles = angles_of(shape)
    ours = Rotation.of_angles(angles, angles, layout)
    what = ("forward+backward" if backward else "forward") + (", heads last" if heads_last else "")
    for name, peer in peers(angles, dtype, layout, shape[3]).items():
        run = [gradients_of(f, dq, dk) if backward else f for f in (ours, peer)]
        repeats = max(1, min(300, 2**21 // q.numel()))
        rounds = [[seconds(f, q, k, repeats) for f in run] for _ in range(ROUNDS + 1)][1:]  # the first one warms up
        ours_ms, peer_ms = (1e3 * median(column) for column in zip(*rounds, strict=True))
        ratio = median(theirs / mine for mine, theirs in rounds)
        print(
            f"{list(shape)!s:18} {str(dtype)[6:]:9} {layout:12} {what:19} {name:23} "
            f"{ours_ms:9.3f} {peer_ms:9.3f} {ratio:6.2f}",
            flush=True,
        )


def draw(shape: tuple[int, int, int, int], heads_last: bool, generator: torch.Generator) -> Tensor:
    batch, heads, length, head_dim = shape
    if heads_last:
        return torch.randn(batch, length, heads, head_dim, generator=generator).transpose(1, 2)
    return torch.randn(shape, generator=generator)


def angles_of(shape: tuple[int, int, int, int]) -> Tensor:
    return torch.arange(shape[2])[:, None] * 10000.0 ** (-torch.arange(0, shape[3], 2) / shape[3])


def peers(angles: Tensor, dtype: torch.dtype, layout: Layout, head_dim: int) -> dict[str, Rotate]:
    """What each package offers in this layout, its tables made outside the clock."""
    cos, sin = angles.cos().to(dtype)[None], angles.sin().to(dtype)[None]  # [1, length, pairs]
    if layout == "half":
        wide_cos, wide_sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        return {
            "transformers (Llama)": lambda q, k: llama_rotary(q, k, wide_cos, wide_sin),
            "q.clone(), k.clone()": lambda q, k: (q.clone(), k.clone()),
        }
    other = RotaryEmbedding(head_dim).rotate_queries_or_keys  # keeps its angles from the first call on
    return {
        # GPT-J rotates before its heads are brought to the front; a view turns ours into what it expects.
        "transformers (GPT-J)": lambda q, k: (
            gptj_rotary(q.transpose(1, 2), sin, cos),
            gptj_rotary(k.transpose(1, 2), sin, cos),
        ),
        "rotary-embedding-torch": lambda q, k: (other(q), other(k)),
        "q.clone(), k.clone()": lambda q, k: (q.clone(), k.clone()),
    }


def gradients_of(rotate: Rotate, dq: Tensor, dk: Tensor) -> Rotate:
    def run(q: Tensor, k: Tensor) -> Pair:
        out = rotate(q, k)
        grads = [dx if dx.shape == o.shape else dx.transpose(1, 2) for dx, o in zip((dq, dk), out, strict=True)]
        return torch.autograd.grad(out, (q, k), grads)

    return run


def seconds(rotate: Rotate, q: Tensor, k: Tensor, repeats: int) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        rotate(q, k)
    return (time.perf_counter() - start) / repeats


if __name__ == "__main__":
    main()
