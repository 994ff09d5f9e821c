"""`lengthwise check NAME`: hold an encoding, of this package or of yours, to the contract."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import tyro

from lengthwise.cli.options import Verbose, console
from lengthwise.dims import Dims


@dataclass(kw_only=True)
class Check:
    """Hold an encoding to the contract: shapes, dtypes, cache, padding, gradients, and what it claims."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
    """A name from `lengthwise list`, a spec such as "rotary(base=500000)", or package.module:Class of your own."""
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
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Print the report; 1 where a check failed."""
        from lengthwise.testing import check_encoding, maker

        if "" not in sys.path:
            sys.path.insert(0, "")  # a module in this folder, which a script's path leaves out
        torch.set_num_threads(1)  # the tensors are small: more threads would wait for each other
        dims = Dims(self.dim, self.heads, self.head_dim, max_length=self.max_length, kv_heads=self.kv_heads)
        report = check_encoding(maker(self.name, dims), dims=dims, checks=self.checks)
        if self.json:
            print(json.dumps(report.as_dict(), indent=2))
        else:
            console().print(str(report), soft_wrap=True)
        return 1 if report.failures else 0
