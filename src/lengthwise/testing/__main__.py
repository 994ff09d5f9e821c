"""`python -m lengthwise.testing [NAME ...]`: all checks, fast and slow, over the registry; exit code 1 on a failure.

A check that takes long and finds the same in all encodings of one structure is run on the first of each.
"""

from __future__ import annotations

import argparse
import sys

import torch

from lengthwise.dims import Dims
from lengthwise.errors import LengthwiseError
from lengthwise.testing import Report, check_encoding, makers, registered
from lengthwise.testing.makers import OfLayer, OfPath, OfSpec
from lengthwise.testing.structure import structure
from lengthwise.testing.subject import Subject
from lengthwise.testing.suite import Which, named_checks

DIMS = Dims(dim=32, heads=4, head_dim=8, max_length=128)


def main(names: list[str], checks: Which = "all") -> int:
    """Print a line for each encoding, then each failure; return the exit code."""
    torch.set_num_threads(1)  # the tensors are small: more threads would wait for each other
    makes = [make for name in names for make in makers(name, DIMS)] or registered(DIMS)
    width = max(len(make.label) for make in makes)
    print(f"{'encoding':<{width}}  checks  passed  failed  skipped  not claimed  seconds")
    reports: list[Report] = []
    seen: set[str] = set()
    for make in makes:
        kind = _structure(make)
        chosen = [check.name for check in named_checks(checks) if kind not in seen or not check.once]
        seen.add(kind)
        report = check_encoding(make, dims=DIMS, checks=chosen)
        reports.append(report)
        counts = (len(report.results), len(report.passed), len(report.failures), len(report.skipped))
        row = "".join(f"{count:>{size}}" for count, size in zip(counts, (8, 8, 8, 9), strict=True))
        print(f"{make.label:<{width}}{row}{len(report.not_claimed):>13}{report.seconds:>9.1f}", flush=True)
    failed = [report for report in reports if report.failures]
    for report in failed:
        for name, message in report.failures.items():
            print(f"\n{report.name}: {name}\n  {message}")
    print(f"\n{len(reports) - len(failed)} of {len(reports)} encodings pass, {sum(r.seconds for r in reports):.0f} s")
    return 1 if failed else 0


def _structure(make: OfSpec | OfPath | OfLayer) -> str:
    try:
        return structure(Subject(make, DIMS))
    except Exception:  # the checks tell what it raises; until then it is like no other
        return f"unknown, of {make.label}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m lengthwise.testing", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="specs of encodings; all registered ones where none")
    try:
        sys.exit(main(parser.parse_args().names))
    except LengthwiseError as error:
        parser.error(str(error))
