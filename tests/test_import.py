from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
HEAVY = "scipy polars altair vl_convert transformers rich tyro safetensors jinja2 pandas matplotlib pytest hypothesis"


def test_the_package_loads_torch_and_nothing_heavier_without_a_warning() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import lengthwise; "
        "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "lengthwise" in loaded
    assert not loaded & set(HEAVY.split())
    # jaxtyping brings its own two helpers; anything new here has to be argued for.
    third_party = {name for name in loaded if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert third_party <= {"lengthwise", "jaxtyping", "wadler_lindig", "typeguard", "torch", "numpy"}
