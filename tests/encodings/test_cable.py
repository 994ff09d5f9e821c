from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import CABLE, FoX, Positions

Close = Callable[..., None]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_the_bias_is_the_sum_of_softplus_between_key_and_query(close: Close) -> None:
    torch.manual_seed(0)
    encoding, hidden = CABLE(5, 3).double(), random(2, 8, 5)
    expected = torch.zeros(2, 3, 8, 8, dtype=torch.float64)
    for row in range(2):
        for head in range(3):
            for i in range(8):
                for j in range(i):
                    for t in range(j + 1, i + 1):
                        z = float(encoding.step_weight[head] @ hidden[row, t] + encoding.step_bias[head])
                        expected[row, head, i, j] -= math.log1p(math.exp(z))
    bias, _ = encoding.read(hidden, Positions.sequence(8))
    close(bias.dense().tril(), expected)


def test_it_is_forgetting_attention_with_the_sign_of_the_gate_turned_round(close: Close) -> None:
    torch.manual_seed(0)
    cable, fox, hidden = CABLE(5, 3).double(), FoX(5, 3).double(), random(1, 8, 5)
    fox.load_state_dict({"gate_weight": -cable.step_weight, "gate_bias": -cable.step_bias})
    close(cable.read(hidden, Positions.sequence(8))[0].dense(), fox.read(hidden, Positions.sequence(8))[0].dense())


def test_steps_that_are_the_same_for_all_tokens_give_alibi(close: Close) -> None:
    alibi, encoding = lw.ALiBi(heads=4), CABLE(2, 4).double()
    with torch.no_grad():
        encoding.step_weight.zero_()
        encoding.step_bias.copy_(torch.tensor([math.log(math.expm1(slope)) for slope in alibi.slopes]))
    bias, _ = encoding.read(random(1, 30, 2), Positions.sequence(30))
    expected = alibi.logit_bias(Positions.sequence(30)).dense().double()
    close(bias.dense()[0].tril(), expected.tril(), of=torch.float32)


def test_the_bias_never_rises_with_distance() -> None:
    torch.manual_seed(0)
    bias, _ = CABLE(5, 3).double().read(random(2, 40, 5), Positions.sequence(40))
    assert bias.dense()[:, :, -1].diff().ge(0).all()


def test_gradients_are_those_of_the_function() -> None:
    torch.manual_seed(0)
    encoding = CABLE(3, 2).double()

    def value(x: Tensor) -> Tensor:
        return encoding.read(x, Positions.sequence(4))[0].dense().tril()

    assert torch.autograd.gradcheck(value, random(1, 4, 3).requires_grad_())
    value(random(1, 4, 3)).sum().backward()
    upstream = torch.tensor([3.0, 4.0, 3.0]).double()  # pairs with token t = 1, 2, 3 between key and query
    z = (random(1, 4, 3)[0, 1:] @ encoding.step_weight.T + encoding.step_bias).detach()
    torch.testing.assert_close(encoding.step_bias.grad, -(z.sigmoid() * upstream[:, None]).sum(0))


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="CABLE needs a dim and heads of at least 1, not 4 and 0"):
        CABLE(4, 0)
