"""The command line: `lengthwise list | show | check | compare | report`, one file a verb."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code; see `lengthwise.cli.main`.

    The command comes with the package, its libraries with the extra `lab` only: what is missing is told here.
    """
    try:
        from lengthwise.cli.main import main as run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "lengthwise":
            raise
        print(
            f"lengthwise: the command line needs {error.name!r}, which the extra 'lab' brings: "
            "pip install 'lengthwise[lab]' (in a checkout: pip install '.[lab]')",
            file=sys.stderr,
        )
        sys.exit(2)
    except KeyboardInterrupt:  # before there is anything to keep
        sys.exit(130)
    run(arguments)
