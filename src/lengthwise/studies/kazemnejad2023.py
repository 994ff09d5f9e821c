"""The impact of positional encoding on length generalization (Kazemnejad et al. 2023, 2305.19466), small or as it was.

Seventeen datasets, five encodings, several seeds: a causal Transformer learns a task on short examples and is tested
on longer ones. What the authors' repository does and a reader of the paper would not guess is kept where it defines an
encoding (rotary on a quarter of each head with interleaved pairs; sinusoids in halves), and left where it is an
accident of evaluation: examples are drawn as training goes on, answers are compared token by token, and sequences begin
with a mark. T5's table is one a layer here, and the logits are scaled by 1/sqrt(head_dim) as in every other arm; the
arm "T5, not scaled" leaves that out, as the authors' did.

Scales: `small` runs on two cores in hours, at lengths that the tasks themselves scale down; `medium` has the published
lengths and a model for one GPU; `paper` has the published model, steps, rate and lengths.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

from lengthwise.build import build
from lengthwise.dims import Dims
from lengthwise.errors import InvalidArgument, LengthwiseError, nearest
from lengthwise.lab.experiment import Experiment, Training
from lengthwise.lab.run import pinned
from lengthwise.models.config import ModelConfig
from lengthwise.studies.study import Choice, Study, Trial, studies
from lengthwise.tasks.scratchpad import FORMATS, PARTS
from lengthwise.tasks.task import Dataset, build_task, datasets

NAME = "kazemnejad2023"
PUBLISHED = {
    "NoPE": "none",
    "T5": "t5",
    "ALiBi": "alibi",
    "Rotary": "rotary(fraction=0.25, layout='interleaved')",
    "APE": "sinusoidal(variant='half')",
}
"""The arms of the publication, in the order of its headline, with their encodings."""
FURTHER = {
    "Rotary, whole head": "rotary",
    "FIRE": "fire",
    "KERPLE": "kerple",
    "Randomized rotary": "randomized(rotary, longest=64)",
    "T5, not scaled": "t5 + constant_temperature({root})",
}
"""Arms that the publication did not have, or had in another way; `root` is that of head_dim."""
SCRATCHPADS = (
    "Addition",
    "LEGO",
    "Parity",
    "Polynomial Evaluation",
    "Sorting (Single Token)",
    "Summation",
)
"""Datasets that the publication also has with a scratchpad before the answer."""
RUNGS: tuple[Mapping[str, float], ...] = (
    {"layers": 2, "steps": 2000, "learning_rate": 2e-3},
    {"layers": 3, "steps": 4000, "learning_rate": 2e-3},
)
"""Settings that a search tries for each dataset at scale small, cheapest first; all encodings share the one chosen.

A third one of 4 layers, 6000 steps and 1e-3 was tried where these do not do (82 % for NoPE at two terms of Polynomial
Evaluation, 61 % at the second): four times the time, and not enough either.
"""


@studies.register(NAME)
def kazemnejad2023(choice: Choice) -> Study:
    """Who generalizes in length: NoPE, T5, ALiBi, rotary and absolute positions on seventeen datasets.

    Raises:
        InvalidArgument: a dataset or an encoding that is not known.
    """
    chosen, arms = chosen_datasets(choice), chosen_arms(choice)
    trials = tuple(
        Trial(dataset, arm, experiment(dataset, spec, seed, choice))
        for seed in range(choice.seeds)
        for dataset in chosen
        for arm, spec in arms.items()
    )
    return Study(
        name=NAME,
        title="The impact of positional encoding on length generalization",
        scale=choice.scale,
        arms=arms,
        ranked=tuple(arm for arm in PUBLISHED if arm in arms),
        trials=trials,
        published=published(),
    )


def experiment(dataset: Dataset, encoding: str, seed: int, choice: Choice) -> Experiment:
    """One trial's settings at a scale; at `small` those that a search chose for the dataset, or the first rung."""
    small = choice.scale == "small"
    task = dataset.small if small else dataset.spec
    trained, tested = (dataset.small_trained, dataset.small_tested) if small else (dataset.trained, dataset.tested)
    model, training = _sizes(choice, choice.settings.get(dataset.plain or dataset.name, RUNGS[0]))
    plain = Experiment(
        encoding=encoding,
        task=task,
        train_length=max(trained),
        train_from=min(trained),
        test_lengths=tuple(sorted({*trained, *tested})),
        seed=seed,
        model=model,
        training=training,
        test_examples=256 if small else 10_000 // len(tested),
    )
    return pinned(plain, build_task(task))


