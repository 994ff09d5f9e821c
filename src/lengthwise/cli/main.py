"""From arguments to a verb, and from errors to one line and an exit code.

Exit codes: 0 done, 1 an encoding failed a check or a model its audit, 2 an error that the message explains, 130 stopped
by Ctrl-C.
"""

from __future__ import annotations

import io
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import tyro

from lengthwise import __version__
from lengthwise.cli.agree import Agree
from lengthwise.cli.analyze import Analyze
from lengthwise.cli.audit import Audit
from lengthwise.cli.check import Check
from lengthwise.cli.compare import Compare
from lengthwise.cli.extend import Extend
from lengthwise.cli.list import List
from lengthwise.cli.report import Report
from lengthwise.cli.show import Show
from lengthwise.cli.stretch import Stretch
from lengthwise.cli.study import RunStudy
from lengthwise.errors import LengthwiseError

ABOUT = "Positional encodings for Transformers, and how they do past the trained length."

Verb = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Show, tyro.conf.subcommand("show")]
    | Annotated[Check, tyro.conf.subcommand("check")]
    | Annotated[Agree, tyro.conf.subcommand("agree")]
    | Annotated[Compare, tyro.conf.subcommand("compare")]
    | Annotated[Extend, tyro.conf.subcommand("extend")]
    | Annotated[Report, tyro.conf.subcommand("report")]
    | Annotated[RunStudy, tyro.conf.subcommand("study")]
    | Annotated[Analyze, tyro.conf.subcommand("analyze")]
    | Annotated[Audit, tyro.conf.subcommand("audit")]
    | Annotated[Stretch, tyro.conf.subcommand("stretch")]
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without our symbols shows '?' in their place
    try:
        try:
            code = _run(given)
        finally:
            sys.stdout.flush()  # here, where a closed pipe can be caught
    except LengthwiseError as error:
        if {"-v", "--verbose"} & set(given):
            traceback.print_exc()
        print(f"lengthwise: {' '.join(str(error).split())}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("lengthwise: stopped", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    sys.exit(code)


def _run(given: list[str]) -> int:
    if given in (["--version"], ["-V"]):
        print(f"lengthwise {__version__}")
        return 0
    if given[:1] in (["-v"], ["--verbose"]):  # every verb has it, and people write it in front
        given = [*given[1:], given[0]]
    config = (tyro.conf.OmitSubcommandPrefixes,)
    verb = tyro.cli(Verb, prog="lengthwise", description=ABOUT, args=given or ["--help"], config=config)
    return verb.run(given)
