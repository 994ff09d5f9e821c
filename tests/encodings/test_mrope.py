from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from transformers.models.glm4v import modeling_glm4v as glm
from transformers.models.glm4v.configuration_glm4v import Glm4vTextConfig
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen25
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLTextConfig
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2
from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLTextConfig
from transformers.models.qwen3_5 import modeling_qwen3_5 as qwen35
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5TextConfig
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLTextConfig

import lengthwise as lw
from lengthwise import Positions
from lengthwise.encodings.mrope import MRoPE, mrope_positions
from lengthwise.hf import encoding_from_config, to_rope_parameters

Close = Callable[..., None]
PLACE = torch.randint(0, 30, (2, 12, 3), generator=torch.Generator().manual_seed(0))  # (time, row, column)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def parameters(sections: list[int], **more: object) -> dict[str, object]:
    return {"rope_type": "default", "rope_theta": 1e6, "mrope_section": sections, **more}


@pytest.mark.parametrize("sections", [[16, 24, 24], [10, 20, 34]])
def test_sections_are_those_of_qwen2_vl(sections: list[int]) -> None:
    config = Qwen2VLTextConfig(hidden_size=256, num_attention_heads=2, rope_parameters=parameters(sections))
    q, k = normal(2, 4, 12, 128), normal(2, 2, 12, 128)
    cos, sin = qwen2.Qwen2VLRotaryEmbedding(config)(q, PLACE.movedim(-1, 0))
    expected = qwen2.apply_rotary_pos_emb(q, k, cos, sin)
    own = MRoPE(128, sections=sections, base=1e6).rotation(Positions(PLACE, PLACE))(q, k)
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=2e-5)  # their angles are float32, up to 30


@pytest.mark.parametrize("sections", [[24, 20, 20], [40, 12, 12], [30, 20, 14]])
def test_interleaved_sections_are_those_of_qwen3_vl(sections: list[int]) -> None:
    config = Qwen3VLTextConfig(
        hidden_size=256,
        num_attention_heads=2,
        head_dim=128,
        rope_parameters=parameters(sections, mrope_interleaved=True),
    )
    q, k = normal(2, 4, 12, 128), normal(2, 2, 12, 128)
    cos, sin = qwen3.Qwen3VLTextRotaryEmbedding(config)(q, PLACE.movedim(-1, 0))
    expected = qwen3.apply_rotary_pos_emb(q, k, cos, sin)
    own = MRoPE(128, sections=sections, base=1e6, interleaved=True).rotation(Positions(PLACE, PLACE))(q, k)
    torch.testing.assert_close(own, expected, rtol=1e-4, atol=2e-5)


def test_a_part_of_the_head_is_turned_as_by_glm4v_and_qwen3_5() -> None:
    half = {"partial_rotary_factor": 0.5}
    config = Glm4vTextConfig(hidden_size=256, num_attention_heads=2, rope_parameters=parameters([8, 12, 12], **half))
    q, k = normal(1, 2, 12, 128), normal(1, 2, 12, 128)
    cos, sin = glm.Glm4vTextRotaryEmbedding(config)(q, PLACE[:1].movedim(-1, 0))
    own = MRoPE(128, (8, 12, 12), 1e6, layout="interleaved", fraction=0.5).rotation(Positions(PLACE[:1], PLACE[:1]))
    torch.testing.assert_close(own(q, k), glm.apply_rotary_pos_emb(q, k, cos, sin), rtol=1e-4, atol=2e-5)

    quarter = {"partial_rotary_factor": 0.25, "mrope_interleaved": True}
    config = Qwen3_5TextConfig(head_dim=256, rope_parameters=parameters([11, 11, 10], **quarter))
    q, k = normal(1, 2, 12, 256), normal(1, 2, 12, 256)
    cos, sin = qwen35.Qwen3_5TextRotaryEmbedding(config)(q, PLACE[:1].movedim(-1, 0))
    own = MRoPE(256, (11, 11, 10), 1e6, interleaved=True, fraction=0.25).rotation(Positions(PLACE[:1], PLACE[:1]))
    torch.testing.assert_close(own(q, k), qwen35.apply_rotary_pos_emb(q, k, cos, sin), rtol=1e-4, atol=2e-5)


def test_yarn_changes_its_frequencies_as_in_qwen2_5_vl() -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    config = Qwen2_5_VLTextConfig(
        hidden_size=256, num_attention_heads=2, rope_parameters=parameters([16, 24, 24]) | yarn
    )
    q, k = normal(1, 2, 12, 128), normal(1, 2, 12, 128)
    cos, sin = qwen25.Qwen2_5_VLRotaryEmbedding(config)(q, PLACE[:1].movedim(-1, 0))
    encoding = encoding_from_config(config)
    assert to_rope_parameters(encoding)["mrope_section"] == [16, 24, 24]
    own = encoding.rotation(Positions(PLACE[:1], PLACE[:1]))(q, k)
    torch.testing.assert_close(own, qwen25.apply_rotary_pos_emb(q, k, cos, sin), rtol=1e-4, atol=2e-5)


def test_default_sections_are_those_of_the_models_at_128_dims_and_scale_down() -> None:
    assert MRoPE(128).sections == (16, 24, 24)
    assert MRoPE(128, interleaved=True).sections == (24, 20, 20)
    assert MRoPE(128, interleaved=True).axis_of_pair == [0, 1, 2] * 20 + [0] * 4
    assert MRoPE(64).sections == (8, 12, 12)
    for head_dim in range(2, 132, 2):
        for interleaved in (False, True):
            time, row, column = MRoPE(head_dim, interleaved=interleaved).sections
            assert time + row + column == head_dim // 2
            assert 0 <= row - column <= 1


