from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import FoX, Positions

Close = Callable[..., None]


def of_gates(logits: Tensor) -> tuple[FoX, Tensor]:
    """An encoding whose gate logits are the hidden states themselves, `[batch, length, heads]`."""
    heads = logits.shape[-1]
    encoding = FoX(heads, heads).to(logits.dtype)
    with torch.no_grad():
        encoding.gate_weight.copy_(torch.eye(heads))
        encoding.gate_bias.zero_()
    return encoding, logits


@torch.no_grad()
def by_loops(encoding: FoX, hidden: Tensor, real: Tensor) -> Tensor:
    """The sum of ln sigmoid(w · x_t + b) over t from j + 1 to i, for one row of real and padding tokens."""
    length = hidden.shape[0]
    bias = torch.zeros(encoding.heads, length, length, dtype=torch.float64)
    for head in range(encoding.heads):
        for i in range(length):
            for j in range(i + 1):
                for t in range(j + 1, i + 1):
                    if real[t]:
                        z = float(encoding.gate_weight[head] @ hidden[t] + encoding.gate_bias[head])
                        bias[head, i, j] += -math.log1p(math.exp(-z))
    return bias


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_the_bias_equals_the_numbers_of_the_formula_sheet() -> None:
    encoding, hidden = of_gates(torch.tensor([[[0.0], [1.0], [-1.0], [2.0]]]))
    bias, _ = encoding.read(hidden, Positions.sequence(4))
    expected = torch.tensor([-1.75345139, -1.4401897, -0.126928011, 0.0])
    torch.testing.assert_close(bias.dense()[0, 0, 3].detach(), expected, rtol=2e-7, atol=1e-9)


def test_the_bias_is_the_sum_of_log_gates_between_key_and_query(close: Close) -> None:
    torch.manual_seed(0)
    encoding, hidden = FoX(5, 3).double(), random(1, 9, 5)
    bias, _ = encoding.read(hidden, Positions.sequence(9))
    close(bias.dense()[0].tril(), by_loops(encoding, hidden[0], torch.ones(9)).tril())


def test_padding_forgets_nothing_whatever_it_holds(close: Close) -> None:
    torch.manual_seed(0)
    encoding, hidden = FoX(5, 3).double(), random(1, 8, 5)
    mask = torch.tensor([[0, 0, 1, 1, 0, 1, 1, 1]])
    hidden = hidden.masked_fill(mask[..., None] == 0, 1e6)
    bias, sums = encoding.read(hidden, Positions.padded(mask))
    seen = Positions.padded(mask).visible()[0]
    expected = by_loops(encoding, hidden[0], mask[0])
    close(bias.dense()[0][:, seen], expected[:, seen])
    assert sums[0, :, :2].eq(0).all()


def test_gates_that_are_the_same_for_all_tokens_give_alibi(close: Close) -> None:
    alibi = lw.ALiBi(heads=4)
    gate = torch.tensor([-math.log(math.expm1(slope)) for slope in alibi.slopes], dtype=torch.float64)
    encoding, hidden = of_gates(gate.expand(1, 30, 4))  # ln sigmoid(gate) = -slope
    bias, _ = encoding.read(hidden, Positions.sequence(30))
    close(bias.dense()[0].tril(), alibi.logit_bias(Positions.sequence(30)).dense().double().tril())


def test_the_first_biases_make_heads_forget_over_t_min_to_t_max_tokens() -> None:
    tokens = -1 / torch.nn.functional.logsigmoid(FoX(8, 5, t_min=2.0, t_max=512.0).gate_bias.double())
    torch.testing.assert_close(tokens, torch.tensor([2.0, 8.0, 32.0, 128.0, 512.0]).double(), rtol=1e-4, atol=0)
    assert FoX(8, 5).gate_bias.eq(0).all()


def test_neighbours_far_along_a_sequence_keep_their_digits() -> None:
    encoding, hidden = of_gates(torch.full((1, 20_000, 1), -4.0))
    _, past = encoding.read(hidden, Positions.sequence(20_000))
    bias, _ = encoding.read(hidden[:, :1], Positions.step(20_000), past)  # the sum is some -80000
    near = bias.dense()[0, 0, 0, -3:].detach()
    one = math.log1p(math.exp(4.0))
    torch.testing.assert_close(near, torch.tensor([-2 * one, -one, 0.0]), rtol=1e-6, atol=0)
    assert bias.dense().dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gates_of_narrow_modules_are_summed_wide(dtype: torch.dtype) -> None:
    encoding = FoX(6, 2).to(dtype)
    hidden = random(1, 7, 6).to(dtype)
    encoding.load_state_dict({"gate_weight": torch.ones(2, 6) / 8, "gate_bias": torch.ones(2)})
    wide = FoX(6, 2).double()
    wide.load_state_dict(encoding.state_dict())
    expected, _ = wide.read(hidden.double(), Positions.sequence(7))
    with torch.autocast("cpu", torch.bfloat16):
        bias, _ = encoding.read(hidden, Positions.sequence(7))
        dense = bias.dense()
    torch.testing.assert_close(dense.double(), expected.dense(), rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_the_function() -> None:
    torch.manual_seed(0)
    encoding, hidden = FoX(3, 2).double(), random(1, 4, 3).requires_grad_()

    def value(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        values = {"gate_weight": weight, "gate_bias": bias}
        out, _ = torch.func.functional_call(_Reads(encoding), {f"one.{k}": v for k, v in values.items()}, (x,))
        return out.dense().tril()

    values = [part.detach().clone().requires_grad_() for part in encoding.parameters()]
    assert torch.autograd.gradcheck(value, (hidden, *values))


class _Reads(torch.nn.Module):
    def __init__(self, one: FoX) -> None:
        super().__init__()
        self.one = one

    def forward(self, x: Tensor) -> object:
        return self.one.read(x, Positions.sequence(x.shape[1]))


def test_a_state_that_does_not_fit_the_keys_is_refused() -> None:
    encoding, hidden = FoX(4, 2), torch.zeros(1, 1, 4)
    with pytest.raises(lw.InvalidArgument, match="the state is of 0 earlier tokens, and these positions have 3 keys"):
        encoding.read(hidden, Positions.step(3))
    _, state = encoding.read(hidden, Positions.sequence(1))
    with pytest.raises(lw.InvalidArgument, match="the state is of 1 earlier tokens, and these positions have 3 keys"):
        encoding.read(hidden, Positions.step(3), state)
    with pytest.raises(lw.InvalidArgument, match="do not match positions"):
        encoding.read(hidden, Positions.sequence(3))


def test_bidirectional_positions_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="made for causal attention"):
        lw.prepare(FoX(4, 2), Positions.sequence(3, causal=False))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 0, "heads": 1}, "FoX needs a dim and heads of at least 1, not 0 and 1"),
        ({"dim": 4, "heads": 1, "t_min": 2.0}, "give t_min and t_max together"),
        ({"dim": 4, "heads": 1, "t_min": 4.0, "t_max": 2.0}, "t_min must be above 0 and at most t_max"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        FoX(**settings)
