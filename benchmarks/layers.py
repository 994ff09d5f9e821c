"""A layer of causal self-attention with its projections, ours beside those of other packages, of equal sizes.

Ours is four linear layers and `lengthwise.attention`. `x-transformers` is one attention layer of its `Decoder`, with
`attn_flash` where it has that, `transformers` its Llama attention (by `scaled_dot_product_attention`) and T5's. Each
figure is the median of rounds in which both take turns; the ratio is theirs to ours, above 1 where ours is faster.

    python benchmarks/layers.py [--length 2048] [--rounds 5] [--threads 2]
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

import lengthwise as lw

DIM, HEADS = 512, 8


class Ours(nn.Module):
    """Projections and attention."""

    def __init__(self, encoding: nn.Module) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.encoding = encoding

    def forward(self, x: Tensor) -> Tensor:
        """From `[batch, length, dim]` to the same."""
        q, k, v = self.into(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.out(lw.attention(q, k, v, self.encoding).transpose(1, 2).flatten(2))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--length", type=int, default=2048)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=2)
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    print(f"torch {torch.__version__}, {chosen.threads} threads, float32, [1, {chosen.length}, {DIM}], {HEADS} heads\n")
    print(f"{'peer':16} {'encoding':9} {'pass':18} {'theirs ms':>10} {'ours ms':>9} {'theirs / ours':>14}")
    for peer, name, make in (
        ("x-transformers", "rotary", lambda: x_transformers(True, rotary_pos_emb=True, rotary_emb_dim=DIM // HEADS)),
        ("x-transformers", "alibi", lambda: x_transformers(True, alibi_pos_bias=True)),
        ("x-transformers", "t5", lambda: x_transformers(False, rel_pos_bias=True)),
        ("transformers", "rotary", lambda: llama(chosen.length)),
        ("transformers", "t5", lambda: t5(chosen.length)),
    ):
        if importlib.util.find_spec(peer.replace("-", "_")) is None:
            print(f"{peer} is not installed")
            continue
        theirs, ours = make(), Ours(lw.build(name, lw.Dims(DIM, HEADS)))
        for backward in (False, True):
            compare(peer, name, theirs, ours, chosen, backward)


def compare(
    peer: str,
    name: str,
    theirs: Callable[[Tensor], Tensor],
    ours: nn.Module,
    chosen: argparse.Namespace,
    backward: bool,
) -> None:
    """Print one line."""
    x = torch.randn(1, chosen.length, DIM)
    g = torch.randn(1, chosen.length, DIM)
    pairs = [(seconds(theirs, x, g, backward), seconds(ours, x, g, backward)) for _ in range(chosen.rounds + 1)][1:]
    a, b = (1e3 * median(column) for column in zip(*pairs, strict=True))
    ratio = median(one / other for one, other in pairs)
    what = "forward + backward" if backward else "forward"
    print(f"{peer:16} {name:9} {what:18} {a:10.1f} {b:9.1f} {ratio:14.2f}", flush=True)


def seconds(run: Callable[[Tensor], Tensor], x: Tensor, g: Tensor, backward: bool) -> float:
    start = time.perf_counter()
    with torch.set_grad_enabled(backward):
        out = run(x)
        if backward:
            out.backward(g)
    return time.perf_counter() - start


def x_transformers(flash: bool, **settings: object) -> Callable[[Tensor], Tensor]:
    from x_transformers import Decoder

    return Decoder(dim=DIM, depth=1, heads=HEADS, custom_layers=("a",), attn_flash=flash, **settings)


def sizes(dim: str, *heads: str, by: str) -> dict[str, Any]:
    return {dim: DIM, **dict.fromkeys(heads, HEADS), "attn_implementation": by}


def llama(length: int) -> Callable[[Tensor], Tensor]:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding

    config = LlamaConfig(**sizes("hidden_size", "num_attention_heads", "num_key_value_heads", by="sdpa"))
    layer, rotary = LlamaAttention(config, layer_idx=0), LlamaRotaryEmbedding(config)
    place = torch.arange(length)[None]
    return lambda x: layer(x, position_embeddings=rotary(x, place), attention_mask=None)[0]


def t5(length: int) -> Callable[[Tensor], Tensor]:
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(**sizes("d_model", "num_heads", by="eager"), d_kv=DIM // HEADS, is_decoder=True, dropout_rate=0.0)
    layer = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    bars = torch.full((length, length), float("-inf")).triu(1)[None, None]
    return lambda x: layer(x, mask=bars)[0]


if __name__ == "__main__":
    main()
