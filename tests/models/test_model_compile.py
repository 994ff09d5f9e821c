"""The Decoder compiles as one graph with encodings of each kind."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import torch, lengthwise as lw
from lengthwise.models import Decoder, ModelConfig

torch.set_num_threads(1)
config = ModelConfig(vocabulary=11, dim=16, layers=1, heads=4)
tokens = torch.randint(11, (2, 7), generator=torch.Generator().manual_seed(0))
for name in ("none", "learned", "sinusoidal", "rotary", "alibi", "t5", "rotary + alibi"):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = Decoder(config, lw.build(name, config.dims(32)))
    expected = model(tokens)
    expected.logsumexp(-1).sum().backward()
    grads = [weight.grad.clone() for weight in model.parameters()]
    model.zero_grad()
    logits = torch.compile(model, fullgraph=True, backend="aot_eager")(tokens)
    logits.logsumexp(-1).sum().backward()
    torch.testing.assert_close(logits, expected)
    for weight, grad in zip(model.parameters(), grads, strict=True):
        torch.testing.assert_close(weight.grad, grad)
    print("compiled", name)
"""


def test_an_encoding_of_each_kind_compiles_into_one_graph_with_its_gradients() -> None:
    # In a process of its own: the shape checks of these tests are not part of what a user compiles.
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("compiled") == 7
