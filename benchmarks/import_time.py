"""What `import lengthwise` costs more than `import torch`, in new processes that take turns.

Both come from compiled bytecode, as an installed package does: PYTHONDONTWRITEBYTECODE, where it is set, would have a
checkout compiled anew in every process.

python benchmarks/import_time.py [--rounds 9]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

TIMED = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=9, help="number of pairs whose median is shown")
    chosen = arguments.parse_args()
    seconds("torch"), seconds("lengthwise")  # writes bytecode, and fills the disk's cache
    pairs = [(seconds("torch"), seconds("lengthwise")) for _ in range(chosen.rounds)]
    bare, whole = (statistics.median(column) for column in zip(*pairs, strict=True))
    more = statistics.median(b - a for a, b in pairs)
    # Behind torch, in one process: free of the noise of loading torch itself.
    alone = statistics.median(seconds("lengthwise", "import torch; ") for _ in range(chosen.rounds))
    print(f"python {sys.version.split()[0]}, medians of {chosen.rounds} processes each\n")
    print(f"{'import torch':<34}{bare * 1000:>8.0f} ms")
    print(f"{'import lengthwise':<34}{whole * 1000:>8.0f} ms   {whole / bare:.3f} times")
    print(f"{'difference, median of pairs':<34}{more * 1000:>8.0f} ms")
    print(f"{'import lengthwise after torch':<34}{alone * 1000:>8.0f} ms")


def seconds(module: str, before: str = "") -> float:
    """Seconds that one import takes in a new process."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", before + TIMED.format(module)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


if __name__ == "__main__":
    main()
