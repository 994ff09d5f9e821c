"""The command line: `lengthwise list | show | compare | report`, one file a verb."""

from lengthwise.cli.main import main

__all__ = ["main"]
