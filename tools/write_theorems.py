"""Write the figure of `examples/08_two_theorems.py` into docs, few colours."""

import runpy
import sys
import tempfile
from pathlib import Path

from small_png import shrink

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "theorems.png"
        sys.argv = ["example", str(path)]
        runpy.run_path(str(next((ROOT / "examples").glob("08_*.py"))), run_name="__main__")
        (ROOT / "docs" / path.name).write_bytes(shrink(path.read_bytes()))
