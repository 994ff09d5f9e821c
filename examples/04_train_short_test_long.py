"""Train short, test long: the same small Decoder with two encodings learns to say which token came three before."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import lengthwise as lw
from lengthwise.models import Decoder, ModelConfig

TRAINED, TESTED, BACK, SYMBOLS = 12, (12, 16, 24, 48), 3, 8
config = ModelConfig(vocabulary=SYMBOLS, dim=32, layers=2, heads=4)


def sample(generator: torch.Generator, batch: int, length: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(SYMBOLS, (batch, length), generator=generator)
    return tokens, tokens.roll(BACK, dims=1)  # the first BACK targets have wrapped around and are not asked


def train(name: str) -> Decoder:
    torch.manual_seed(0)
    model = Decoder(config, lw.build(name, config.dims(max_length=max(TESTED))))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(120):
        tokens, target = sample(generator, 32, TRAINED)
        loss = cross_entropy(model(tokens)[:, BACK:].flatten(0, 1), target[:, BACK:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


print(f"accuracy by length, trained at {TRAINED}")
for name in ("t5", "learned"):
    model, generator = train(name), torch.Generator().manual_seed(1)
    for length in TESTED:
        tokens, target = sample(generator, 100, length)
        with torch.no_grad():
            right = (model(tokens).argmax(-1) == target)[:, BACK:].float().mean().item()
        print(f"{name:>8} {length:>4} {right:>6.2f} {'#' * round(40 * right)}")
