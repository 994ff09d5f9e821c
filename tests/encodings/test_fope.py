from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions
from lengthwise.encodings.fope import FoPE

Close = Callable[..., None]


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def plain(encoding: FoPE) -> FoPE:
    """The same with identities for mixtures."""
    with torch.no_grad():
        for mix in (encoding.cos_mix, encoding.sin_mix):
            mix.copy_(torch.eye(*mix.shape[1:]))
    return encoding


def test_pairs_are_turned_by_the_mixtures_of_their_head(close: Close) -> None:
    encoding, x = FoPE(kv_heads=2, head_dim=16, trained_length=100), normal(1, 4, 9, 16)
    kept = [10000 ** (-2 * m / 16) for m in range(8) if 10000 ** (-2 * m / 16) >= 2 * math.pi / 100]
    assert len(kept) == 3
    cos_mix, sin_mix = encoding.cos_mix.tolist(), encoding.sin_mix.tolist()
    expected = x.double().clone()
    for h in range(4):
        for p in range(9):
            for m in range(3):
                cos = sum(math.cos(p * w) * cos_mix[h // 2][n][m] for n, w in enumerate(kept))
                sin = sum(math.sin(p * w) * sin_mix[h // 2][n][m] for n, w in enumerate(kept))
                x1, x2 = x[0, h, p, m].item(), x[0, h, p, m + 8].item()
                expected[0, h, p, m], expected[0, h, p, m + 8] = x1 * cos - x2 * sin, x2 * cos + x1 * sin
    close(encoding.rotation(Positions.sequence(9)).q(x), expected, of=torch.float32, times=4)


def test_pairs_past_the_outputs_are_left_alone_and_never_doubled() -> None:
    x = normal(1, 2, 9, 16)
    out = FoPE(kv_heads=2, head_dim=16, trained_length=100).rotation(Positions.sequence(9)).q(x)
    for half in (slice(3, 8), slice(11, 16)):
        assert torch.equal(out[..., half], x[..., half])


@pytest.mark.parametrize(("trained_length", "kept"), [(7, 1), (62, 4), (63, 5), (512, 8), (10**6, 16)])
def test_frequencies_that_come_full_circle_within_the_trained_length_are_kept(trained_length: int, kept: int) -> None:
    # 32 dims: theta_4 is 0.1, which comes full circle after 62.8 positions.
    encoding = FoPE(kv_heads=1, head_dim=32, trained_length=trained_length)
    assert len(encoding.frequencies) == kept
    assert min(encoding.frequencies) * trained_length >= 2 * math.pi
    assert encoding.outputs == min(kept, 8)


def test_with_identities_it_is_rope_whose_low_frequencies_are_zero(close: Close) -> None:
    encoding = plain(FoPE(kv_heads=1, head_dim=16, trained_length=100, outputs=3))
    x, positions = normal(1, 2, 20, 16), Positions.sequence(20)
    rope = lw.Rotary(16).rotation(positions).q(x)
    turned = [0, 1, 2, 8, 9, 10]
    out = encoding.rotation(positions).q(x)
    close(out[..., turned], rope[..., turned])
    close(out.norm(dim=-1), x.norm(dim=-1))


def test_mixtures_start_as_the_identity_plus_xavier_noise_of_the_gain() -> None:
    torch.manual_seed(0)
    encoding = FoPE(kv_heads=16, head_dim=128, trained_length=10**5, gain=0.4)
    for mix in (encoding.cos_mix, encoding.sin_mix):
        kept, outputs = mix.shape[1:]
        assert outputs == 32
        assert kept > 32
        noise = mix - torch.eye(kept, outputs)
        assert noise.std().item() == pytest.approx(0.4 * math.sqrt(2 / (kept + outputs)), rel=0.02)
        assert abs(noise.mean().item()) < 0.002
    assert not torch.equal(encoding.cos_mix, encoding.sin_mix)
    assert torch.equal(FoPE(1, 16, 100, gain=0.0).cos_mix[0], torch.eye(3, 3))


def test_logits_know_where_they_are_and_norms_change() -> None:
    torch.manual_seed(0)
    encoding, x = FoPE(kv_heads=1, head_dim=16, trained_length=1000), normal(1, 1, 1, 16)

    def logit(i: int, j: int) -> float:
        rotation = encoding.rotation(Positions(torch.tensor([i]), torch.tensor([j])))
        return (rotation.q(x) * rotation.k(x)).sum().item()

    assert abs(logit(5, 3) - logit(25, 23)) > 0.1
    assert abs(logit(5, 5) - x.square().sum().item()) > 0.1


def test_mixtures_are_saved_and_trained_only_where_asked() -> None:
    fixed, learned = FoPE(2, 16, 100), FoPE(2, 16, 100, learned=True)
    assert set(fixed.state_dict()) == {"cos_mix", "sin_mix"}
    assert not any(part.requires_grad for part in fixed.parameters())
    rotation = learned.rotation(Positions.sequence(5))
    (rotation.q_cos.sum() + rotation.q_sin.sum()).backward()
    assert learned.cos_mix.grad is not None
    assert learned.sin_mix.grad is not None
    assert learned.sin_mix.grad.abs().sum() > 0


def test_padded_rows_are_the_rows_alone() -> None:
    encoding = FoPE(2, 16, 100)
    rows = encoding.rotation(Positions.padded(torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])))
    alone = encoding.rotation(Positions.sequence(4))
    assert rows.q_cos.shape == (2, 2, 4, 8)
    assert torch.equal(rows.q_cos[1], alone.q_cos[0])
    assert torch.equal(rows.q_sin[0, :, 2:], alone.q_sin[0, :, :2])


class Turned(nn.Module):
    """Queries turned by an encoding, as a module whose parameters can be put in."""

    def __init__(self, encoding: nn.Module) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, x: Tensor) -> Tensor:
        return self.encoding.rotation(Positions.sequence(6)).q(x)


def test_gradients_of_a_float64_module_are_exact() -> None:
    turned, x = Turned(FoPE(2, 8, 100, learned=True).double()), normal(1, 2, 6, 8).double()
    names = [name for name, _ in turned.named_parameters()]

    def of(*values: Tensor) -> Tensor:
        return torch.func.functional_call(turned, dict(zip(names, values, strict=True)), (x,))

    values = tuple(value.detach().clone().requires_grad_() for value in turned.parameters())
    assert of(*values).dtype == torch.float64
    assert torch.autograd.gradcheck(of, values, fast_mode=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kv_heads": 0}, "FoPE needs at least 1 key head, not 0"),
        ({"head_dim": 7}, "head_dim must be even, at least 4, not 7"),
        ({"trained_length": 6}, "trained_length 6 keeps no frequency"),
        ({"base": 0.0}, "base must be above 0 and gain at least 0, not 0.0 and 0.3"),
        ({"gain": -1.0}, "and -1.0"),
        ({"outputs": 4}, "outputs must be from 1 to the 3 frequencies that are kept, not 4"),
        ({"outputs": 0}, "not 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        FoPE(**{"kv_heads": 2, "head_dim": 16, "trained_length": 100} | settings)
