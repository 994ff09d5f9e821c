"""What is right passes, though it looks like a fault."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise.testing import check_encoding
from lengthwise.testing.broken import DIMS
from lengthwise.testing.broken.contract import BroadcastsOnePosition, LooksAtNoAxes
from lengthwise.testing.broken.registry import sinusoids


def test_a_kink_beside_a_parameter_is_no_wrong_gradient() -> None:
    class Kinked(nn.Module):
        """A leaky rectifier whose kink is 2e-5 from the parameters that the kit makes."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4))
            noise = torch.randn(4, generator=torch.Generator().manual_seed(1))
            self.register_buffer("kink", torch.ones(4) + 0.1 * noise + 2e-5)

        def logit_bias(self, positions: lw.Positions) -> lw.DistanceBias:
            bent = nn.functional.leaky_relu(self.scale.double() - self.get_buffer("kink").double())
            return lw.DistanceBias(lambda d: bent.view(-1, *[1] * d.dim()) * d.abs(), positions)

    assert check_encoding(Kinked, checks=["gradients_exact"]).failures == {}


def test_sines_of_positions_of_one_axis_after_a_check_of_tokens_pass() -> None:
    class Sines(nn.Module):
        def embed_positions(self, x: Tensor, positions: lw.Positions) -> Tensor:
            positions.check_tokens(x)
            return x + sinusoids(positions.one_axis()[0]).to(x.dtype)

    assert check_encoding(Sines, dims=DIMS).failures == {}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (BroadcastsOnePosition, r"one position for 5 tokens passed, .*check_tokens\(x\) raises it"),
        (LooksAtNoAxes, r"positions of 2 axes where it reads 1 passed, .* positions\.one_axis\(\) raises it"),
    ],
)
def test_a_mismatch_is_named_with_the_call_that_refuses_it(wrong: type[nn.Module], message: str) -> None:
    found = check_encoding(wrong, dims=DIMS, checks=["mismatch_refused"]).failures["mismatch_refused"]
    assert re.match(message, found)


def test_an_error_of_another_kind_on_a_mismatch_names_the_case() -> None:
    class Breaks(nn.Module):
        def embed_positions(self, x: Tensor, positions: lw.Positions) -> Tensor:
            if positions.q_length != x.shape[1]:
                raise RuntimeError("sizes")
            return x + sinusoids(positions.one_axis()[0]).to(x.dtype)

    message = check_encoding(Breaks, checks=["mismatch_refused"]).failures["mismatch_refused"]
    assert message.startswith("one position for 5 tokens raised RuntimeError: sizes, where InvalidArgument is expected")


@pytest.mark.parametrize("spec", ["window(window=64)", "chunks", "cope", "temperature", "learned", "fox"])
def test_what_acts_only_far_or_on_order_alone_still_acts(spec: str) -> None:
    dims = lw.Dims(dim=32, heads=4, head_dim=8, max_length=128)
    report = check_encoding(lambda: lw.build(spec, dims), dims=dims, checks=["positions_matter", "long_step_right"])
    assert report.passed == ["positions_matter", "long_step_right"]
