from __future__ import annotations

import pytest
import torch

from lengthwise.tasks import build_task


@pytest.mark.parametrize("length", [1, 2, 15, 200])
def test_yes_means_an_even_number_of_ones_and_half_of_the_answers_are_yes(length) -> None:
    task = build_task("parity")
    batch = 2000
    tokens = task.sample(torch.Generator().manual_seed(1), batch, length).tokens
    zero, one, yes, no = (task.vocabulary.index(name) for name in ("0", "1", "yes", "no"))
    bits, answers = tokens[:, 1 : length + 1], tokens[:, length + 2]
    assert set(bits.unique().tolist()) == {zero, one}
    assert set(answers.tolist()) == {yes, no}
    even = (bits == one).sum(1) % 2 == 0
    assert torch.equal(even, answers == yes)
    assert abs(even.double().mean().item() - 0.5) < 4 * 0.5 / batch**0.5
