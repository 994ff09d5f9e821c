"""Write the pictures of README from the runs of `make quickstart`: `python tools/write_pictures.py [RUNS]`."""

import sys
from pathlib import Path

from lengthwise.lab import find_results
from lengthwise.report.comparison import comparisons
from lengthwise.report.figures import score_by_length
from lengthwise.report.theme import save

DOCS = Path(__file__).parents[1] / "docs"

if __name__ == "__main__":
    results, _ = find_results([Path(sys.argv[1] if len(sys.argv) > 1 else "runs")])
    for comparison in comparisons(results):
        print(save(score_by_length(comparison), DOCS / f"{comparison.task.split('(')[0]}.png", width=560, scale=1.5))
