"""Does order matter? The same tokens in two orders, through an encoder and a decoder, with and without an encoding."""

import torch

import lengthwise as lw
from lengthwise.analysis.order import order_effect
from lengthwise.models import Decoder, Encoder, ModelConfig

WORDS = ["the", "dog", "bit", "the", "man", "with", "a", "bone"]
ORDER = torch.tensor([3, 4, 2, 0, 1, 5, 6, 7])  # the man bit the dog with a bone

ids = {word: number for number, word in enumerate(dict.fromkeys(WORDS))}
tokens = torch.tensor([[ids[word] for word in WORDS]])
config = ModelConfig(vocabulary=len(ids), dim=64, heads=4, layers=2)

print(" ".join(WORDS), "/", " ".join(WORDS[place] for place in ORDER))
print("cosine of the two states of each word, 1 where the model can't tell the orders apart:")
print(f"{'':22}", *(f"{word:>6}" for word in WORDS))
equal = {}
for kind in (Encoder, Decoder):
    for name in ("none", "sinusoidal", "rotary"):
        torch.manual_seed(0)
        model = kind(config, lw.build(name, config.dims())).double()
        effect = order_effect(model, tokens, ORDER)
        print(f"{kind.__name__:8}{name:14}", *(f"{value:6.3f}" for value in effect.similarity[-1, 0]))
        equal[kind, name] = effect.largest < 1e-12

print(
    "only the encoder without an encoding is blind to order:",
    [key for key in equal if equal[key]] == [(Encoder, "none")],
)
