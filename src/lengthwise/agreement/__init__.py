"""Who agrees with whom: encodings and extensions of this package beside the same ones in other packages, in numbers."""

from lengthwise.agreement import peer_rotary_embedding_torch as _rotary_embedding_torch
from lengthwise.agreement import peer_rotary_embedding_torch_extensions as _rotary_embedding_torch_extensions
from lengthwise.agreement import peer_transformers_biases as _biases
from lengthwise.agreement import peer_transformers_extensions as _extensions
from lengthwise.agreement import peer_transformers_logits as _logits
from lengthwise.agreement import peer_transformers_masks as _masks
from lengthwise.agreement import peer_transformers_resampling as _resampling
from lengthwise.agreement import peer_transformers_rotations as _rotations
from lengthwise.agreement import peer_transformers_speech as _speech
from lengthwise.agreement import peer_transformers_tables as _tables
from lengthwise.agreement import peer_transformers_vision as _vision
from lengthwise.agreement import peer_transformers_windows as _windows
from lengthwise.agreement import peer_transformers_yarn as _yarn
from lengthwise.agreement import peer_x_transformers_extensions as _x_extensions
from lengthwise.agreement import peer_x_transformers_logits as _x_logits
from lengthwise.agreement import peer_x_transformers_rotations as _x_rotations
from lengthwise.agreement.comparison import TOLERANCE, Comparison, Outcome, measure
from lengthwise.agreement.wording import paragraph

COMPARISONS: tuple[Comparison, ...] = (
    *_rotations.COMPARISONS,
    *_vision.COMPARISONS,
    *_windows.COMPARISONS,
    *_biases.COMPARISONS,
    *_masks.COMPARISONS,
    *_logits.COMPARISONS,
    *_speech.COMPARISONS,
    *_tables.COMPARISONS,
    *_extensions.COMPARISONS,
    *_yarn.COMPARISONS,
    *_resampling.COMPARISONS,
    *_x_rotations.COMPARISONS,
    *_x_logits.COMPARISONS,
    *_x_extensions.COMPARISONS,
    *_rotary_embedding_torch.COMPARISONS,
    *_rotary_embedding_torch_extensions.COMPARISONS,
)
"""All of them, by peer: encodings, then extensions."""

__all__ = ["COMPARISONS", "TOLERANCE", "Comparison", "Outcome", "measure", "paragraph"]
