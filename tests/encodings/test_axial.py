from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from rotary_embedding_torch import RotaryEmbedding
from rotary_embedding_torch.rotary_embedding_torch import apply_rotary_emb
from torch import Tensor
from transformers import DINOv3ViTConfig, Llama4VisionConfig, PixtralVisionConfig
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
from transformers.models.llama4 import modeling_llama4 as llama4
from transformers.models.pixtral import modeling_pixtral as pixtral
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig

import lengthwise as lw
from lengthwise import Positions
from lengthwise.encodings.axial import Axial

Close = Callable[..., None]
ROWS, COLUMNS = 3, 5
GRID = torch.cartesian_prod(torch.arange(ROWS), torch.arange(COLUMNS))  # [15, 2]: (row, column), row by row


def at(place: Tensor) -> Positions:
    return Positions(place[None], place[None], causal=False)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_the_default_is_rope_vit_axial(close: Close) -> None:
    # Written from the published formula: complex pairs, the column on the first quarter of the dims, the row next.
    x = normal(2, 3, 15, 16)
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
    frequency = [100 ** (-4 * m / 16) for m in range(4)]
    expected = torch.stack(
        [
            pairs[:, :, t, m] * complex(math.cos(angle), math.sin(angle))
            for t in range(15)
            for m in range(8)
            for angle in [(t % COLUMNS if m < 4 else t // COLUMNS) * frequency[m % 4]]
        ],
        dim=-1,
    )
    expected = torch.view_as_real(expected.unflatten(-1, (15, 8))).flatten(-2)
    close(Axial(16).rotation(at(GRID)).q(x), expected, of=torch.float32)


def test_frequencies_are_those_of_the_published_list(close: Close) -> None:
    rotation = Axial(64).rotation(at(torch.tensor([[0, 1]])))
    angle = torch.atan2(rotation.q_sin, rotation.q_cos)[0, 0]
    close(angle[[0, 1, 15]], torch.tensor([1.0, 0.749894209, 0.0133352143]))
    assert angle[16:].abs().sum() == 0


@pytest.mark.parametrize("dims", [(16, 16), (16, 16, 16)])
def test_row_first_interleaved_is_the_axial_rotation_of_rotary_embedding_torch(dims: tuple[int, ...]) -> None:
    sizes = (2, ROWS, COLUMNS)[-len(dims) :]
    grid = torch.cartesian_prod(*(torch.arange(n) for n in sizes))
    width = sum(dims)
    x = normal(1, 2, len(grid), width)
    theirs = RotaryEmbedding(dim=16, theta=10000).get_axial_freqs(*sizes).detach().view(len(grid), width)
    axes = len(dims)
    own = Axial(width, axes=axes, base=10000.0, order=range(axes)).rotation(at(grid)).q(x)
    torch.testing.assert_close(own, apply_rotary_emb(theirs, x), rtol=1e-5, atol=1e-5)


def test_the_vision_rotation_of_qwen2_vl_is_row_first_in_halves() -> None:
    config = Qwen2VLVisionConfig(embed_dim=64, num_heads=2)
    x = normal(15, 2, 32)  # [length, heads, head_dim]
    cos, sin = qwen.Qwen2VLVisionRotaryEmbedding(config)(x, GRID)
    q, k = qwen.apply_rotary_pos_emb_vision(x, x, cos, sin)
    own = Axial(32, base=10000.0, order=(0, 1), layout="half").rotation(at(GRID))
    for turned, expected in zip(own(x.transpose(0, 1)[None], x.transpose(0, 1)[None]), (q, k), strict=True):
        torch.testing.assert_close(turned[0].transpose(0, 1), expected, rtol=1e-5, atol=1e-5)


def test_pixtral_alternates_frequencies_between_the_axes() -> None:
    config = PixtralVisionConfig(hidden_size=64, num_attention_heads=2)
    x = normal(1, 2, 15, 32)
    cos, sin = pixtral.PixtralVisionRotaryEmbedding(config)(x, GRID)
    expected, _ = pixtral.apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=0)
    own = Axial(32, base=10000.0, order=(0, 1), layout="half", frequencies="alternating")
    torch.testing.assert_close(own.rotation(at(GRID)).q(x), expected, rtol=1e-5, atol=1e-5)


def test_llama_4_counts_from_one_and_the_class_token_stands_at_zero() -> None:
    config = Llama4VisionConfig(hidden_size=64, num_attention_heads=2, image_size=16, patch_size=4)
    x = normal(1, 17, 2, 32)  # [batch, length, heads, head_dim], the class token last
    freqs = llama4.Llama4VisionRotaryEmbedding(config)(x)
    expected, _ = llama4.vision_apply_rotary_emb(x, x, freqs)
    grid = torch.cartesian_prod(torch.arange(4), torch.arange(4)) + 1
    own = Axial(32, base=10000.0).rotation(at(torch.cat((grid, torch.zeros(1, 2, dtype=torch.int64)))))
    out = own.q(x.transpose(1, 2)).transpose(1, 2)
    torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(out[:, -1], x[:, -1])


def test_dinov3_scales_centres_of_patches() -> None:
    config = DINOv3ViTConfig(hidden_size=64, num_attention_heads=2, patch_size=4, image_size=16)
    module = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()
    cos, sin = module(torch.zeros(1, 3, 12, 20))
    x = normal(1, 2, 15, 32)
    expected, _ = dinov3.apply_rotary_pos_emb(x, x, cos, sin)
    centres = 2 * (GRID + 0.5) / torch.tensor([ROWS, COLUMNS]) - 1
    own = Axial(32, base=100.0, order=(0, 1), layout="half", scale=2 * math.pi)
    torch.testing.assert_close(own.rotation(at(centres)).q(x), expected, rtol=1e-5, atol=1e-5)


def test_one_axis_is_rope(close: Close) -> None:
    x, positions = normal(1, 2, 20, 16), Positions.sequence(20)
    own = Axial(16, axes=1, base=1e4).rotation(positions)
    assert torch.equal(own.q(x), lw.Rotary(16, layout="interleaved").rotation(positions).q(x))
    third = Positions(torch.arange(20)[None, :, None], torch.arange(20)[None, :, None])
    close(Axial(16, axes=1, base=1e4).rotation(third).q(x), own.q(x))


def test_swapping_the_axes_swaps_the_blocks(close: Close) -> None:
    here = Axial(16).rotation(at(GRID))
    there = Axial(16).rotation(at(GRID.flip(-1)))
    close(there.q_cos, here.q_cos.roll(4, dims=-1))


def test_shifts_along_either_axis_leave_the_logits_as_they_are(close: Close) -> None:
    q, k = normal(1, 2, 15, 16).double(), normal(1, 2, 15, 16).double()
    encoding = Axial(16)

    def logits(shift: tuple[int, int]) -> Tensor:
        turned_q, turned_k = encoding.rotation(at(GRID + torch.tensor(shift)))(q, k)
        return turned_q @ turned_k.transpose(-1, -2)

    for shift in ((7, 0), (0, 7), (100, -50)):
        close(logits(shift), logits((0, 0)), of=torch.float32)


def test_a_split_gives_axes_as_many_pairs_as_it_says_and_leaves_the_rest() -> None:
    x = normal(1, 1, 1, 16)
    encoding = Axial(16, axes=3, split=(1, 2, 3), order=(0, 1, 2))
    assert encoding.rotary_dim == 12
    for axis, dims in enumerate((range(2), range(2, 6), range(6, 12))):
        place = torch.zeros(1, 3, dtype=torch.int64)
        place[0, axis] = 1
        changed = (encoding.rotation(at(place)).q(x) != x).flatten().nonzero().flatten().tolist()
        assert changed == list(dims)


def test_keys_at_other_positions_than_queries_get_their_own() -> None:
    positions = Positions(GRID[None, -2:], GRID[None], causal=False)
    rotation = Axial(16).rotation(positions)
    assert torch.equal(rotation.q_cos, rotation.k_cos[:, -2:])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 6}, "head_dim 6 has not the same number of them for each of 2 axes: choose a multiple of 4"),
        ({"axes": 3}, r"each of 3 axes: choose a multiple of 6, or say how many pairs each axis gets, split="),
        ({"axes": 0}, "axes must be at least 1, not 0"),
        ({"split": (5, 4)}, r"split must be 2 numbers of pairs that sum to at most head_dim / 2 = 8, not \(5, 4\)"),
        ({"split": (0, 0)}, r"not \(0, 0\)"),
        ({"split": (4,)}, r"not \(4,\)"),
        ({"order": (0, 0)}, r"order must name each of the axes 0 to 1 once, not \(0, 0\)"),
        ({"base": 0.0}, "base must be above 0, not 0.0"),
        ({"layout": "haf"}, r"unknown layout 'haf': did you mean 'half'\?"),
        ({"frequencies": "sam"}, r"unknown frequencies 'sam': did you mean 'same'\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        Axial(**{"head_dim": 16} | settings)


def test_positions_of_another_number_of_axes_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed here"):
        Axial(16).rotation(Positions.sequence(3))
