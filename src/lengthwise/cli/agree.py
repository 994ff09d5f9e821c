"""`lengthwise agree`: our encodings beside the same ones in other packages."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from lengthwise import __version__
from lengthwise.agreement import COMPARISONS, TOLERANCE, Comparison, Outcome, measure
from lengthwise.agreement.pages import Results, as_rows, cells, how, names, page, paragraphs
from lengthwise.agreement.peers import version
from lengthwise.cli.options import Verbose, console
from lengthwise.errors import UnknownName, nearest
from lengthwise.files import write_whole

OURS, THEIRS, CELL = 28, 21, 8
"""Columns of the table."""


@dataclass(kw_only=True)
class Agree:
    """Compare encodings and extensions with the same ones in other packages, where these are installed."""

    names: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[NAME ...]", help_behavior_hint="")
    ] = ()
    """Encodings and extensions to compare; all that a peer has too by default."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = False
    """Print all numbers as JSON."""
    write: Annotated[Path | None, tyro.conf.arg(metavar="FILE.md", help_behavior_hint="")] = None
    """Write table and paragraphs as Markdown too."""

    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Measure and print."""
        known = sorted({name for comparison in COMPARISONS for name in names(comparison)})
        for name in self.names:
            if name not in known:
                raise UnknownName(f"no peer has the encoding {name!r}: {nearest(name, known)}")
        chosen = [one for one in COMPARISONS if not self.names or set(self.names) & set(names(one))]
        return self._tell(_measured(chosen))

    def _tell(self, results: Results) -> int:
        peers = {comparison.peer: version(comparison.peer) for comparison, _ in results}
        if self.write is not None:
            write_whole(self.write, page(results, peers).encode())
        if self.json:
            tolerance = {str(dtype).removeprefix("torch."): value for dtype, value in TOLERANCE.items()}
            told = [{"comparison": heading, "text": text} for heading, text in paragraphs(results)]
            whole = {"lengthwise": __version__, "peers": peers, "tolerance": tolerance}
            print(json.dumps({**whole, "rows": as_rows(results), "paragraphs": told}, indent=1, ensure_ascii=False))
            return 0
        out = console()
        head = "".join(f"{title:>{CELL}}" for title in ("fp32 0", "2^16", "2^20", "bf16 0", "2^16", "2^20"))
        last = ""
        for comparison, outcomes in results:
            if comparison.peer != last:
                last = comparison.peer
                title = f"{last} {peers[last] or '(not installed)'}"
                out.print(f"{title:<{OURS + THEIRS}}{head}", style="bold", soft_wrap=True)
            row = "".join(f"{cell:>{CELL}}" for cell in cells(outcomes))
            out.print(f"{_cut(comparison.spec, OURS)}{_cut(comparison.part, THEIRS)}{row}", soft_wrap=True)
        out.print(f"\n{how()}\n")
        for heading, text in paragraphs(results):
            out.print(heading, style="bold")
            out.print(f"{text}\n")
        if self.write is not None:
            out.print(f"page: {self.write}", soft_wrap=True)
        return 0


def _measured(chosen: Sequence[Comparison]) -> Results:
    """All comparisons, with progress on the error stream."""
    err = Console(file=sys.stderr, markup=False, highlight=False)
    err.print(f"{len(chosen)} comparisons with {', '.join(dict.fromkeys(one.peer for one in chosen))}", soft_wrap=True)
    results: list[tuple[Comparison, Sequence[Outcome]]] = []
    with err.status("") as status:
        for place, comparison in enumerate(chosen, 1):
            status.update(f"{place} of {len(chosen)}: {comparison.peer}, {comparison.part}")
            results.append((comparison, measure(comparison)))
    return results


def _cut(text: str, width: int) -> str:
    """Text in `width` columns, one of them empty."""
    return f"{text if len(text) < width else f'{text[: width - 2]}…':<{width}}"
