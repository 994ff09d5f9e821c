"""Examples a second of the generator of every task.

Each task is drawn in batches at its longest length: the datasets of Kazemnejad et al. 2023 at the longest that the
study tested, the others at 64. "100,000 in" is the time for so many examples, scaled from those that were drawn.
The first batch is not counted.

    python benchmarks/tasks.py [--examples 20000] [--batch 1000] [--threads 1] [--only NAME ...]
"""

from __future__ import annotations

import argparse
import time

import torch

from lengthwise.tasks import Task, build_task, datasets, tasks

LENGTH = 64
SCRATCHPADS = ("parity", "summation", "polynomial", "uneven_addition", "sort(symbols=50)", "sort_numbers", "lego")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--examples", type=int, default=20_000)
    arguments.add_argument("--batch", type=int, default=1000)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--only", nargs="+", default=[], help="tasks by registered name")
    chosen = arguments.parse_args()
    torch.set_num_threads(chosen.threads)
    print(f"torch {torch.__version__}, CPU, {chosen.threads} thread(s), {chosen.examples} examples by {chosen.batch}\n")
    print(f"{'task':<44}{'length':>7}{'tokens':>7}{'examples/s':>12}{'100,000 in':>12}")
    for spec, length in cases():
        if chosen.only and spec.partition("(")[0] not in chosen.only:
            continue
        task = build_task(spec)
        rate, tokens = speed(task, length, chosen.examples, chosen.batch)
        print(f"{spec:<44}{length:>7}{tokens:>7}{rate:>12.0f}{100_000 / rate:>10.1f} s", flush=True)


def cases() -> list[tuple[str, int]]:
    """Every dataset, every task that makes none, and full scratchpads."""
    found = [(one.spec, max(one.tested)) for one in datasets()]
    named = {spec.partition("(")[0] for spec, _ in found}
    found += [(name, LENGTH) for name, made in tasks.items() if name not in named and hasattr(made, "solve")]
    for spec in SCRATCHPADS:
        name, _, rest = spec.partition("(")
        switches = f"scratchpad='full', {rest}" if rest else "scratchpad='full')"
        found.append((f"{name}({switches}", 16))
    return found


def speed(task: Task, length: int, examples: int, batch: int) -> tuple[float, int]:
    """Examples a second, and tokens of the longest."""
    generator = torch.Generator().manual_seed(0)
    widest = task.sample(generator, batch, length).tokens.shape[1]
    batches = max(1, examples // batch)
    start = time.perf_counter()
    for _ in range(batches):
        widest = max(widest, task.sample(generator, batch, length).tokens.shape[1])
    return batches * batch / (time.perf_counter() - start), widest


if __name__ == "__main__":
    main()
