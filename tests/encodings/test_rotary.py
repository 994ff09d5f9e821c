from __future__ import annotations

import math

import pytest
import torch
from rotary_embedding_torch import RotaryEmbedding
from torch import Tensor
from transformers import GPTNeoXConfig, LlamaConfig
from transformers.models.gpt_neox import modeling_gpt_neox as neox
from transformers.models.gptj import modeling_gptj as gptj
from transformers.models.llama import modeling_llama as llama

import lengthwise as lw
from lengthwise import Positions, Rotary

SHEET = {
    "half": "-1.69559254 .137551738 2.7886816 3.97598204 -4.80884247 6.32305935 7.08683674 8.01196398",
    "interleaved": "-1.27223251 -1.83886499 1.68392864 4.70790658 4.81777717 6.1472777 6.97596854 8.02096397",
}


@pytest.fixture
def qk() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 4, 50, 64, generator=generator), torch.randn(2, 2, 50, 64, generator=generator)


@pytest.mark.parametrize("layout", SHEET)
def test_position_three_has_the_numbers_of_the_formula_sheet(layout: str) -> None:
    three = torch.tensor([3])
    x = torch.arange(1.0, 9.0).view(1, 1, 1, 8)
    out = Rotary(8, layout=layout).rotation(Positions(three, three)).q(x)
    torch.testing.assert_close(
        out.flatten(), torch.tensor([float(n) for n in SHEET[layout].split()]), rtol=1e-6, atol=0
    )


def test_half_is_the_rotation_of_llama(qk: tuple[Tensor, Tensor]) -> None:
    q, k = qk
    config = LlamaConfig(
        hidden_size=256, num_attention_heads=4, rope_parameters={"rope_type": "default", "rope_theta": 5e5}
    )
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, torch.arange(50)[None])
    expected = llama.apply_rotary_pos_emb(q, k, cos, sin)
    out = Rotary(64, base=5e5).rotation(Positions.sequence(50))(q, k)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=5e-5)  # their angles are float32, up to 50


def test_a_fraction_is_that_of_gpt_neox(qk: tuple[Tensor, Tensor]) -> None:
    q, k = qk
    config = GPTNeoXConfig(
        hidden_size=256,
        num_attention_heads=4,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25},
    )
    cos, sin = neox.GPTNeoXRotaryEmbedding(config)(q, torch.arange(50)[None])
    assert cos.shape[-1] == 16
    expected = neox.apply_rotary_pos_emb(q, k, cos, sin)
    rotation = Rotary(64, fraction=0.25).rotation(Positions.sequence(50))
    torch.testing.assert_close(rotation(q, k), expected, rtol=1e-4, atol=5e-5)
    assert torch.equal(rotation.q(q)[..., 16:], q[..., 16:])  # bit for bit
    assert rotation.rotary_dim == 16


def test_interleaved_is_the_rotation_of_gptj(qk: tuple[Tensor, Tensor]) -> None:
    q, _ = qk
    table = gptj.create_sinusoidal_positions(50, 16)
    sin, cos = table[None].split(8, dim=-1)
    turned = gptj.apply_rotary_pos_emb(q[..., :16].transpose(1, 2), sin, cos).transpose(1, 2)
    out = Rotary(64, fraction=0.25, layout="interleaved").rotation(Positions.sequence(50)).q(q)
    torch.testing.assert_close(out, torch.cat((turned, q[..., 16:]), -1), rtol=1e-4, atol=5e-5)


def test_interleaved_is_the_rotation_of_rotary_embedding_torch(qk: tuple[Tensor, Tensor]) -> None:
    q, _ = qk
    expected = RotaryEmbedding(dim=64, use_xpos=False).rotate_queries_or_keys(q)
    out = Rotary(64, layout="interleaved").rotation(Positions.sequence(50)).q(q)
    torch.testing.assert_close(out, expected.detach(), rtol=1e-4, atol=5e-5)


