"""Write the figures of `examples/06_past_the_trained_length.py` into docs, few colours each."""

import runpy
import sys
import tempfile
from pathlib import Path

from small_png import shrink

ROOT = Path(__file__).parents[1]

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.argv = ["example", folder]
        runpy.run_path(str(next((ROOT / "examples").glob("06_*.py"))), run_name="__main__")
        for path in sorted(Path(folder).glob("*.png")):
            (ROOT / "docs" / path.name).write_bytes(shrink(path.read_bytes()))
