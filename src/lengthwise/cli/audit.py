"""`lengthwise audit MODEL`: what a model knows of positions, and what is wrong in its settings."""

from __future__ import annotations

import importlib.util
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from lengthwise.cli.options import Verbose, console


@dataclass(kw_only=True)
class Audit:
    """Audit a model: its frequencies, its settings, its dtype, and what it computes with a cache and padding."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL", help_behavior_hint="")]
    """A folder with config.json, with or without weights, a config.json, or a .gguf file. Nothing is fetched."""
    to: Annotated[
        int | None, tyro.conf.arg(metavar="LENGTH", help_behavior_hint="(default: what the config states)")
    ] = None
    """Length in tokens that the model is to be used at."""
    config_only: Annotated[bool, tyro.conf.arg(help_behavior_hint=""), tyro.conf.FlagCreatePairsOff] = False
    """Load no weights, and measure nothing."""
    json: Annotated[bool, tyro.conf.arg(help_behavior_hint=""), tyro.conf.FlagCreatePairsOff] = False
    """Print the report as JSON."""

    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Print the report; 1 where it has an error or a warning."""
        from lengthwise.hf.audit import audit

        if importlib.util.find_spec("transformers") is not None:
            import transformers

            # Its warnings about settings are findings of the report.
            transformers.logging.set_verbosity(logging.CRITICAL)
            transformers.logging.disable_progress_bar()
        torch.set_num_threads(1)  # the inputs are small: more threads would wait for each other
        report = audit(self.model, to=self.to, measured=not self.config_only)
        if self.json:
            print(json.dumps(report.as_dict(), indent=2))
        else:
            console().print(str(report), soft_wrap=True)
        return 0 if report.ok else 1