@pytest.mark.parametrize("interleaved", [False, True])
def test_text_is_rope_bit_for_bit_by_one_axis_and_by_three_alike(interleaved: bool) -> None:
    encoding, x = MRoPE(64, interleaved=interleaved), normal(1, 2, 50, 64)
    expected = lw.Rotary(64).rotation(Positions.sequence(50))(x, x)
    same = torch.arange(50)[None, :, None].expand(1, 50, 3)
    for positions in (Positions.sequence(50), Positions(same, same)):
        for turned, wanted in zip(encoding.rotation(positions)(x, x), expected, strict=True):
            assert torch.equal(turned, wanted)


def test_text_in_padded_rows_is_rope_too() -> None:
    positions = Positions.padded(torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]]))
    x = normal(2, 2, 4, 16)
    assert torch.equal(MRoPE(16).rotation(positions).q(x), lw.Rotary(16).rotation(positions).q(x))


@pytest.mark.parametrize("interleaved", [False, True])
def test_shifts_along_any_axis_leave_the_logits_as_they_are(interleaved: bool, close: Close) -> None:
    encoding = MRoPE(16, interleaved=interleaved)
    q, k = normal(2, 2, 12, 16).double(), normal(2, 2, 12, 16).double()

    def logits(shift: tuple[int, ...]) -> Tensor:
        place = PLACE + torch.tensor(shift)
        turned_q, turned_k = encoding.rotation(Positions(place, place))(q, k)
        return turned_q @ turned_k.transpose(-1, -2)

    for shift in ((9, 0, 0), (0, 9, 0), (0, 0, 9), (100, -20, 3)):
        close(logits(shift), logits((0, 0, 0)), of=torch.float32)


def theirs(kinds: list[int], images: list[list[int]], videos: list[list[int]]) -> Tensor:
    """Positions `[1, length, 3]` as `transformers` makes them; kinds are 0 text, 1 image, 2 video, of each token."""
    model = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)))

    def vision(*args: object, **kwargs: object) -> Tensor:
        return qwen2.Qwen2VLModel.get_vision_position_ids(model, *args, **kwargs)

    model.get_vision_position_ids = vision
    place, _ = qwen2.Qwen2VLModel.get_rope_index(
        model,
        torch.zeros(1, len(kinds), dtype=torch.int64),
        torch.tensor([kinds]),
        *map(torch.tensor, (images, videos)),
    )
    return place.movedim(0, -1)


def test_text_and_images_stand_where_transformers_has_them() -> None:
    kinds = [0] * 3 + [1] * 6 + [0] * 2 + [1] * 4 + [0]
    expected = theirs(kinds, [[1, 4, 6], [1, 4, 4]], [])
    pieces = [3, (1, 2, 3), 2, (1, 2, 2), 1]
    assert torch.equal(mrope_positions(pieces), expected)
    assert torch.equal(mrope_positions(pieces, then="grid"), expected)


def test_text_behind_a_long_video_overlaps_it_in_transformers_only() -> None:
    pieces = [3, (8, 2, 3), 3]  # the grid of patches is (8, 4, 6), and 2 x 2 are merged
    expected = theirs([0] * 3 + [2] * 48 + [0] * 3, [], [[8, 4, 6]])
    assert torch.equal(mrope_positions(pieces, then="grid"), expected)
    assert expected[0, -3:, 0].tolist() == [6, 7, 8]
    own = mrope_positions(pieces)
    assert torch.equal(own[:, :-3], expected[:, :-3])
    assert own[0, -3:].tolist() == [[11] * 3, [12] * 3, [13] * 3]


def test_frames_are_an_interval_apart_rounded_down() -> None:
    assert mrope_positions([1, (4, 1, 1), 1], interval=2.5)[0, :, 0].tolist() == [0, 1, 3, 6, 8, 9]


def test_text_alone_counts_and_nothing_is_nothing() -> None:
    assert torch.equal(mrope_positions([2, 0, 3]), torch.arange(5)[None, :, None].expand(1, 5, 3))
    assert mrope_positions([]).shape == (1, 0, 3)
    assert mrope_positions([2, (0, 2, 2), 1])[0, :, 0].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pieces": [(2, 2)]}, r"a piece is a number of tokens or \(frames, rows, columns\) of them, not \(2, 2\)"),
        ({"pieces": [-1]}, "not -1"),
        ({"pieces": [()]}, r"not \(\)"),
        ({"interval": -1.0}, "interval must be at least 0, not -1.0"),
        ({"then": "large"}, r"unknown then 'large': did you mean 'largest'\?"),
    ],
)
def test_pieces_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        mrope_positions(**{"pieces": [1]} | settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 15}, "head_dim must be even, at least 2, not 15"),
        ({"sections": (16, 24, 24)}, r"that sum to head_dim / 2 = 8, not \(16, 24, 24\), which sum to 64"),
        ({"sections": (4, 4)}, r"sections must be 3 numbers of pairs .* not \(4, 4\)"),
        ({"sections": (-1, 4, 5)}, r"not \(-1, 4, 5\)"),
        ({"sections": (1, 4, 3), "interleaved": True}, r"sections \(1, 4, 3\) can't take turns"),
        ({"base": 0.0}, "base must be above 0, not 0.0"),
        ({"layout": "haf"}, r"unknown layout 'haf': did you mean 'half'\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        MRoPE(**{"head_dim": 16} | settings)


def test_positions_of_two_axes_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of 3 axes are needed here"):
        MRoPE(16).rotation(Positions(PLACE[..., :2], PLACE[..., :2]))
