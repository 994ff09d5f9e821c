from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lengthwise import DenseBias, DistanceBias, InvalidArgument, LowRankBias, PairBias, Positions, SumBias

HEADS = 3
SLOPES = torch.tensor([1.0, 2.0, 4.0])


def of_distance(distance: Tensor) -> Tensor:
    return SLOPES.view(-1, *[1] * distance.dim()) * distance.float()


def of_pair(q: Tensor, k: Tensor) -> Tensor:
    return SLOPES.view(-1, *[1] * q.dim()) * (q * 10 + k).float()


BATCHED = Positions.padded(torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]]), 2)


def test_a_distance_bias_is_its_function_at_every_pair() -> None:
    flat = DistanceBias(of_distance, Positions.step(2, 3)).dense()
    assert flat.shape == (HEADS, 3, 5)
    for h in range(HEADS):
        assert flat[h].tolist() == [[float(SLOPES[h]) * (i - j) for j in range(5)] for i in (2, 3, 4)]
    batched = DistanceBias(of_distance, BATCHED).dense()
    assert batched.shape == (2, HEADS, 2, 4)
    assert batched[0, 2].tolist() == [[4.0 * (i - j) for j in (0, 0, 1, 2)] for i in (1, 2)]


def test_the_vector_of_a_distance_bias_holds_its_value_at_every_distance() -> None:
    bias = DistanceBias(of_distance, Positions.step(2, 2))
    vector, dense = bias.vector(), bias.dense()
    assert vector.shape == (HEADS, 7)
    for i in range(2):
        for j in range(4):
            assert torch.equal(dense[:, i, j], vector[:, (i + 2 - j) + 3])


@pytest.mark.parametrize(
    "positions", [Positions.cross(2, 3), Positions.sequence(3).replace(window=1), Positions.sequence(3).new()]
)
def test_a_vector_needs_the_promise_of_aligned_positions(positions: Positions) -> None:
    with pytest.raises(InvalidArgument, match="exists for aligned positions only: use dense"):
        DistanceBias(of_distance, positions).vector()


@pytest.mark.parametrize("positions", [Positions.step(2, 3), BATCHED, Positions.cross(3, 2)])
def test_rows_of_a_pair_bias_are_rows_of_the_whole(positions: Positions) -> None:
    bias = PairBias(of_pair, positions)
    dense = bias.dense()
    q = positions.q.expand(positions.batch, -1)
    k = positions.k.expand(positions.batch, -1)
    full = dense.expand(positions.batch, *dense.shape[-3:])
    for row in range(positions.batch):
        for i in range(positions.q_length):
            for j in range(positions.k_length):
                assert torch.equal(full[row, :, i, j], SLOPES * float(q[row, i] * 10 + k[row, j]))
    for start, stop in ((0, 1), (1, 2), (0, 0)):
        assert torch.equal(bias.block(slice(start, stop), slice(None)), dense[..., start:stop, :])


def test_a_pair_bias_reads_a_single_axis_written_as_a_dimension() -> None:
    deep = Positions(torch.arange(3).view(1, 3, 1), torch.arange(3).view(1, 3, 1))
    flat = Positions(torch.arange(3)[None], torch.arange(3)[None])
    assert torch.equal(PairBias(of_pair, deep).dense(), PairBias(of_pair, flat).dense())
    assert torch.equal(
        PairBias(of_pair, deep).block(slice(1, 3), slice(None)), PairBias(of_pair, flat).block(slice(1, 3), slice(None))
    )
    with pytest.raises(InvalidArgument, match="one axis"):
        PairBias(of_pair, Positions(torch.zeros(1, 3, 2).long(), torch.zeros(1, 3, 2).long())).dense()


@pytest.mark.parametrize("lead", [(), (2,)])
def test_a_low_rank_bias_is_the_product_of_its_features_plus_its_row_constant(lead: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(*lead, HEADS, 4, 2, generator=generator)
    k = torch.randn(*lead, HEADS, 5, 2, generator=generator)
    row = torch.randn(*lead, HEADS, 4, generator=generator)
    dense = LowRankBias(q, k, row).dense()
    expected = torch.einsum("...hqr,...hkr->...hqk", q.double(), k.double()) + row.double().unsqueeze(-1)
    torch.testing.assert_close(dense.double(), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("shape", [(3,), (3, 4), (1, 1, 3, 4, 5)])
def test_a_dense_bias_of_another_rank_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(
        InvalidArgument, match=r"a dense bias is \[heads, q, k\] or \[batch, heads, q, k\], not of shape"
    ):
        DenseBias(torch.zeros(shape))


def test_biases_add_and_keep_their_parts() -> None:
    positions = BATCHED
    distance, pair = DistanceBias(of_distance, positions), PairBias(of_pair, positions)
    dense = DenseBias(torch.ones(HEADS, 2, 4))
    total = (distance + pair) + (dense + distance)
    assert isinstance(total, SumBias)
    assert total.terms == (distance, pair, dense, distance)
    expected = 2 * distance.dense() + pair.dense() + 1
    assert torch.equal(total.dense(), expected)
    assert torch.equal((dense + distance).dense(), (distance + dense).dense())


MAKERS: dict[str, Callable[[Tensor], Tensor]] = {
    "distance": lambda x: DistanceBias(lambda d: x * d.double().view(1, *d.shape), Positions.sequence(3)).dense(),
    "vector": lambda x: DistanceBias(lambda d: x * d.double().view(1, *d.shape), Positions.sequence(3)).vector(),
    "pair": lambda x: PairBias(lambda q, k: x * (q - k).double()[None], Positions.sequence(3)).dense(),
    "low rank": lambda x: LowRankBias(x.view(1, 1, 1), x.view(1, 1, 1), x.view(1, 1)).dense(),
    "sum": lambda x: (DenseBias(x.view(1, 1, 1)) + DenseBias(x.view(1, 1, 1) ** 2)).dense(),
}


@pytest.mark.parametrize("name", MAKERS)
def test_every_structure_is_differentiable(name: str) -> None:
    assert torch.autograd.gradcheck(MAKERS[name], torch.tensor(0.7, dtype=torch.float64, requires_grad=True))


def test_a_bias_of_no_queries_and_keys_is_empty() -> None:
    bias = DistanceBias(lambda distance: distance.float().expand(HEADS, *distance.shape), Positions.sequence(0))
    assert bias.dense().shape == (HEADS, 0, 0)
    assert bias.vector().shape == (HEADS, 0)


def test_a_function_of_distance_that_forgets_its_heads_is_told_what_it_gave() -> None:
    bias = DistanceBias(lambda distance: -distance.float(), Positions.sequence(5))
    for use in (bias.dense, bias.vector, lambda: bias.block(slice(0, 2), slice(0, 3))):
        with pytest.raises(InvalidArgument, match=r"of_distance gave \[.*\] for distances of \[.*\]: it gives \[heads"):
            use()
