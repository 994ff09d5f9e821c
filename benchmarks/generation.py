"""Scoring a test length by one teacher-forced pass against decoding it token by token.

For exact match both say the same: an answer is decoded greedily if and only if every token of it is the argmax of one
pass over prompt and answer. Half of each sequence is the prompt here, half the answer.

    python benchmarks/generation.py [--threads 1] [--rounds 5] [--lengths 16 64 256]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.models import Decoder, ModelConfig


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--rounds", type=int, default=5, help="number of ratios whose median is shown")
    arguments.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256])
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    config = ModelConfig(vocabulary=32, dim=64, layers=2, heads=4)
    print(f"torch {torch.__version__}, CPU, {chosen.threads} thread(s); dim 64, 2 layers, 32 sequences, rotary\n")
    print(f"{'answer':>8}{'one pass':>12}{'generate':>12}{'ratio':>8}")
    torch.manual_seed(0)
    model = Decoder(config, lw.build("rotary", config.dims())).eval()
    for length in chosen.lengths:
        prompt = torch.randint(32, (32, length), generator=torch.Generator().manual_seed(0))
        whole = model.generate(prompt, length)
        assert one_pass(model, whole, length).all(), "one pass and greedy decoding disagree"
        pairs = [
            (
                seconds(lambda w=whole, n=length: one_pass(model, w, n)),
                seconds(lambda p=prompt, n=length: model.generate(p, n)),
            )
            for _ in range(chosen.rounds)
        ]
        ratio = statistics.median(slow / fast for fast, slow in pairs)
        fast, slow = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"{length:>8}{fast * 1000:>9.1f} ms{slow * 1000:>9.1f} ms{ratio:>8.1f}")


@torch.no_grad()
def one_pass(model: Decoder, whole: Tensor, answer: int) -> Tensor:
    """Which rows a teacher-forced pass finds right."""
    return (model(whole[:, :-1])[:, -answer:].argmax(-1) == whole[:, -answer:]).all(-1)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
