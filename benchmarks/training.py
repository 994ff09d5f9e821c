"""Training throughput of the Decoder against a plain loop in `torch.nn.functional`, and of each encoding against none.

The plain loop is what one would write by hand: same sizes, same first weights, same arithmetic, no modules and no
encoding. A ratio is taken of two runs that follow each other, and the median of several is shown, so that other work
on the machine touches both alike.

    python benchmarks/training.py [--threads 1 2] [--rounds 7] [--seconds 0.3]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

import lengthwise as lw
from lengthwise.encodings import encodings
from lengthwise.models import Decoder, ModelConfig


@dataclass(frozen=True)
class Size:
    """One model with one batch, [batch, length]."""

    dim: int
    layers: int
    heads: int
    batch: int
    length: int
    vocabulary: int = 256

    def __str__(self) -> str:
        return f"dim {self.dim} x {self.layers} layers, [{self.batch}, {self.length}]"


SIZES = (Size(64, 2, 4, 16, 128), Size(128, 4, 4, 16, 128), Size(256, 4, 4, 8, 512))
LENGTHS = (Size(64, 2, 4, 16, 128), Size(64, 2, 4, 4, 512))  # as many tokens, four times the length
Step = Callable[[], float]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    arguments.add_argument("--rounds", type=int, default=7, help="number of ratios whose median is shown")
    arguments.add_argument("--seconds", type=float, default=0.3, help="time of one run, at least one step")
    chosen = arguments.parse_args()
    print(f"torch {torch.__version__}, CPU, float32; forward, backward and AdamW; thousands of tokens a second\n")
    print(f"{'threads':>7}  {'size':<34}{'plain loop':>11}{'Decoder':>9}{'ratio':>7}  (lowest to highest)")
    for threads in chosen.threads:
        torch.set_num_threads(threads)
        for size in SIZES:
            check_same_numbers(size)
            plain, ours, ratios = compare(plain_step(size), decoder_step(size, None), size, chosen)
            print(
                f"{threads:>7}  {size!s:<34}{plain:>11.1f}{ours:>9.1f}{statistics.median(ratios):>7.2f}"
                f"  ({min(ratios):.2f} to {max(ratios):.2f})"
            )
    print("\nEach encoding against none, in the Decoder")
    print(f"{'threads':>7}  {'encoding':<14}" + "".join(f"{size!s:>34}" for size in LENGTHS))
    torch.set_num_threads(chosen.threads[0])
    for name in encodings:
        cells = []
        for size in LENGTHS:
            _, _, ratios = compare(decoder_step(size, None), decoder_step(size, name), size, chosen)
            cells.append(f"{statistics.median(ratios):>34.2f}")
        print(f"{chosen.threads[0]:>7}  {name:<14}" + "".join(cells))


def compare(first: Step, second: Step, size: Size, chosen: argparse.Namespace) -> tuple[float, float, list[float]]:
    """Thousands of tokens a second of both, and the ratios second to first, run in turn."""
    start = time.perf_counter()
    first(), second()  # warm-up
    once = (time.perf_counter() - start) / 2
    steps = max(1, int(chosen.seconds / once))
    speeds: list[tuple[float, float]] = []
    for number in range(chosen.rounds):
        pair = (first, second) if number % 2 == 0 else (second, first)
        seconds = [run(step, steps) for step in pair]
        a, b = seconds if number % 2 == 0 else seconds[::-1]
        speeds.append((size.batch * size.length * steps / a / 1000, size.batch * size.length * steps / b / 1000))
    ratios = [b / a for a, b in speeds]
    return statistics.median(a for a, _ in speeds), statistics.median(b for _, b in speeds), ratios


def run(step: Step, steps: int) -> float:
    """Seconds that so many steps take."""
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return time.perf_counter() - start


def make_model(size: Size, name: str | None) -> Decoder:
    config = ModelConfig(size.vocabulary, dim=size.dim, layers=size.layers, heads=size.heads, norm="rms")
    torch.manual_seed(0)
    return Decoder(config, None if name is None else lw.build(name, config.dims(size.length)))


def make_tokens(size: Size) -> Tensor:
    return torch.randint(size.vocabulary, (size.batch, size.length + 1), generator=torch.Generator().manual_seed(0))


def decoder_step(size: Size, name: str | None) -> Step:
    """One training step of the Decoder."""
    model, tokens = make_model(size, name), make_tokens(size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step() -> float:
        logits = model(tokens[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def plain_step(size: Size) -> Step:
    """One training step of the same model, written out."""
    tokens = make_tokens(size)
    source = make_model(size, None)
    embedding, last_norm, head = map(copy, (source.embedding.weight, source.stack.norm.weight, source.head.weight))
    layers = [
        {
            "norm1": copy(block.attention_norm.weight),
            "q": copy(block.attention.q.weight),
            "k": copy(block.attention.k.weight),
            "v": copy(block.attention.v.weight),
            "out": copy(block.attention.out.weight),
            "norm2": copy(block.feed_forward_norm.weight),
            "up": copy(block.feed_forward.up.weight),
            "down": copy(block.feed_forward.down.weight),
        }
        for block in source.stack.blocks
    ]
    parameters = [embedding, last_norm, head, *(weight for layer in layers for weight in layer.values())]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    batch, length, dim, heads = size.batch, size.length, size.dim, size.heads

    def split(x: Tensor) -> Tensor:
        return x.view(batch, length, heads, dim // heads).transpose(1, 2)  # [batch, heads, length, head_dim]

    def step() -> float:
        x = functional.embedding(tokens[:, :-1], embedding) * dim**0.5
        for layer in layers:
            h = functional.rms_norm(x, (dim,), layer["norm1"], 1e-6)
            q, k, v = (split(functional.linear(h, layer[name])) for name in "qkv")
            h = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + functional.linear(h.transpose(1, 2).reshape(batch, length, dim), layer["out"])
            h = functional.rms_norm(x, (dim,), layer["norm2"], 1e-6)
            x = x + functional.linear(functional.relu(functional.linear(h, layer["up"])), layer["down"])
        logits = functional.linear(functional.rms_norm(x, (dim,), last_norm, 1e-6), head)
        loss = functional.cross_entropy(logits.view(-1, size.vocabulary), tokens[:, 1:].reshape(-1))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def copy(weight: Tensor) -> Tensor:
    return weight.detach().clone().requires_grad_()


def check_same_numbers(size: Size) -> None:
    """The comparison is fair only where both train the same model: the first losses must agree."""
    plain, ours = plain_step(size), decoder_step(size, None)
    for _ in range(3):
        torch.testing.assert_close(plain(), ours(), rtol=1e-4, atol=1e-4)


if __name__ == "__main__":
    main()
