from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import Positions, Shaw

Close = Callable[..., None]


def tensors(heads: int = 3, kv_heads: int = 3, length: int = 6, head_dim: int = 4) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, heads, length, head_dim, generator=generator, dtype=torch.float64)
    k, v = torch.randn(2, 2, kv_heads, length, head_dim, generator=generator, dtype=torch.float64)
    return q, k, v


def made(max_distance: int = 2, values: bool = True) -> Shaw:
    torch.manual_seed(1)
    return Shaw(4, max_distance, values=values).double()


def row(encoding: Shaw, i: int, j: int) -> int:
    return min(max(j - i, -encoding.max_distance), encoding.max_distance) + encoding.max_distance


@pytest.mark.parametrize("max_distance", [1, 2, 9])
def test_the_output_is_that_of_the_papers_equations(max_distance: int, close: Close) -> None:
    encoding, (q, k, v) = made(max_distance), tensors()
    positions = Positions.sequence(6, causal=False)
    expected = torch.empty_like(q)
    for b in range(2):
        for h in range(3):
            for i in range(6):
                rows = [row(encoding, i, j) for j in range(6)]
                e = torch.stack([q[b, h, i] @ (k[b, h, j] + encoding.key_table[rows[j]]) / 2 for j in range(6)])
                parts = [v[b, h, j] + encoding.value_table[rows[j]] for j in range(6)]
                expected[b, h, i] = sum(w * part for w, part in zip(e.softmax(0), parts, strict=True))
    weights = lw.attention_weights(q, k, encoding, positions)
    close(lw.attention(q, k, v, encoding, positions) + encoding.value_term(weights, positions), expected)


def test_all_keys_beyond_the_largest_distance_share_a_vector() -> None:
    encoding, (q, _, _) = made(2), tensors()
    logits = encoding.attention_logits(q, torch.zeros_like(q), Positions.sequence(6), 0.5)
    assert torch.equal(logits[..., 5, :3], logits[..., 5, 3:4].expand(2, 3, 3))
    assert (logits[..., 5, 3] != logits[..., 5, 4]).all()


def test_distances_of_mapped_positions_count_by_their_whole_part() -> None:
    encoding, (q, k, _) = made(), tensors()
    whole = torch.tensor([0, 0, 1, 1, 2, 2])
    parts = torch.arange(6) / 2
    logits = encoding.attention_logits(q, k, Positions(parts, parts), 0.5)
    expected = encoding.attention_logits(q, k, Positions(whole, whole), 0.5)
    assert torch.equal(logits[..., ::2, ::2], expected[..., ::2, ::2])
    zero = encoding.attention_logits(q, k, Positions(whole, whole.clone()), 0.5)[..., 0, 1]
    assert torch.equal(logits[..., 0, 1], zero)  # half a step ahead is none


def test_grouped_keys_are_the_keys_of_each_query_head_written_out() -> None:
    encoding, (q, k, _) = made(), tensors(heads=4, kv_heads=2)
    positions = Positions.padded(torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6]))
    grouped = encoding.attention_logits(q, k, positions, 0.5)
    assert torch.equal(grouped, encoding.attention_logits(q, k.repeat_interleave(2, 1), positions, 0.5))


def test_the_value_term_takes_its_gradients_to_weights_and_table() -> None:
    encoding = made()
    positions = Positions.sequence(5)
    weights = torch.rand(1, 2, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def term(weights: Tensor, table: Tensor) -> Tensor:
        return torch.func.functional_call(Term(encoding), {"encoding.value_table": table}, (weights, positions))

    table = encoding.value_table.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(term, (weights.requires_grad_(), table))


class Term(torch.nn.Module):
    def __init__(self, encoding: Shaw) -> None:
        super().__init__()
        self.encoding = encoding

    def forward(self, weights: Tensor, positions: Positions) -> Tensor:
        return self.encoding.value_term(weights, positions)


def test_no_tensor_has_a_vector_for_each_pair() -> None:
    q = k = torch.randn(1, 1, 64, 32)
    encoding = Shaw(32, 4)
    sizes: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
        encoding.attention_logits(q, k, Positions.sequence(64), 1.0).sum().backward()
    assert max(sizes) <= 64 * 64


@pytest.mark.parametrize("settings", [{"head_dim": 0}, {"head_dim": 4, "max_distance": 0}])
def test_sizes_below_one_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(lw.InvalidArgument, match="Shaw needs a head_dim and a max_distance of at least 1"):
        Shaw(**settings)


def test_a_value_term_without_a_table_is_refused() -> None:
    encoding = made(values=False)
    with pytest.raises(lw.InvalidArgument, match="this Shaw has no vectors on values: make it with values=True"):
        encoding.value_term(torch.ones(1, 1, 2, 2), Positions.sequence(2))


def test_first_values_fill_glorots_bound() -> None:
    torch.manual_seed(0)
    table = Shaw(64, 16).key_table
    bound = (6 / (33 + 64)) ** 0.5
    assert 0.98 * bound < table.abs().max().item() <= bound
