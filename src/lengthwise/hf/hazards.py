"""Where the dtype of a model spoils its positions: narrow tables, float32 angles far out, biases above 256."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from lengthwise.encodings.alibi import ALiBi
from lengthwise.hf.frequencies import spectrum_at
from lengthwise.hf.rope_settings import Finding
from lengthwise.slopes import alibi_slopes
from lengthwise.spectrum import Spectrum

_NARROW = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def of_dtype(encoding: nn.Module, dtype: str | None, length: int, model_type: str | None) -> Iterator[Finding]:
    """What a dtype does to an encoding at positions up to `length`."""
    narrow = _NARROW.get(str(dtype))
    spectrum = spectrum_at(encoding, length)
    if spectrum is not None:
        if narrow is not None:
            yield _tables(spectrum, narrow, str(dtype), length)
        yield from _angles(spectrum, length)
    if isinstance(encoding, ALiBi) and narrow is not None and model_type == "bloom":
        steepest = max(alibi_slopes(encoding.heads))
        wrong = steepest * length * torch.finfo(narrow).eps / 2
        if wrong > 0.05:
            yield Finding(
                "narrow-bias",
                "warning",
                f"the model forms slope times position in {dtype}, off by up to {wrong:.3g} at position {length}",
                "run it in float32, or with apply_to, which forms distances in float32",
            )


def of_model(model: Any, encoding: nn.Module, length: int) -> Iterator[Finding]:
    """What the frequencies that a loaded model holds say against those of its config."""
    spectrum = spectrum_at(encoding, length)
    held = [
        (name, buffer)
        for name, buffer in model.named_buffers()
        if name.endswith("inv_freq") and not name.endswith("original_inv_freq")
    ]
    for name, buffer in held:
        if buffer.dtype in (torch.bfloat16, torch.float16):
            wrong = length * torch.finfo(buffer.dtype).eps / 2
            yield Finding(
                "narrow-frequencies",
                "error",
                f"{name} is {buffer.dtype}: at position {length} the fastest pair can be off by {wrong:.3g} radians",
                "load the model with dtype=..., and never cast its buffers",
            )
        elif spectrum is not None and len(held) == 1 and buffer.shape == spectrum.inv_freq.shape:
            off = ((buffer.double().cpu() - spectrum.inv_freq).abs() / spectrum.inv_freq.clamp(min=1e-30)).max()
            if float(off) > 1e-4:
                yield Finding(
                    "frequencies-differ",
                    "warning",
                    f"{name} of the loaded model differs from the frequencies of its config by up to {float(off):.3g}",
                    "find out which of them the model was trained with",
                )


def _tables(spectrum: Spectrum, narrow: torch.dtype, dtype: str, length: int) -> Finding:
    place = torch.arange(max(0, length - 64), length, dtype=torch.float64)
    cosines = (place[:, None] * spectrum.inv_freq).cos()
    wrong = float((cosines.to(narrow).double() - cosines).abs().max())
    return Finding(
        "narrow-tables",
        "note",
        f"transformers round cosines and sines to {dtype}, off by up to {wrong:.1e}, at every position alike",
        "apply_to(model, encoding, raw=True) turns in float32",
    )


def _angles(spectrum: Spectrum, length: int) -> Iterator[Finding]:
    place = torch.arange(max(0, length - 64), length)
    exact = place.double()[:, None] * spectrum.inv_freq
    wrong = float((place.float()[:, None] * spectrum.inv_freq.float() - exact).abs().max())
    if wrong > 1e-3:
        yield Finding(
            "float32-angles",
            "note" if wrong < 0.05 else "warning",
            f"transformers form angles in float32, which are off by up to {wrong:.2g} radians at position {length}",
            "apply_to(model, encoding) forms them in float64",
        )