def published() -> dict[str, Any]:
    """What the publication found: `datasets` (pooled accuracy and accuracy by length), ranks, attention distances."""
    text = (files("lengthwise.studies") / "kazemnejad2023.json").read_text(encoding="utf-8")
    return json.loads(text)


def chosen_datasets(choice: Choice) -> list[Dataset]:
    """The datasets whose names hold one of the words asked for, or whose task it names; all where none is.

    Those that the publication has with scratchpads come again in each format asked for.
    """
    found = _named(choice)
    for form in choice.scratchpads:
        if form not in FORMATS and not set(form) <= set(PARTS):
            raise InvalidArgument(f"no scratchpad {form!r}: {nearest(form, FORMATS)}; or letters of {PARTS}")
        if not FORMATS.get(form, form):
            raise InvalidArgument(f"{form!r} is no scratchpad: datasets without one are always there")
    padded: dict[str, Dataset] = {}  # by task: two names may say the same
    able = [one for one in found if one.name in SCRATCHPADS]
    if choice.scratchpads and not able:
        raise InvalidArgument(f"none of these datasets has scratchpads; those that do: {', '.join(SCRATCHPADS)}")
    for form in choice.scratchpads:
        for one in able:
            made = _with_scratchpad(one, form)
            if made is not None:
                padded.setdefault(made.small, made)
    return [*found, *padded.values()]


def _with_scratchpad(dataset: Dataset, form: str) -> Dataset | None:
    """None where nothing is left: LEGO and sorting carry no variables."""
    parts = PARTS.replace("v", "") if dataset.name in ("LEGO", "Sorting (Single Token)") else PARTS
    switches = "".join(part for part in parts if part in FORMATS.get(form, form))
    if not switches:
        return None
    return replace(
        dataset,
        name=f"{dataset.name}, {form} scratchpad",
        category="scratchpad",
        spec=_with_switches(dataset.spec, switches),
        small=_with_switches(dataset.small, switches),
        plain=dataset.name,
        scratchpad=form,
    )


def _with_switches(spec: str, switches: str) -> str:
    given = f"scratchpad='{switches}')"
    return f"{spec[:-1]}, {given}" if spec.endswith(")") else f"{spec}({given}"


def _named(choice: Choice) -> list[Dataset]:
    known = datasets(NAME)
    if not choice.tasks:
        return known
    found: list[Dataset] = []
    for word in choice.tasks:
        named = [one for one in known if word.lower() in one.name.lower() or word == one.small.partition("(")[0]]
        if not named:
            raise InvalidArgument(f"no dataset {word!r}: {nearest(word, [one.name for one in known])}")
        found += [one for one in named if one not in found]
    return found


def chosen_arms(choice: Choice) -> dict[str, str]:
    """Names and specs of the encodings: the publication's, or those asked for, an arm's name or any spec.

    A spec that is an arm's is that arm.
    """
    if not choice.encodings:
        return dict(PUBLISHED)
    model, _ = _sizes(choice, RUNGS[0])
    root = f"{model.head_dim**0.5:.17g}"
    known = PUBLISHED | {name: spec.format(root=root) for name, spec in FURTHER.items()}
    arms = {name.lower(): name for name in known} | {spec: name for name, spec in known.items()}
    found: dict[str, str] = {}
    for given in choice.encodings:
        arm = arms.get(given.lower(), given)
        if arm not in known:  # before hours of others
            try:
                build(given, Dims(dim=model.dim, heads=model.heads, max_length=64))
            except LengthwiseError as error:
                raise InvalidArgument(f"{error}; arms of the study: {', '.join(known)}") from error
        found[arm] = known.get(arm, given)
    return found


def _sizes(choice: Choice, setting: Mapping[str, float]) -> tuple[ModelConfig, Training]:
    if choice.scale == "small":
        model = ModelConfig(dim=64, layers=int(setting["layers"]), heads=4, norm="rms", activation="relu")
        return model, Training(steps=int(setting["steps"]), batch=32, learning_rate=setting["learning_rate"])
    if choice.scale == "medium":
        model = ModelConfig(dim=256, layers=6, heads=8, norm="rms", activation="relu")
        return model, Training(steps=20_000, batch=64, learning_rate=5e-4, weight_decay=0.05)
    model = ModelConfig(
        dim=768, layers=12, heads=12, hidden=3072, norm="rms", activation="relu", tied=True, dropout=0.1
    )
    training = Training(steps=40_000, batch=64, learning_rate=3e-5, warmup=0.06, weight_decay=0.05, precision="float32")
    return model, training
