"""What an audit says in words: the report, what measurements mean, and what to do for a length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn

from lengthwise.encodings.alibi import ALiBi
from lengthwise.encodings.learned import Learned
from lengthwise.encodings.t5 import T5Bias
from lengthwise.hf import frequencies
from lengthwise.hf.measured import Measurement
from lengthwise.hf.rope_settings import Finding

if TYPE_CHECKING:
    from lengthwise.hf.audit import Audit, Used

_MEANS = {
    "cached": "the cache does not hold what the model computes without one",
    "cached-across": "frequencies follow the length, and keys that wait in the cache were turned at earlier ones",
    "padded-left": "what stands for padding is seen, or positions count it",
    "padded-right": "what stands for padding is seen",
    "shifted": "logits depend on where tokens stand, though rotation depends on distance alone",
}
_ADVICE = {
    "cached": "generate without a cache, and report it",
    "cached-across": "fix its length, apply_to(model, encoding, target_length=N), or take a method without one",
    "padded-left": "pass attention_mask and position_ids, or batch rows of one length",
    "padded-right": "pass attention_mask, or batch rows of one length",
    "shifted": "run positions in float32; see the notes on precision",
}


def of_measured(found: Sequence[Measurement]) -> Iterator[Finding]:
    """A finding for each measurement that rounding does not explain."""
    for one in found:
        if not one.ok:
            yield Finding(
                f"{one.code}-differs",
                "warning" if one.code in ("shifted", "cached-across") else "error",
                f"{one.what} differ by {one.error:.3g} standard deviations, above {one.limit:g}: {_MEANS[one.code]}",
                _ADVICE[one.code],
            )


def advice(used: Sequence[Used], trained: int | None, target: int | None) -> Iterator[str]:
    """What to do for a target length, one sentence each."""
    if trained is None or target is None:
        yield "Nothing says how long the trained sequences were: give max_position_embeddings to learn more."
        return
    if target <= trained:
        yield f"{target} tokens are within the trained length: nothing is to be done."
        return
    factor = target / trained
    unseen = any(pair.unseen for one in used for pair in one.pairs)
    if unseen:
        yield (
            f"Extend the rotation by {factor:.4g}: 'rotary + yarn(factor={factor:.4g}, original_length={trained})'; or "
            "'rotary + self_extend' and 'rotary + rerope', which keep distances within those of training."
        )
    elif any(one.pairs for one in used):
        yield "The settings bring every pair to known angles; that it reads well there is to be measured."
    for one in used:
        said = past(one.encoding, trained, target)
        if said:
            yield said
    yield f"`lengthwise stretch MODEL --to {target}` measures methods on your text, and writes the config of the best."


def past(encoding: nn.Module, trained: int, target: int) -> str | None:
    """What a longer sequence does to an encoding without frequencies."""
    base: Any = getattr(encoding, "unextended", encoding)
    if isinstance(base, Learned):
        rows = getattr(encoding, "max_position", base.max_position)
        if target <= rows:
            return None
        return (
            f"The table has {rows} rows and none for position {rows}: resample it, 'learned + resample({target})', or "
            f"extrapolate it, 'learned + extrapolate({target})'."
        )
    if isinstance(base, ALiBi):
        return (
            f"ALiBi needs nothing to run at {target}; distances above {trained} get biases that no training showed, "
            f"and far tokens little weight: 'alibi + interpolate(factor={target / trained:.4g})' brings them nearer."
        )
    if isinstance(base, T5Bias):
        return (
            f"T5's bias is one and the same from distance {base.max_distance} on: it needs nothing to run at {target}."
        )
    return None


def text(report: Audit) -> str:
    """The report for people."""
    about = [report.model_type or "unknown architecture", report.dtype or "unknown dtype"]
    made = [f"{report.name}: {', '.join(about)}", ""]
    lengths = [("trained length", report.trained), ("stated length", report.stated), ("audited for", report.target)]
    made += [f"{what:<15} {'unknown' if length is None else f'{length} tokens'}" for what, length in lengths]
    for one in report.used:
        made += ["", _encoding(one), *_about(one, report)]
    for level, heading in (("error", "Errors"), ("warning", "Warnings"), ("note", "Notes")):
        some = [one for one in report.findings if one.level == level]
        if some:
            made += ["", heading]
            made += [f"  {one.code}: {one.message}\n    -> {one.advice}" for one in some]
    made += ["", "Measured" if report.measured else f"Measured: nothing, {report.skipped}"]
    for one in report.measured:
        result = f"skipped: {one.skipped}" if one.error is None else f"{one.error:.1e} of {one.limit:g} allowed"
        made.append(f"  {'ok ' if one.ok else 'NOT'} {one.what}: {result}")
    made += ["", "Advice", *(f"  {one}" for one in report.advice)]
    made += ["", _last_line(report)]
    return "\n".join(made)


def _last_line(report: Audit) -> str:
    if not report.ok:
        return "see the errors and warnings above"
    if report.trained is not None and report.target is not None and report.target > report.trained:
        return f"nothing is wrong up to {report.trained} tokens; for {report.target} see the advice"
    return "nothing is wrong"


def _encoding(one: Used) -> str:
    where = "encoding" if not one.layers else f"layer{'s' if len(one.layers) > 1 else ''} {_ranges(one.layers)}"
    return f"{where}: {' '.join(repr(one.encoding).split())}"


def _about(one: Used, report: Audit) -> list[str]:
    if report.trained is None or report.target is None or not one.pairs:
        return []
    return [f"  {line}" for line in frequencies.lines(one.pairs, report.trained, report.target)]


def _ranges(layers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
