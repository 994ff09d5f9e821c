from __future__ import annotations

import math

import pytest
import torch
from transformers import Swinv2Config
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention

import lengthwise as lw
from lengthwise import LogCPB, Positions


def grid(rows: int, columns: int) -> torch.Tensor:
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))[None]


def both(place: torch.Tensor, **settings: object) -> Positions:
    return Positions(place, place, causal=False, **settings)


def small(heads: int = 2, window: tuple[int, int] = (3, 4), seed: int = 0) -> LogCPB:
    torch.manual_seed(seed)
    encoding = LogCPB(heads, window, hidden=16)
    torch.nn.init.normal_(encoding.head_weight)
    return encoding


def test_coordinates_are_those_of_the_formula_sheet() -> None:
    eight = [0, 0.366511891, 0.572069011, 0.715613796, 0.826015766, 0.915744643, 0.99133493, 1.05664167]
    offset = torch.stack((torch.arange(8.0), -torch.arange(8.0)), -1)
    got = LogCPB(1, (8, 8)).coordinates(offset)
    assert got[:, 0].tolist() == pytest.approx(eight, rel=1e-6)
    assert torch.equal(got[:, 1], -got[:, 0])
    larger = LogCPB(1, (16, 16), pretrained_window=(8, 8)).coordinates(torch.tensor([[15.0, 7.0]]))
    assert larger[0].tolist() == pytest.approx([1.39377659, 1.05664167], rel=1e-6)


@pytest.mark.parametrize(
    ("window", "pretrained"), [((8, 8), None), ((4, 6), None), ((6, 4), (3, 5)), ((16, 16), (8, 8)), ((2, 2), None)]
)
def test_the_attention_of_swin_v2_with_queries_of_0_is_the_softmax_of_the_bias(
    window: tuple[int, int], pretrained: tuple[int, int] | None
) -> None:
    torch.manual_seed(0)
    config = Swinv2Config(attention_probs_dropout_prob=0.0)
    theirs = Swinv2SelfAttention(config, 12, 3, list(window), list(pretrained or (0, 0)))
    mlp = theirs.continuous_position_bias_mlp
    with torch.no_grad():
        theirs.query.weight.zero_()  # the cosine of nothing is 0: the bias alone is left
        theirs.query.bias.zero_()
        mlp[2].weight.normal_(std=0.2)
    ours = LogCPB(3, window, pretrained)
    ours.load_state_dict({"hidden_weight": mlp[0].weight, "hidden_bias": mlp[0].bias, "head_weight": mlp[2].weight})
    with torch.no_grad():
        place = grid(*window)
        weights = theirs(torch.randn(1, place.shape[1], 12), output_attentions=True)[1]
        bias = ours.logit_bias(both(place)).dense()
        table = 16 * mlp(theirs.relative_coords_table).sigmoid()  # row and column offsets from the lowest on
    torch.testing.assert_close(bias.softmax(-1), weights, rtol=1e-4, atol=1e-6)
    corner = bias[0, :, 0].flip(-1).unflatten(-1, window)  # from the first patch to the last ... first
    torch.testing.assert_close(corner, table[0, : window[0], : window[1]].permute(2, 0, 1), rtol=1e-5, atol=1e-5)


def test_moving_the_window_changes_nothing_and_any_offset_has_a_value_in_its_range() -> None:
    encoding = small()
    here = encoding.logit_bias(both(grid(3, 4))).dense()
    assert torch.equal(encoding.logit_bias(both(grid(3, 4) + torch.tensor([2**20, -5]))).dense(), here)
    offsets = torch.tensor([[0.0, 0.0], [0.5, -0.25], [100.0, 3.0], [-(2.0**20), 2.0**20]])
    values = encoding.of_offset(offsets)
    assert values.shape == (2, 4)
    assert values.isfinite().all()
    assert ((values >= 0) & (values <= 16)).all()


def test_at_offset_0_the_network_sees_its_hidden_bias_only() -> None:
    encoding = small()
    want = 16 * torch.sigmoid(encoding.head_weight @ encoding.hidden_bias.relu())
    diagonal = encoding.logit_bias(both(grid(3, 4))).dense()[0].diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(diagonal, want[:, None].expand(2, 12))


@pytest.mark.parametrize("window", [(1, 4), (4, 1), (1, 1)])
def test_a_window_of_one_row_or_column_has_finite_values_and_gradients(window: tuple[int, int]) -> None:
    encoding = small(window=window)
    encoding.logit_bias(both(grid(*window))).dense().sum().backward()
    assert all(part.grad.isfinite().all() for part in encoding.parameters())
    column = encoding.coordinates(torch.tensor([[0.0, 3.0]]))[0, 1]
    assert column == pytest.approx(math.log2(1 + 8 * 3 / max(window[1] - 1, 1)) / 3, rel=1e-6)


def test_all_parameters_have_the_gradient_of_the_formula() -> None:
    encoding = small().double()
    place = grid(2, 3)
    names = [name for name, _ in encoding.named_parameters()]
    values = tuple(part.detach().clone().requires_grad_() for part in encoding.parameters())

    def bias(hidden_weight: torch.Tensor, hidden_bias: torch.Tensor, head_weight: torch.Tensor) -> torch.Tensor:
        unit = 8 / torch.tensor([2.0, 3.0], dtype=torch.float64)
        offset = (place[0][:, None] - place[0][None]).double()
        u = offset.sign() * (1 + (offset * unit).abs()).log2() / 3
        return 16 / (1 + torch.exp(-((u @ hidden_weight.T + hidden_bias).clamp(min=0) @ head_weight.T)))

    assert names == ["hidden_weight", "hidden_bias", "head_weight"]
    want = torch.autograd.grad(bias(*values).square().sum(), values)
    encoding.logit_bias(both(place)).dense().square().sum().backward()
    for part, grad in zip(encoding.parameters(), want, strict=True):
        torch.testing.assert_close(part.grad, grad)


def test_neither_a_module_in_low_precision_nor_autocast_makes_the_bias_narrower() -> None:
    encoding = small().bfloat16()
    plain = encoding.logit_bias(both(grid(3, 4))).dense()
    with torch.autocast("cpu", torch.bfloat16):
        cast = encoding.logit_bias(both(grid(3, 4))).dense()
    assert cast.dtype == torch.float32
    assert torch.equal(plain, cast)


def test_the_network_is_drawn_like_linear_layers() -> None:
    torch.manual_seed(0)
    encoding = LogCPB(64)
    assert encoding.hidden_weight.abs().max() <= 2**-0.5
    assert encoding.hidden_weight.std().item() == pytest.approx(6**-0.5, rel=0.05)
    assert encoding.head_weight.std().item() == pytest.approx((3 * 512) ** -0.5, rel=0.02)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "LogCPB needs at least 1 head and 1 hidden unit, not 0 and 512"),
        ({"heads": 1, "hidden": 0}, "LogCPB needs at least 1 head and 1 hidden unit, not 1 and 0"),
        ({"heads": 1, "window": (8, 8, 8)}, r"window must be \(rows, columns\), both at least 1, not \(8, 8, 8\)"),
        (
            {"heads": 1, "pretrained_window": (0, 0)},
            r"pretrained_window must be \(rows, columns\), both at least 1, not \(0, 0\)",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        LogCPB(**settings)


def test_positions_of_one_axis_are_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="positions of 2 axes are needed here"):
        LogCPB(1).logit_bias(Positions.sequence(4)).dense()
