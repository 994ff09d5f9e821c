"""Small Transformers that take any encoding."""

from lengthwise.models.cache import KVCache
from lengthwise.models.config import ModelConfig
from lengthwise.models.decoder import Decoder
from lengthwise.models.encoder import Encoder

__all__ = ["Decoder", "Encoder", "KVCache", "ModelConfig"]
