"""Attention with an encoding against causal attention without one: time, and memory at a long length.

Each figure is the median of rounds in which `scaled_dot_product_attention` without a bias (causal) and ours take turns;
the ratio is the median of the rounds' ratios. Memory is the peak of a new process beyond that of attention without a
bias at the same length, forward and backward. "dense" is what other packages do: a bias of heads x length x length
as the mask. The last lines decode one token as a model does: what an encoding says is made once for all layers.

    python benchmarks/attention.py [--length 4096] [--rounds 7] [--threads 2] [--memory 16384]
        [--compiled] [--write README.md docs/how-it-is-fast.md]
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import lengthwise as lw
from lengthwise.attention.plan import plan
from lengthwise.attention.request import Request

HEADS, HEAD_DIM = 8, 64
TARGETS = {  # forward, forward + backward; megabytes
    "rotary": (1.1, 1.15),
    "alibi": (1.3, 1.35),
    "sandwich": (1.9, 1.9),
    "t5": (1.8, 2.2),
    "kerple": (1.8, 2.2),
    "fire": (4.0, 6.0),
}
COMPILED = {"rotary": 1.1, "alibi": 1.05, "sandwich": 1.1, "t5": 1.1, "kerple": 1.1, "fire": 2.0}  # forward
MEGABYTES = 256
MARKS = "<!-- speed -->", "<!-- /speed -->"


@dataclass
class Row:
    """What one encoding was measured at: ratios, and megabytes."""

    forward: float
    both: float
    decoding: float = math.nan
    memory: float = math.nan


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--length", type=int, default=4096)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--memory", type=int, default=16384, help="length for memory; 0 leaves it out")
    arguments.add_argument("--write", nargs="*", type=Path, default=[], metavar="FILE", help="Markdown to renew")
    arguments.add_argument("--compiled", action="store_true", help="only the forward pass, by torch.compile")
    arguments.add_argument("--only", help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.compiled and chosen.write:
        arguments.error("--compiled measures the forward pass alone: it can't renew the table")
    torch.set_num_threads(chosen.threads)
    if chosen.only:
        print(peak(chosen.only, chosen.memory))
        return
    shape = f"[1, {HEADS}, {chosen.length}, {HEAD_DIM}]"
    print(f"torch {torch.__version__}, {chosen.threads} threads, float32, {shape}\n")
    print(f"{'encoding':10} {'backend':9} {'pass':18} {'ours ms':>9} {'plain ms':>9} {'ratio':>6}  target")
    if chosen.compiled:
        for name, target in COMPILED.items():
            speed(name, chosen, False, target, compiled=True)
        return
    rows: dict[str, Row] = {}
    memory = peaks(chosen) if chosen.memory else {}  # first: a process begins with the peak of the one that starts it
    for name, targets in TARGETS.items():
        ratios = [speed(name, chosen, bool(back), target) for back, target in enumerate(targets)]
        rows[name] = Row(*ratios, memory=memory.get(name, math.nan))
    dense = Row(*(speed("alibi", chosen, backward, None, backend="sdpa") for backward in (False, True)))
    print("\none new token in 12 layers with 8192 cached keys each, against no encoding (target 1.1)")
    for name in TARGETS:
        rows[name].decoding = decode(name, 8192)
    for file in chosen.write:
        renew(file, table(rows, dense, chosen, shape))


def peaks(chosen: argparse.Namespace) -> dict[str, float]:
    """Print, and return, megabytes of each encoding beyond none."""
    plain, more = measured("none", chosen), dict[str, float]()
    for name in TARGETS:
        more[name] = measured(name, chosen) - plain
        told = f"target {MEGABYTES}: {met(more[name] <= MEGABYTES)}"
        print(f"{name:10} {more[name]:8.0f} MB beyond none, length {chosen.memory}, both passes; {told}", flush=True)
    return more


def table(rows: dict[str, Row], dense: Row, chosen: argparse.Namespace, shape: str) -> str:
    """The figures as Markdown."""
    head = f"| encoding | forward | forward + backward | one cached token | memory at {chosen.memory} |"
    lines = [head, "|---|---:|---:|---:|---:|"]
    for name, row in (rows | {"alibi as a dense mask": dense}).items():
        cells = [f"{value:.2f}" for value in (row.forward, row.both)]
        cells.append("" if math.isnan(row.decoding) else f"{row.decoding:.2f}")
        cells.append("" if math.isnan(row.memory) else f"{max(row.memory, 0):.0f} MB")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    how = (
        f"`python benchmarks/attention.py`, {date.today()}: times as ratios to causal attention without a bias in the "
        f"same run (float32, {shape}, {chosen.threads} threads, median of {chosen.rounds}); a token that joins 8192 "
        "cached keys in 12 layers; peak memory beyond attention without a bias, forward and backward."
    )
    return "\n".join([*lines, "", *textwrap.wrap(how, 118)])


def renew(file: Path, text: str) -> None:
    """Put the table between the marks of a file."""
    whole = file.read_text(encoding="utf-8")
    start, end = (whole.index(mark) for mark in MARKS)
    file.write_text(f"{whole[: start + len(MARKS[0])]}\n{text}\n{whole[end:]}", encoding="utf-8")


def speed(
    name: str,
    chosen: argparse.Namespace,
    backward: bool,
    target: float | None,
    backend: str = "auto",
    compiled: bool = False,
) -> float:
    """Print one line of the table, and return its ratio."""
    torch.manual_seed(0)
    encoding = lw.build(name, lw.Dims(HEADS * HEAD_DIM, HEADS))
    q, k, v, g = (torch.randn(1, HEADS, chosen.length, HEAD_DIM) for _ in range(4))
    leaves = [q, k, v, *encoding.parameters()]
    attend = torch.compile(lw.attention) if compiled else lw.attention
    for leaf in leaves:
        leaf.requires_grad_(backward)

    def ours() -> Tensor:
        return attend(q, k, v, encoding, backend=backend)

    def plain() -> Tensor:
        return scaled_dot_product_attention(q, k, v, is_causal=True)

    rounds = 1 + (chosen.rounds if backend == "auto" else min(chosen.rounds, 3))  # the first one warms up
    pairs = [(seconds(ours, leaves, g, backward), seconds(plain, leaves[:3], g, backward)) for _ in range(rounds)]
    pairs = pairs[1:]
    mine, theirs = (1e3 * median(column) for column in zip(*pairs, strict=True))
    ratio = median(a / b for a, b in pairs)
    used = "compiled" if compiled else lw.explain_attention(q, k, v, encoding).chosen if backend == "auto" else "dense"
    told = "" if target is None else f"{target}: {met(ratio <= target)}"
    what = "forward + backward" if backward else "forward"
    print(f"{name:10} {used:9} {what:18} {mine:9.1f} {theirs:9.1f} {ratio:6.2f}  {told}", flush=True)
    return ratio


def seconds(run: Callable[[], Tensor], leaves: list[Tensor], grad: Tensor, backward: bool) -> float:
    start = time.perf_counter()
    if backward:
        torch.autograd.grad(run(), leaves, grad, allow_unused=True)
    else:
        with torch.no_grad():
            run()
    return time.perf_counter() - start


def peak(name: str, length: int) -> float:
    """Megabytes that this process has held at most, after one forward and backward."""
    encoding = lw.build(name, lw.Dims(HEADS * HEAD_DIM, HEADS))
    q, k, v, g = (torch.randn(1, HEADS, length, HEAD_DIM) for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v, *encoding.parameters())]
    torch.autograd.grad(lw.attention(q, k, v, encoding), leaves, g, allow_unused=True)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)


def measured(name: str, chosen: argparse.Namespace) -> float:
    command = [
        sys.executable,
        __file__,
        "--only",
        name,
        "--memory",
        str(chosen.memory),
        "--threads",
        str(chosen.threads),
    ]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def decode(name: str, keys: int, layers: int = 12) -> float:
    """Print, and return, what one new token costs in all layers against no encoding; what is said is said once."""
    q, new = torch.randn(2, 1, HEADS, 1, HEAD_DIM)
    caches = [torch.randn(2, 1, HEADS, keys, HEAD_DIM) for _ in range(3)]  # more than any cache of the processor holds
    positions = lw.Positions.step(keys - 1)

    def step(encoding: torch.nn.Module | None) -> Tensor:
        ready = lw.prepare(encoding, positions)
        rotation = None if ready.rotation_of_new is None else ready.rotation_of_new()
        attend = plan(Request.of(q, *caches[0], positions, ready.bias))
        out = q
        for layer in range(layers):
            turned, _ = (q, new) if rotation is None else rotation(q, new)
            out = attend(turned, *caches[layer % 3])
        return out

    encoding = lw.build(name, lw.Dims(HEADS * HEAD_DIM, HEADS))
    runs = [(lambda: step(encoding)), (lambda: step(None))]
    pairs = [tuple(seconds(run, [], q, False) for run in runs) for _ in range(22)][2:]
    ratio = median(a / b for a, b in pairs)
    mine, theirs = (1e3 * median(column) for column in zip(*pairs, strict=True))
    print(f"{name:10} {mine:7.2f} ms, without {theirs:7.2f} ms, ratio {ratio:.2f}: {met(ratio <= 1.1)}", flush=True)
    return ratio


def met(reached: bool) -> str:
    return "met" if reached else "not met"


if __name__ == "__main__":
    main()
