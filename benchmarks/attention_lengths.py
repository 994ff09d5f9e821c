"""Time and memory of attention against length, each point in a process of its own.

Forward once, float32, batch 1, 8 heads of 64; memory is the peak of the process beyond what it held before. "dense" is
ALiBi with a bias of heads x length x length as the mask, up to 8192.

    python benchmarks/attention_lengths.py [--longest 65536] [--threads 2] [--write docs/attention_lengths.png]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch

import lengthwise as lw

HEADS, HEAD_DIM = 8, 64
NAMES = ("none", "rotary", "alibi", "t5", "dense")
COLOURS = ["#80868e", "#0072b2", "#d55e00", "#009e73", "#cc79a7"]
SHORTEST, LONGEST_DENSE = 1024, 8192


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--longest", type=int, default=16384)
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--write", type=Path, metavar="FILE", help="figure to write")
    arguments.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    chosen = arguments.parse_args()
    if chosen.one:
        torch.set_num_threads(chosen.threads)
        print(*one(chosen.one[0], int(chosen.one[1])))
        return
    print(f"torch {torch.__version__}, {chosen.threads} threads, float32, [1, {HEADS}, length, {HEAD_DIM}], forward\n")
    print(f"{'length':>8} {'encoding':10} {'seconds':>9} {'of none':>8} {'MB':>7}")
    points: list[dict[str, Any]] = []
    length = SHORTEST
    while length <= chosen.longest:
        bare = 0.0
        for name in NAMES if length <= LONGEST_DENSE else NAMES[:-1]:
            command = [sys.executable, __file__, "--threads", str(chosen.threads), "--one", name, str(length)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, megabytes = map(float, done.stdout.split())
            bare = seconds if name == "none" else bare
            print(f"{length:8} {name:10} {seconds:9.3f} {seconds / bare:8.2f} {megabytes:7.0f}", flush=True)
            label = "alibi as a dense mask" if name == "dense" else name
            points.append({"length": length, "encoding": label, "seconds": seconds, "MB": max(megabytes, 1.0)})
        length *= 2
    if chosen.write:
        draw(points, chosen.write)


def one(name: str, length: int) -> tuple[float, float]:
    """Seconds of the quickest of a few passes, and megabytes that they took at most."""
    torch.manual_seed(0)
    encoding = lw.build("alibi" if name == "dense" else name, lw.Dims(HEADS * HEAD_DIM, HEADS))
    q, k, v = torch.randn(3, 1, HEADS, length, HEAD_DIM)
    backend = "sdpa" if name == "dense" else "auto"
    with torch.no_grad():
        lw.attention(q[:, :, :8], k[:, :, :8], v[:, :, :8], encoding, backend=backend)  # what is loaded at first use
        before, times = held(), []
        for _ in range(5 if length <= 4096 else 2 if length <= 16384 else 1):
            start = time.perf_counter()
            lw.attention(q, k, v, encoding, backend=backend)
            times.append(time.perf_counter() - start)
    return min(times), held() - before


def held() -> float:
    """Megabytes that this process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)


def draw(points: list[dict[str, Any]], file: Path) -> None:
    """Two panels, both axes by factors."""
    import altair as alt

    from lengthwise.report.theme import save

    lengths = sorted({point["length"] for point in points})
    names = list(dict.fromkeys(point["encoding"] for point in points))
    ticks = alt.Axis(values=lengths, format="d")

    def panel(value: str, title: str) -> alt.Chart:
        return (
            alt.Chart(alt.Data(values=points))
            .mark_line(point=True)
            .encode(
                x=alt.X("length:Q", scale=alt.Scale(type="log", base=2), axis=ticks, title="length (tokens)"),
                y=alt.Y(f"{value}:Q", scale=alt.Scale(type="log"), axis=alt.Axis(tickCount=6), title=title),
                color=alt.Color("encoding:N", title=None, sort=names, scale=alt.Scale(range=COLOURS)),
            )
            .properties(width=330, height=240)
        )

    both = alt.concat(panel("seconds", "seconds, forward"), panel("MB", "peak memory beyond inputs (MB)"), spacing=40)
    save(both, file)


if __name__ == "__main__":
    main()
