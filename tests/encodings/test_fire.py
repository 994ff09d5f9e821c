from __future__ import annotations

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import lengthwise as lw
from lengthwise import FIRE, Positions


def made(heads: int = 3, seed: int = 0, **settings: float) -> FIRE:
    torch.manual_seed(seed)
    return FIRE(heads, **settings)


def by_hand(encoding: FIRE, i: int, j: int, head: int) -> float:
    """The formula in Python's own floats, term by term."""
    c, multiplier = encoding.c.item(), encoding.multiplier.item()
    whole = math.log(abs(c * max(abs(multiplier * encoding.threshold), i)) + 1) + encoding.eps
    x = math.log(abs(c * (i - j)) + 1) / whole
    units = zip(
        encoding.hidden_weight.tolist(),
        encoding.hidden_bias.tolist(),
        encoding.head_weight[head].tolist(),
        strict=True,
    )
    return encoding.head_bias[head].item() + sum(out * max(weight * x + bias, 0.0) for weight, bias, out in units)


def test_the_input_has_the_values_of_the_formula_sheet() -> None:
    pairs = torch.tensor([(10, 3), (511, 0), (512, 0), (1000, 0), (1000, 900)])
    x = FIRE(1).unit(pairs[:, 0], pairs[:, 1])
    assert x.tolist() == pytest.approx([0.134163637, 0.999515169, 1, 1, 0.519573706], rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bias_is_the_formula_written_out(dtype: torch.dtype) -> None:
    encoding = made(threshold=6, hidden=5).to(dtype)
    with torch.no_grad():
        encoding.multiplier.fill_(-0.9)
        encoding.c.fill_(-0.3)
        bias = encoding.logit_bias(Positions.sequence(12)).dense()
    assert bias.dtype == dtype
    for h in range(3):
        for i in range(12):
            want = [by_hand(encoding, i, j, h) for j in range(i + 1)]
            assert bias[h, i, : i + 1].tolist() == pytest.approx(want, rel=1e-4, abs=1e-6)


def test_up_to_the_threshold_it_depends_on_distance_alone_and_beyond_it_does_not() -> None:
    bias = made(threshold=16).logit_bias(Positions.sequence(40)).dense().detach()
    for distance in range(16):
        values = bias.diagonal(-distance, 1, 2)  # entry n is row n + distance
        near = values[:, : 17 - distance]
        torch.testing.assert_close(near, near[:, :1].expand_as(near), rtol=1e-5, atol=1e-6)
        if distance:
            assert ((values[:, -1] - values[:, 0]).abs() > 1e-4).all()
    assert "translation_invariant" not in lw.claims(FIRE(1))


def test_the_diagonal_is_f_of_0_in_every_row() -> None:
    encoding = made()
    diagonal = encoding.logit_bias(Positions.sequence(30)).dense().diagonal(dim1=1, dim2=2)
    with torch.no_grad():
        at_zero = encoding.head_weight @ encoding.hidden_bias.relu() + encoding.head_bias
    torch.testing.assert_close(diagonal, at_zero[:, None].expand(3, 30))


def test_for_causal_attention_the_input_stays_in_the_unit_interval_and_grows_with_distance() -> None:
    for i in (0, 1, 511, 513, 100_000, 2**20):
        keys = torch.linspace(0, i, 200).long().unique()
        x = FIRE(1).unit(torch.tensor(i), keys)
        assert x.min() >= 0
        assert x.max() <= 1
        assert (x.diff() < 0).all()
        assert x[-1] == 0
    # Bounded, so the farthest of very many are near to each other: hundreds of distances within one digit in 10^4.
    far = FIRE(1).unit(torch.tensor(2**20), torch.tensor([0, 256]))
    assert 0 < far[0] - far[1] < 1e-4


@pytest.mark.parametrize("c", [0.0, 1e-30, -1e-30, 1e-8, 1e8])
def test_gradients_stay_finite_as_c_goes_to_0(c: float) -> None:
    encoding = made()
    with torch.no_grad():
        encoding.c.fill_(c)
    encoding.logit_bias(Positions.sequence(20)).dense().tril().square().sum().backward()
    for name, part in encoding.named_parameters():
        assert part.grad is not None, name
        assert part.grad.isfinite().all(), name


def test_all_parameters_have_the_gradient_of_the_formula_on_both_sides_of_the_threshold() -> None:
    encoding = made(2, hidden=4, threshold=5.5).double()
    names = [name for name, _ in encoding.named_parameters()]
    values = tuple(part.detach().clone().requires_grad_() for part in encoding.parameters())

    def bias(*parts: torch.Tensor) -> torch.Tensor:
        class Call(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inner = encoding

            def forward(self) -> torch.Tensor:
                return self.inner.logit_bias(Positions.sequence(9)).dense().tril()

        named = {f"inner.{name}": part for name, part in zip(names, parts, strict=True)}
        return torch.func.functional_call(Call(), named, ())

    assert torch.autograd.gradcheck(bias, values)
    moved = dict(zip(names, torch.autograd.grad(bias(*values).square().sum(), values), strict=True))
    assert all((grad != 0).any() for grad in moved.values())


def test_blocks_of_rows_are_the_rows_of_the_whole_and_a_step_is_the_last_row() -> None:
    encoding = made(threshold=8)
    whole = encoding.logit_bias(Positions.sequence(20))
    torch.testing.assert_close(whole.block(slice(5, 9), slice(None)), whole.dense()[:, 5:9])
    step = encoding.logit_bias(Positions.step(17, 3)).dense()
    torch.testing.assert_close(step, whole.dense()[:, 17:])


def test_the_network_is_drawn_like_linear_layers() -> None:
    encoding = made(4000, hidden=25)
    for part, most in (
        (encoding.hidden_weight, 1.0),
        (encoding.hidden_bias, 1.0),
        (encoding.head_weight, 0.2),
        (encoding.head_bias, 0.2),
    ):
        assert part.abs().max() <= most
    assert encoding.head_weight.std().item() == pytest.approx(0.2 / 3**0.5, rel=0.02)  # uniform in (-0.2, 0.2)
    assert encoding.c.item() == pytest.approx(0.1)
    assert encoding.multiplier.item() == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_neither_a_module_in_low_precision_nor_autocast_makes_the_bias_narrower(dtype: torch.dtype) -> None:
    encoding = made().to(dtype)
    plain = encoding.logit_bias(Positions.sequence(9)).dense()
    wide = made()
    wide.load_state_dict({name: part.float() for name, part in encoding.state_dict().items()})
    with torch.autocast("cpu", torch.bfloat16):
        cast = encoding.logit_bias(Positions.sequence(9)).dense()
    assert cast.dtype == torch.float32
    assert torch.equal(plain, cast)
    assert torch.equal(plain, wide.logit_bias(Positions.sequence(9)).dense())


def test_attention_that_sees_later_keys_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="FIRE is made for causal attention"):
        lw.prepare(FIRE(2), Positions.sequence(4, causal=False))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "FIRE needs at least 1 head and 1 hidden unit, not 0 and 32"),
        ({"heads": 1, "hidden": 0}, "FIRE needs at least 1 head and 1 hidden unit, not 1 and 0"),
        ({"heads": 1, "threshold": 0}, "threshold, init_c and eps must be above 0, not 0, 0.1 and 1e-06"),
        ({"heads": 1, "init_c": math.nan}, "threshold, init_c and eps must be above 0, not 512.0, nan and 1e-06"),
        ({"heads": 1, "eps": 0.0}, "threshold, init_c and eps must be above 0, not 512.0, 0.1 and 0.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        FIRE(**settings)


@pytest.mark.parametrize("weight", [1.0, -1.0])
def test_many_pairs_at_once_have_the_values_and_gradients_of_few_at_a_time(weight: float) -> None:
    encoding = FIRE(3)
    with torch.no_grad():
        encoding.hidden_weight[:3] = weight  # always on, always off, and a bend at 0 for either sign
        encoding.hidden_bias[:3] = torch.tensor([2.0, -2.0, 0.0])
    q, k = torch.arange(700, 900).unsqueeze(1), torch.arange(950)  # some keys ahead
    g = torch.randn(3, 200, 950, generator=torch.Generator().manual_seed(0))
    many = encoding.of_pair(q, k)
    few = torch.cat([encoding.of_pair(row[None], k) for row in q], dim=1)
    torch.testing.assert_close(many, few)
    for got, wanted in zip(
        torch.autograd.grad(many, [*encoding.parameters()], g),
        torch.autograd.grad(few, [*encoding.parameters()], g),
        strict=True,
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)


def test_a_batch_of_networks_runs_under_vmap() -> None:
    encodings = [FIRE(2) for _ in range(3)]
    parameters, buffers = torch.func.stack_module_state(encodings)
    q, k = torch.arange(200).unsqueeze(1), torch.arange(200)

    def one(parameters: dict[str, torch.Tensor], buffers: dict[str, torch.Tensor]) -> torch.Tensor:
        named = {f"fire.{name}": value for name, value in (parameters | buffers).items()}
        return torch.func.functional_call(Called(encodings[0]), named, (q, k))

    got = torch.vmap(one)(parameters, buffers)
    torch.testing.assert_close(got, torch.stack([encoding.of_pair(q, k) for encoding in encodings]))

    def loss(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        return one(parameters, buffers).square().sum()

    grads = torch.vmap(torch.func.grad(loss))(parameters)
    for number, encoding in enumerate(encodings):
        wanted = torch.autograd.grad(encoding.of_pair(q, k).square().sum(), encoding.c)[0]
        torch.testing.assert_close(grads["c"][number], wanted, rtol=1e-3, atol=1e-3)


def test_many_pairs_of_no_real_numbers_have_a_shape() -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert FIRE(2).of_pair(torch.arange(200).unsqueeze(1), torch.arange(200)).shape == (2, 200, 200)


class Called(torch.nn.Module):
    def __init__(self, fire: FIRE) -> None:
        super().__init__()
        self.fire = fire

    def forward(self, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return self.fire.of_pair(q, k)