def test_the_layouts_are_conjugate_under_the_published_permutation(qk: tuple[Tensor, Tensor]) -> None:
    q, _ = qk
    order = [*range(0, 64, 2), *range(1, 64, 2)]
    half = Rotary(64).rotation(Positions.sequence(50))
    inter = Rotary(64, layout="interleaved").rotation(Positions.sequence(50))
    torch.testing.assert_close(half.q(q[..., order]), inter.q(q)[..., order], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("change", ["plain", "bfloat16", "half", "autocast"])
def test_angles_agree_with_float64_far_out_whatever_was_done_to_the_module(change: str) -> None:
    rotary = Rotary(64)
    if change in ("bfloat16", "half"):
        rotary = rotary.to(getattr(torch, change))
    place = [0, 1, 255, 256, 257, 4096, 65537, 2**20 - 1, 2**20]
    positions = Positions(torch.tensor(place), torch.tensor(place))
    with torch.autocast("cpu", torch.bfloat16, enabled=change == "autocast"):
        rotation = rotary.rotation(positions)
    assert rotation.q_cos.dtype == torch.float32
    for row, p in enumerate(place):
        for m in range(32):
            angle = p * 10000.0 ** (-2 * m / 64)
            allowed = 2**-23 * max(p, 1)
            assert rotation.q_cos[row, m].item() == pytest.approx(math.cos(angle), abs=allowed)
            assert rotation.q_sin[row, m].item() == pytest.approx(math.sin(angle), abs=allowed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_neighbouring_positions_are_told_apart_far_out_in_every_dtype(dtype: torch.dtype) -> None:
    place = torch.arange(2**20, 2**20 + 64)
    x = torch.ones(1, 1, 64, 64, dtype=dtype)
    rotation = Rotary(64).to(dtype).rotation(Positions(place, place))
    out = rotation.q(x)[0, 0]
    assert out.dtype == dtype
    assert out.isfinite().all()
    assert len(out.unique(dim=0)) == 64
    assert torch.cdist(out.float(), out.float()).fill_diagonal_(9).min() > 0.5


@pytest.mark.parametrize("layout", SHEET)
@pytest.mark.parametrize(
    ("dtype", "allowed"), [(torch.float32, 1e-6), (torch.bfloat16, 2**-8), (torch.float16, 2**-10)]
)
def test_norms_are_kept(layout: str, dtype: torch.dtype, allowed: float, qk: tuple[Tensor, Tensor]) -> None:
    q = qk[0].to(dtype)
    out = Rotary(64, layout=layout).rotation(Positions.sequence(50)).q(q)
    torch.testing.assert_close(out.double().norm(dim=-1), q.double().norm(dim=-1), rtol=allowed, atol=0)


def test_position_zero_turns_nothing_and_turns_add_up(qk: tuple[Tensor, Tensor]) -> None:
    q = qk[0][:, :, :1].double()
    rotary = Rotary(64)

    def turned(x: Tensor, p: int) -> Tensor:
        return rotary.rotation(Positions(torch.tensor([p]), torch.tensor([p]))).q(x)

    assert torch.equal(turned(q, 0), q)
    torch.testing.assert_close(turned(turned(q, 5), 7), turned(q, 12), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(turned(turned(q, 5), -5), q, rtol=1e-6, atol=1e-6)


def test_rotation_takes_fractions_and_rows_of_their_own(qk: tuple[Tensor, Tensor]) -> None:
    q, k = qk
    place = torch.stack((torch.arange(50), torch.arange(50) * 2))
    both = Rotary(64).rotation(Positions(place, place))(q, k)
    for row in range(2):
        alone = Rotary(64).rotation(Positions(place[row], place[row]))
        assert torch.equal(both[0][row], alone.q(q)[row])
        assert torch.equal(both[1][row], alone.k(k)[row])
    halves = Rotary(64).rotation(Positions(place[1] / 2.0, place[1] / 2.0))
    assert torch.equal(halves.q(q), Rotary(64).rotation(Positions.sequence(50)).q(q))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 7}, "Rotary turns pairs of dims, and head_dim 7 with fraction 1.0 leaves 7: choose an even"),
        ({"head_dim": 0}, "leaves 0"),
        ({"head_dim": 64, "fraction": 0.0}, "fraction is the part of the head that is rotated, above 0 to 1, not 0.0"),
        ({"head_dim": 64, "fraction": 1.5}, "not 1.5"),
        ({"head_dim": 12, "fraction": 0.25}, "head_dim 12 with fraction 0.25 leaves 3"),
        ({"head_dim": 64, "base": 0.0}, "base must be above 0, not 0.0"),
        ({"head_dim": 64, "base": math.nan}, "base must be above 0, not nan"),
        ({"head_dim": 64, "layout": "haf"}, r"unknown layout 'haf': did you mean 'half'\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        Rotary(**settings)


def test_positions_of_several_axes_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of one axis are needed here, and these have 2"):
        Rotary(8).rotation(Positions(torch.zeros(1, 3, 2).long(), torch.zeros(1, 3, 2).long()))
