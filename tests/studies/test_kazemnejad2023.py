from __future__ import annotations

import pytest
import torch

import lengthwise as lw
from lengthwise.studies.kazemnejad2023 import FURTHER, chosen_arms, kazemnejad2023
from lengthwise.studies.study import Choice


@pytest.mark.parametrize("scale", ["small", "medium", "paper"])
def test_the_arm_of_t5_without_a_scale_attends_by_plain_products_and_the_bias(scale: str) -> None:
    study = kazemnejad2023(Choice(scale=scale, tasks=("Parity",), encodings=("T5, not scaled",), seeds=1))
    experiment = study.trials[0].experiment
    dims = experiment.model.dims()
    encoding = lw.build(experiment.encoding, dims)
    q, k = torch.randn(2, 1, dims.heads, 9, dims.head_dim, generator=torch.Generator().manual_seed(0))
    bias = lw.build("t5", dims).of_distance
    encoding.unextended.load_state_dict(bias.__self__.state_dict())
    positions = lw.Positions.sequence(9)
    logits = q @ k.transpose(-1, -2) + bias(positions.distance())
    expected = logits.masked_fill(~positions.visible(), float("-inf")).softmax(-1)
    torch.testing.assert_close(lw.attention_weights(q, k, encoding), expected, rtol=1e-4, atol=1e-6)


def test_every_further_arm_can_be_built() -> None:
    for spec in chosen_arms(Choice(encodings=tuple(FURTHER))).values():
        lw.build(spec, lw.Dims(dim=64, heads=4))
