from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from rotary_embedding_torch import RotaryEmbedding
from torch import Tensor

import lengthwise as lw
from lengthwise import Positions
from lengthwise.encodings.xpos import XPos

Close = Callable[..., None]


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def logits(q: Tensor, k: Tensor) -> Tensor:
    return (q.double() @ k.double().transpose(-1, -2)).tril()


def published(x: Tensor, sign: int, centre: int, base: float = 1e4, gamma: float = 0.4, scale: float = 512) -> Tensor:
    """The formula with complex numbers in float64, pairs of neighbours, written from the paper."""
    head_dim, length = x.shape[-1], x.shape[-2]
    out = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous()).clone()
    for n in range(length):
        for m in range(head_dim // 2):
            zeta = (2 * m / head_dim + gamma) / (1 + gamma)
            angle = n * base ** (-2 * m / head_dim)
            out[..., n, m] *= zeta ** (sign * (n - centre) / scale) * complex(math.cos(angle), math.sin(angle))
    return torch.view_as_real(out).flatten(-2)


@pytest.mark.parametrize("settings", [{}, {"base": 100.0, "gamma": 1.5, "scale_base": 8.0}])
def test_logits_are_those_of_the_published_formula_with_its_own_centre(
    settings: dict[str, float], close: Close
) -> None:
    q, k = normal(1, 2, 20, 8), normal(1, 2, 20, 8)
    own = dict(zip(("base", "gamma", "scale"), settings.values(), strict=False))
    expected = logits(published(q, 1, 10, **own), published(k, -1, 10, **own))
    out = XPos(8, **settings).rotation(Positions.sequence(20))(q, k)
    close(logits(*out), expected, of=torch.float32)


def test_logits_are_those_of_rotary_embedding_torch() -> None:
    q, k = normal(1, 2, 300, 64), normal(1, 2, 300, 64)
    with torch.no_grad():
        expected = logits(*RotaryEmbedding(dim=64, use_xpos=True).rotate_queries_and_keys(q, k))
    out = XPos(64).rotation(Positions.sequence(300))(q, k)
    torch.testing.assert_close(logits(*out), expected, rtol=1e-4, atol=5e-4)  # their angles are float32, up to 300


def test_zeta_has_the_numbers_of_the_paper_for_eight_dims(close: Close) -> None:
    # A query at 512 and a key at 0 that lie on one dim of pair m: the length of the product is zeta_m.
    rotation = XPos(8).rotation(Positions(torch.tensor([512]), torch.tensor([0, 512])))
    lengths = (rotation.q_cos**2 + rotation.q_sin**2).sqrt() * (rotation.k_cos**2 + rotation.k_sin**2).sqrt()
    close(lengths[0], torch.tensor([0.285714286, 0.464285714, 0.642857143, 0.821428571]), times=4)
    close(lengths[1], torch.ones(4), times=4)


def test_the_factor_falls_with_distance_and_makes_norms_change() -> None:
    place = torch.arange(2000)
    rotation = XPos(64).rotation(Positions(place[-1:], place))
    lengths = (rotation.k_cos**2 + rotation.k_sin**2).sqrt()
    assert (lengths.diff(dim=0) > 0).all()  # keys come nearer
    assert lengths[0, 0] < 0.05
    assert lengths[0, -1] > 0.9


def test_a_large_scale_base_or_gamma_gives_the_rotation_alone(close: Close) -> None:
    x, positions = normal(1, 2, 50, 16), Positions.sequence(50)
    plain = lw.Rotary(16, layout="interleaved").rotation(positions)
    for encoding in (XPos(16, scale_base=1e12), XPos(16, gamma=1e12)):
        for turned, expected in zip(encoding.rotation(positions)(x, x), plain(x, x), strict=True):
            close(turned, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_one_step_far_out_is_exact_and_finite_among_a_million_raw_keys(dtype: torch.dtype) -> None:
    length = 2**20
    near = torch.arange(length - 64, length)
    step = XPos(8).rotation(Positions.step(length - 1))
    assert step.q(normal(1, 1, 1, 8).to(dtype)).isfinite().all()
    keys = normal(1, 1, 64, 8).to(dtype)
    own = XPos(8).rotation(Positions(near[-1:], near))
    assert own.k(keys).isfinite().all()
    torch.testing.assert_close(step.k_cos[-64:] * step.q_cos, own.k_cos * own.q_cos, rtol=2e-6, atol=2e-6)
    assert step.k_cos.isfinite().all()
    assert step.k_cos.abs().max() < 1.2


def test_padded_rows_have_centres_of_their_own_and_padding_stays_finite() -> None:
    place = torch.stack((torch.arange(4), torch.arange(4) + 2**20))
    segment = torch.tensor([[0, 0, 0, 0], [-1, 0, 0, 0]])
    far = place.clone()
    far[1, 0] = 0
    positions = Positions(far, far, q_segment=segment, k_segment=segment)
    rotation = XPos(8).rotation(positions)
    for part in (rotation.q_cos, rotation.q_sin, rotation.k_cos, rotation.k_sin):
        assert part.isfinite().all()
        assert part.abs().max() < 1.5
    alone = XPos(8).rotation(Positions(place[1, 1:], place[1, 1:]))
    assert torch.equal(rotation.q_cos[1, 1:], alone.q_cos)
    q = normal(2, 1, 4, 8)
    assert lw.attention(q, q, q, XPos(8), positions, backend="sdpa").isfinite().all()


def test_rows_of_nothing_but_padding_and_no_tokens_at_all_pass() -> None:
    assert XPos(8).rotation(Positions.padded(torch.zeros(2, 3).bool())).q_cos.isfinite().all()
    assert XPos(8).rotation(Positions.sequence(0)).q_cos.shape == (0, 4)


def test_chunks_of_queries_among_all_keys_are_one_pass() -> None:
    q, k, v = (normal(1, 2, 3000, 8 + i)[..., :8] for i in range(3))
    whole = lw.attention(q, k, v, XPos(8))
    parts = []
    for start in (0, 1000, 2000):
        here = slice(0, start + 1000)
        positions = Positions.step(start, 1000)
        parts.append(lw.attention(q[:, :, start : start + 1000], k[:, :, here], v[:, :, here], XPos(8), positions))
    torch.testing.assert_close(torch.cat(parts, 2), whole, rtol=1e-4, atol=1e-5)


def test_more_queries_than_float32_has_room_for_are_refused_and_just_as_many_are_finite() -> None:
    encoding = XPos(8)
    assert int(encoding.longest) == 32695
    with pytest.raises(lw.InvalidArgument, match="no room in float32 for 32696 queries at once, at most 32695: pass"):
        encoding.rotation(Positions.sequence(32696))
    rotation = encoding.rotation(Positions.sequence(32695))
    ends = torch.tensor([0, -1])
    q, k = torch.ones(1, 1, 32695, 8), torch.ones(1, 1, 32695, 8)
    turned = rotation.q(q)[:, :, ends], rotation.k(k)[:, :, ends]
    assert (turned[0] @ turned[1].transpose(-1, -2)).isfinite().all()  # the invisible pair too
    encoding.rotation(Positions.packed([20000, 20000]))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"head_dim": 7}, "head_dim must be even, at least 2, not 7"),
        ({"base": 0.0}, "base must be above 0, not 0.0"),
        ({"gamma": 0.0}, "gamma must be above 0, not 0.0"),
        ({"scale_base": math.nan}, "scale_base must be above 0, not nan"),
        ({"layout": "haf"}, r"unknown layout 'haf': did you mean 'half'\?"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        XPos(**{"head_dim": 8} | settings)


def test_positions_that_see_later_tokens_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="made for causal attention"):
        lw.prepare(XPos(8), Positions.sequence(3, causal=False))
