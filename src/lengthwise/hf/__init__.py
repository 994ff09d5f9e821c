"""Hugging Face models: configs in and out, for `transformers`, vLLM and llama.cpp.

`transformers` is loaded by what needs it and by nothing else: dicts and JSON files are read without it.
"""

from lengthwise.hf.config import encoding_from_config, first_row
from lengthwise.hf.export import to_rope_parameters, to_rope_scaling
from lengthwise.hf.llama_cpp import to_llama_cpp
from lengthwise.hf.rope import ConfigNote
from lengthwise.hf.sizes import dims_from_config
from lengthwise.hf.vllm import to_vllm

__all__ = [
    "ConfigNote",
    "dims_from_config",
    "encoding_from_config",
    "first_row",
    "to_llama_cpp",
    "to_rope_parameters",
    "to_rope_scaling",
    "to_vllm",
]
