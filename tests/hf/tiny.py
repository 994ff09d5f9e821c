"""A model folder that is small and whole: a random Llama, a tokenizer of bytes, weights on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from transformers.utils import logging


def make_folder(folder: Path, trained: int = 128, **settings: Any) -> Path:
    """Write the model; its weights are large enough that positions matter."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(
        vocab_size=256,
        num_key_value_heads=1,
        max_position_embeddings=trained,
        initializer_range=0.35,
        bos_token_id=None,
        eos_token_id=None,
        **{**sizes, **settings},
    )
    logging.disable_progress_bar()
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def tokenizer() -> Any:
    """One token a byte."""
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    made = Tokenizer(models.BPE(vocab=letters, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)
