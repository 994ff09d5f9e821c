"""`lengthwise check NAME`: hold an encoding, of this package or of yours, to the contract."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import torch
import tyro

from lengthwise.cli.options import Verbose, console, find_modules_here
from lengthwise.dims import Dims

if TYPE_CHECKING:
    from lengthwise.testing import Report


@dataclass(kw_only=True)
class Check:
    """Hold an encoding to the contract: shapes, dtypes, cache, padding, gradients, and what it claims."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
    """A name from `lengthwise list`, a spec such as "rotary(base=500000)", or package.module:Class(size=3) of yours."""
    dim: Annotated[int, tyro.conf.arg(metavar="N")] = 32
    """Width of the model; sizes fill constructor parameters of the same name."""
    heads: Annotated[int, tyro.conf.arg(metavar="N")] = 4
    """Query heads."""
    head_dim: Annotated[int, tyro.conf.arg(metavar="N", help_behavior_hint="(default: dim / heads)")] = 0
    """Width of a head."""
    kv_heads: Annotated[int, tyro.conf.arg(metavar="N", help_behavior_hint="(default: heads)")] = 0
    """Key and value heads."""
    max_length: Annotated[int, tyro.conf.arg(metavar="N")] = 128
    """Positions of learned tables."""
    checks: Literal["fast", "slow", "all"] = "fast"
    """Slow ones compile and export."""
    json: Annotated[bool, tyro.conf.arg(help_behavior_hint=""), tyro.conf.FlagCreatePairsOff] = False
    """Print the report as JSON."""

    verbose: Verbose = False
    """Show a traceback with an error, and with what an encoding raised in a check."""

    def run(self, given: Sequence[str]) -> int:
        """Print the report; 1 where a check failed."""
        from lengthwise.testing import check_encoding, makers

        find_modules_here()
        torch.set_num_threads(1)  # the tensors are small: more threads would wait for each other
        dims = Dims(
            self.dim, self.heads, self.head_dim, 12, self.max_length, self.kv_heads
        )  # 12 layers show every pattern
        makes = makers(self.name, dims)
        reports: list[Report] = []
        for make in makes:
            reports.append(check_encoding(make, dims=dims, checks=self.checks))
            if not self.json:
                console().print(str(reports[-1]), soft_wrap=True)
                for result in reports[-1].results if self.verbose else ():
                    if result.traceback:
                        console().print(f"\n{result.check}\n{result.traceback}".rstrip(), soft_wrap=True)
        failed = any(report.failures for report in reports)
        if self.json:
            found = [report.as_dict() for report in reports]
            whole = {"name": self.name, "failed": failed, "encodings": found}
            print(json.dumps(found[0] if len(found) == 1 else whole, indent=2))
        return 1 if failed else 0
