from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions


def test_nothing_prepares_to_its_positions_alone() -> None:
    positions = Positions.sequence(3)
    for encoding in (None, lw.NoPE()):
        prepared = lw.prepare(encoding, positions)
        assert prepared.positions is positions
        assert (prepared.embed, prepared.rotation, prepared.bias, prepared.logits) == (None, None, None, None)


def test_prepared_values_are_those_of_the_encoding() -> None:
    positions = Positions.sequence(3)
    x = torch.ones(1, 3, 8)
    sinusoidal, rotary, alibi = lw.Sinusoidal(8), lw.Rotary(8), lw.ALiBi(2)
    embed = lw.prepare(sinusoidal, positions).embed
    assert embed is not None
    assert torch.equal(embed(x), sinusoidal.embed_positions(x, positions))
    rotation = lw.prepare(rotary, positions).rotation
    assert rotation is not None
    assert torch.equal(rotation.q_cos, rotary.rotation(positions).q_cos)
    bias = lw.prepare(alibi, positions).bias
    assert bias is not None
    assert torch.equal(bias.dense(), alibi.logit_bias(positions).dense())


class Doubling(nn.Module):
    """Maps positions, and counts how often each of its methods is called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def map_positions(self, positions: Positions, *, generator: torch.Generator | None, training: bool) -> Positions:
        self.calls.append(f"map {training} {generator is not None}")
        return positions.replace(q=positions.q * 2, k=positions.k * 2)

    def logit_bias(self, positions: Positions) -> lw.Bias:
        self.calls.append("bias")
        return lw.DistanceBias(lambda d: -d.abs().float()[None].expand(2, *d.shape), positions)

    def attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        self.calls.append(f"logits {int(positions.q.max())}")
        return q @ k.transpose(-1, -2) * scale


def test_positions_are_mapped_once_and_all_that_is_prepared_sees_the_mapped_ones() -> None:
    encoding = Doubling()
    prepared = lw.prepare(encoding, Positions.sequence(3), generator=torch.Generator(), training=True)
    assert encoding.calls == ["map True True", "bias"]
    assert prepared.positions.q.tolist() == [0, 2, 4]
    assert prepared.bias is not None
    assert prepared.bias.dense()[0, 2].tolist() == [-4, -2, 0]
    q = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0))
    lw.attention(q, q, q, prepared)
    lw.attention(q, q, q, prepared)
    assert encoding.calls == ["map True True", "bias", "logits 4", "logits 4"]


def test_a_causal_encoding_is_refused_where_later_tokens_are_seen() -> None:
    with pytest.raises(lw.InvalidArgument, match="T5Bias is made for causal attention, and these positions see later"):
        lw.prepare(lw.T5Bias(2), Positions.sequence(3, causal=False))
    with pytest.raises(lw.InvalidArgument, match="made for causal attention"):
        lw.prepare(lw.T5Bias(2), Positions.cross(2, 3))
    assert lw.prepare(lw.T5Bias(2, bidirectional=True), Positions.sequence(3, causal=False)).bias is not None


@pytest.mark.parametrize("encoding", ["alibi", lw.ALiBi, lambda: None, 3])
def test_what_is_no_module_is_refused_and_not_taken_for_an_encoding_that_does_nothing(encoding: object) -> None:
    with pytest.raises(
        lw.InvalidArgument, match=r"an encoding is a torch\.nn\.Module, not .*lengthwise\.build makes one"
    ):
        lw.prepare(encoding, Positions.sequence(3))
    q = torch.zeros(1, 2, 3, 4)
    with pytest.raises(lw.InvalidArgument, match=r"an encoding is a torch\.nn\.Module"):
        lw.attention(q, q, q, encoding)


def test_a_bias_that_is_a_bare_tensor_is_told() -> None:
    class Bare(nn.Module):
        def logit_bias(self, positions):
            return positions.distance().float()[None]

    with pytest.raises(lw.InvalidArgument, match=r"Bare.logit_bias returned Tensor, and not a Bias: DenseBias"):
        lw.prepare(Bare(), Positions.sequence(3))
