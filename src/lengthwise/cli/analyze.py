"""`lengthwise analyze RUNS...`: what trained models do with positions."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import torch
import tyro

from lengthwise.analysis.record import record
from lengthwise.analysis.summary import PROBES, look
from lengthwise.analysis.summary_pairs import pairs, resemblance
from lengthwise.cli.options import Verbose, console
from lengthwise.errors import InvalidArgument, StorageError
from lengthwise.files import check_file
from lengthwise.lab.experiment import Experiment
from lengthwise.lab.run import load_model
from lengthwise.lab.store import find_results
from lengthwise.models.decoder import Decoder
from lengthwise.tasks.task import Task, build_task, check_length

if TYPE_CHECKING:
    from lengthwise.report.analysis import Group, HeadMap

SEED = 2**42
"""Examples come from this seed and the length, apart from those of training and tests."""
COMPARED = 32
"""Most examples on which the attention of models is compared: their number of pairs makes it slow."""
SHOWN = 64
"""Most tokens in a picture of a head."""

Trained = dict[tuple[str, int], tuple[Decoder, Experiment]]


@dataclass(kw_only=True)
class Analyze:
    """See how far heads look, what states know, whose attention resembles whose."""

    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUNS...", help_behavior_hint="")]
    """Run folders, or folders that hold them."""
    lengths: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N...", help_behavior_hint="")] = ()
    """Lengths to look at; probes take the first (trained, longest tested)."""
    examples: Annotated[int, tyro.conf.arg(metavar="N", help_behavior_hint="")] = 128
    """Examples of each length (128); attention is compared on 32 at most."""
    head: Annotated[tuple[int, int] | None, tyro.conf.arg(metavar="LAYER HEAD", help_behavior_hint="")] = None
    """Draw this head of each encoding, from 1 (all heads of one run)."""
    report: Annotated[Path, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = Path("analysis.html")
    """The page to write (analysis.html)."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """All numbers as JSON (not written)."""

    verbose: Verbose = False
    """Show a traceback with an error."""

    def run(self, given: Sequence[str]) -> int:
        """Load, look, print, write."""
        if self.examples < PROBES:
            raise InvalidArgument(f"--examples must be at least {PROBES}, not {self.examples}: a quarter is held out")
        for path in (self.report, *([self.json] if self.json else [])):
            check_file(path)
        groups = [self._group(models) for models in _load(list(self.runs) or [Path("runs")])]
        from lengthwise.report.analysis import (  # figures are slow to load
            print_analysis,
            write_analysis_json,
            write_analysis_page,
        )

        written = write_analysis_page(groups, self.report, command=shlex.join(["lengthwise", *given]))
        if self.json:
            write_analysis_json(groups, self.json)
        print_analysis(groups, console())
        console().print(f"\nreport: {written.resolve().as_uri()}", soft_wrap=True)
        return 0

    def _group(self, trained: Trained) -> Group:
        from lengthwise.report.analysis import Group, Model

        first = next(iter(trained.values()))[1]
        task = build_task(first.task)
        longest = max(one.test_lengths[-1] for _, one in trained.values())
        lengths = tuple(dict.fromkeys(self.lengths or (first.train_length, longest)))
        inputs = {length: _examples(task, self.examples, length) for length in lengths}
        heads = self._heads(trained, task, inputs[lengths[0]][:1])
        models: list[Model] = []
        for number, (model, one) in enumerate(trained.values(), 1):
            started = time.monotonic()
            looks = {length: look(model, inputs[length], probed=length == lengths[0]) for length in lengths}
            models.append(Model(one, looks))
            seconds = time.monotonic() - started
            print(
                f"[{number}/{len(trained)}] {one.task} {one.encoding} seed {one.seed}  {seconds:.1f}s", file=sys.stderr
            )
        alone = {key: model for key, (model, _) in trained.items()}
        compared = {length: resemblance(alone, inputs[length][:COMPARED]) for length in lengths} if pairs(alone) else {}
        title = f"{first.task}, trained at {first.train_length} {task.length_counts}"
        return Group(title, task.length_counts, lengths, models, compared, heads)

    def _heads(self, trained: Trained, task: Task, tokens: torch.Tensor) -> list[HeadMap]:
        from lengthwise.report.analysis import HeadMap

        tokens = tokens[:, :SHOWN]
        names = [task.vocabulary[int(token)] for token in tokens[0]]
        found: list[HeadMap] = []
        shown: set[str] = set()
        for (encoding, seed), (model, _) in trained.items():
            if encoding in shown or (shown and self.head is None):
                continue
            shown.add(encoding)
            for layer, weights in enumerate(record(model, tokens).weights, 1):
                for head, values in enumerate(weights[0], 1):
                    if self.head in (None, (layer, head)):
                        found.append(HeadMap(encoding, seed, layer, head, names, values.tolist()))
        if not found:
            config = next(iter(trained.values()))[0].config
            raise InvalidArgument(
                f"--head {' '.join(map(str, self.head or ()))}: the models have layers 1 to {config.layers} and heads "
                f"1 to {config.heads}"
            )
        return found


def _load(places: list[Path]) -> list[Trained]:
    """Trained models of each task and setting, by encoding and seed."""
    results, unfinished = find_results(places)
    for folder in unfinished:
        print(f"lengthwise: {folder} is not done and left out", file=sys.stderr)
    if not results:
        raise StorageError(f"no run in {', '.join(map(str, places))} is done: finish them with 'lengthwise compare'")
    folders = sorted({file.parent.resolve() for place in places for file in place.glob("**/result.json")})
    groups: dict[Experiment, Trained] = {}
    for folder in folders:
        model, one = load_model(folder)
        setting = replace(one, encoding="none", seed=0, test_lengths=(one.train_length,), test_examples=1)
        groups.setdefault(setting, {})[one.encoding, one.seed] = (model, one)
    return list(groups.values())


def _examples(task: Task, examples: int, length: int) -> torch.Tensor:
    check_length(task, length)
    generator = torch.Generator().manual_seed(SEED + length)
    drawn = task.held_out().sample(generator, examples, length)
    if drawn.positions is not None:
        raise InvalidArgument("analyze reads tokens in a row, and this task gives positions of its own")
    return drawn.tokens[:, :-1]  # a model never reads the last token
