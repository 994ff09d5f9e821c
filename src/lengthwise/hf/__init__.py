"""Hugging Face models: configs in and out, for `transformers`, vLLM and llama.cpp.

`transformers` is loaded by what needs it and by nothing else: dicts and JSON files are read without it.
"""

from lengthwise.hf.adapters.tables import table_of
from lengthwise.hf.apply import Applied, apply_to
from lengthwise.hf.audit import Audit, audit
from lengthwise.hf.config import encoding_from_config, first_row
from lengthwise.hf.export import to_rope_parameters, to_rope_scaling
from lengthwise.hf.llama_cpp import to_llama_cpp
from lengthwise.hf.loading import load_model, read_config
from lengthwise.hf.rope import ConfigNote
from lengthwise.hf.rope_settings import Finding
from lengthwise.hf.sizes import dims_from_config
from lengthwise.hf.vllm import to_vllm

__all__ = [
    "Applied",
    "Audit",
    "ConfigNote",
    "Finding",
    "apply_to",
    "audit",
    "dims_from_config",
    "encoding_from_config",
    "first_row",
    "load_model",
    "read_config",
    "table_of",
    "to_llama_cpp",
    "to_rope_parameters",
    "to_rope_scaling",
    "to_vllm",
]
