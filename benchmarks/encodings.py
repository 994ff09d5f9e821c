"""What every encoding costs: to make it, and one call at a length, beside the cheapest peer that has it.

A call is what a forward pass asks: positions added to embeddings [1, length, 512], q and k [1, 8, length, 64] rotated,
a dense bias [8, length, length], whole logits of the same. Both sides start from nothing but the module. The ratio is
the median of rounds in which both take turns (above 1: ours is faster). Whole logits and what hidden states decide are
called at a quarter of the length, planes at one of as many positions.

    python benchmarks/encodings.py [--length 4096] [--rounds 5]
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.encodings.registry import encodings, example
from lengthwise.sites import axes, sites

DIM, HEADS, HEAD_DIM = 512, 8, 64
Call = Callable[[], Any]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--length", type=int, default=4096)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=2)
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    print(f"torch {torch.__version__}, {chosen.threads} threads, medians of {chosen.rounds} rounds\n")
    print(f"{'encoding':24} {'acts on':10} {'length':>6} {'make ms':>8} {'call ms':>9}   peer: ms, ratio")
    with torch.no_grad():
        for name in encodings:
            measure(name, chosen.length, chosen.rounds)


def measure(name: str, length: int, rounds: int) -> None:
    """Print one line."""
    spec = example(name)
    dims = lw.Dims(DIM, HEADS, HEAD_DIM, max_length=length)
    encoding = lw.build(spec, dims)
    where = (sites(encoding) or ("nothing",))[0]
    size = length // 4 if where in ("logits", "hidden") else length
    if axes(encoding) > 1 and where == "bias":
        size = min(size, 1024)  # a plane of 32 x 32
    call = ours(encoding, where, size)
    made = median(seconds(lambda: lw.build(spec, dims)) for _ in range(rounds))
    peer = peers(size).get(name)
    call()
    taken = [(seconds(call), seconds(peer[1]) if peer else 0.0) for _ in range(rounds)]
    mine = median(pair[0] for pair in taken)
    told = ""
    if peer:
        told = f"{peer[0]}: {1e3 * median(pair[1] for pair in taken):.2f}, {median(b / a for a, b in taken):.2f}"
    print(f"{spec:24} {where:10} {size:6} {1e3 * made:8.2f} {1e3 * mine:9.2f}   {told}", flush=True)


def ours(encoding: nn.Module, where: str, length: int) -> Call:
    """What a forward pass asks of an encoding."""
    if axes(encoding) == 1:
        positions = lw.Positions.sequence(length)
    else:
        side = int(length ** (1 / axes(encoding)))
        grid = torch.cartesian_prod(*[torch.arange(side)] * axes(encoding))[None]
        positions = lw.Positions(grid, grid, causal=False)
    length = positions.q_length
    x, q = torch.randn(1, length, DIM), torch.randn(1, HEADS, length, HEAD_DIM)
    k = torch.randn(1, HEADS, length, HEAD_DIM)

    def call() -> object:
        ready = lw.prepare(encoding, positions).read(x)[0]
        if where == "embeddings":
            return ready.embed(x)
        if where == "rotation" or (where == "hidden" and ready.rotation is not None):
            return ready.rotation(q, k)
        if ready.logits is not None:
            return ready.logits(q, k, ready.positions, HEAD_DIM**-0.5)
        return None if ready.bias is None else ready.bias.dense()

    return call


def peers(length: int) -> dict[str, tuple[str, Call]]:
    """The peer that has an encoding and is the fastest of those at hand, with all that it does for one call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # x-transformers warns as it is imported
        import x_transformers.x_transformers as xt
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
    from transformers import LlamaConfig, T5Config
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb
    from transformers.models.t5.modeling_t5 import T5Attention

    x, q, k = torch.randn(1, length, DIM), *torch.randn(2, 1, HEADS, length, HEAD_DIM)
    place = torch.arange(length)[None]
    llama = LlamaRotaryEmbedding(LlamaConfig(hidden_size=DIM, num_attention_heads=HEADS))
    t5 = T5Attention(T5Config(num_heads=HEADS, is_decoder=True), has_relative_attention_bias=True)
    alibi = xt.AlibiPositionalBias(HEADS)
    table, waves = nn.Embedding(length, DIM), xt.ScaledSinusoidalEmbedding(DIM)
    cope = xt.CoPE(HEAD_DIM, HEADS, 64)

    def dense_alibi() -> Tensor:
        alibi.bias = None  # it keeps the last one
        return alibi(length, length)

    def xpos() -> tuple[Tensor, Tensor]:
        fresh = RotaryEmbedding(HEAD_DIM, use_xpos=True, cache_if_possible=False)
        return fresh.rotate_queries_and_keys(q, k)

    def axial() -> tuple[Tensor, Tensor]:
        side = int(length**0.5)
        fresh = RotaryEmbedding(HEAD_DIM // 4, freqs_for="pixel", cache_if_possible=False)
        angles = fresh.get_axial_freqs(side, side).flatten(0, 1)
        return apply_rotary_emb(angles, q[:, :, : side * side]), apply_rotary_emb(angles, k[:, :, : side * side])

    def contextual() -> Tensor:
        logits = q @ k.transpose(-1, -2) * HEAD_DIM**-0.5
        return logits + cope(q, logits)

    return {
        "learned": ("nn.Embedding", lambda: x + table(place)),
        "sinusoidal": ("x-transformers", lambda: x + waves(x)),
        "rotary": ("transformers", lambda: apply_rotary_pos_emb(q, k, *llama(x, place))),
        "xpos": ("rotary-embedding-torch", xpos),
        "axial": ("rotary-embedding-torch", axial),
        "alibi": ("x-transformers", dense_alibi),
        "t5": ("transformers", lambda: t5.compute_bias(length, length)),
        "cope": ("x-transformers", contextual),
    }


def seconds(call: Call) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
