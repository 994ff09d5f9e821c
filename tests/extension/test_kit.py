from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_extended_encodings_pass_the_kit() -> None:
    script = Path(__file__).with_name("kit.py")
    done = subprocess.run(
        [sys.executable, script],
        env=os.environ | {"PYTHONPATH": str(script.parents[2] / "src"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    failures = json.loads(done.stdout)
    assert len(failures) > 8
    assert {spec: found for spec, found in failures.items() if found} == {}
