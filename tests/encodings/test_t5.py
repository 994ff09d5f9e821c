from __future__ import annotations

import pytest
import torch
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

import lengthwise as lw
from lengthwise import Positions, T5Bias

FIRST_CAUSAL = [*range(17), 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
FIRST_PAST = [*range(9), 12, 16, 23, 32, 46, 64, 91]

SETTINGS = [(32, 128), (64, 128), (32, 256), (32, 512), (16, 128), (32, 1024), (8, 20), (4, 3), (12, 100), (320, 800)]


def first_of_each(bucket: torch.Tensor) -> list[int]:
    return [int((bucket == number).nonzero()[0]) for number in bucket.unique()]


def test_buckets_begin_at_the_distances_of_the_formula_sheet() -> None:
    distance = torch.arange(5000)
    assert first_of_each(T5Bias(1).bucket(distance)) == FIRST_CAUSAL
    assert T5Bias(1).bucket(-distance).max() == 0
    both = T5Bias(1, bidirectional=True)
    assert first_of_each(both.bucket(distance)) == FIRST_PAST
    ahead = both.bucket(-distance)
    assert torch.equal(ahead[1:], both.bucket(distance)[1:] + 16)
    assert 16 not in ahead


@pytest.mark.parametrize(("buckets", "max_distance"), SETTINGS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_buckets_are_those_of_transformers_up_to_4096(buckets: int, max_distance: int, bidirectional: bool) -> None:
    distance = torch.arange(-4096, 4097)
    theirs = T5Attention._relative_position_bucket(
        -distance, bidirectional=bidirectional, num_buckets=buckets, max_distance=max_distance
    )
    ours = T5Bias(1, buckets, max_distance, bidirectional).bucket(distance)
    assert torch.equal(ours, theirs.long())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_distances_of_mapped_positions_fall_in_the_bucket_of_their_whole_part(dtype: torch.dtype) -> None:
    whole = torch.arange(0, 300)
    for encoding in (T5Bias(2), T5Bias(2, bidirectional=True)):
        assert torch.equal(encoding.bucket(whole.to(dtype)), encoding.bucket(whole))
        assert torch.equal(encoding.bucket(whole.to(dtype) + 0.5), encoding.bucket(whole))
        assert torch.equal(encoding.bucket(-whole.to(dtype)), encoding.bucket(-whole))


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(300, 300), (1, 7), (3, 200)])
def test_the_bias_is_that_of_transformers(decoder: bool, queries: int, keys: int) -> None:
    config = T5Config(d_model=32, d_kv=8, num_heads=4, is_decoder=decoder)
    theirs = T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    ours = T5Bias(4, bidirectional=not decoder)
    ours.load_state_dict({"table": theirs.relative_attention_bias.weight})
    with torch.no_grad():
        expected = theirs.compute_bias(queries, keys, past_seen_tokens=keys - queries)[0]
        bias = ours.logit_bias(Positions.step(keys - queries, queries)).dense()
    assert torch.equal(bias, expected)


def test_the_gradient_of_the_table_is_the_sum_over_each_bucket() -> None:
    encoding = T5Bias(2, buckets=8, max_distance=20).double()
    positions = Positions.sequence(30)
    upstream = torch.randn(2, 30, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (encoding.logit_bias(positions).dense() * upstream).sum().backward()
    expected = torch.zeros(8, 2, dtype=torch.float64)
    bucket = encoding.bucket(positions.distance())
    for i in range(30):
        for j in range(30):
            expected[bucket[i, j]] += upstream[:, i, j]
    torch.testing.assert_close(encoding.table.grad, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_table_in_low_precision_still_gives_a_float32_bias(dtype: torch.dtype) -> None:
    encoding = T5Bias(2).to(dtype)
    dense = encoding.logit_bias(Positions.sequence(5)).dense()
    assert dense.dtype == torch.float32
    assert torch.equal(dense[:, 4, 2], encoding.table[2].float())
    assert T5Bias(2).double().logit_bias(Positions.sequence(5)).dense().dtype == torch.float64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 0}, "T5Bias needs at least 1 head, not 0"),
        ({"heads": 1, "buckets": 1}, "T5Bias needs at least 2 buckets, not 1"),
        ({"heads": 1, "buckets": 7, "bidirectional": True}, "needs an even number of at least 4 buckets, not 7"),
        ({"heads": 1, "buckets": 2, "bidirectional": True}, "needs an even number of at least 4 buckets, not 2"),
        ({"heads": 1, "max_distance": 16}, "max_distance 16 must be above 16, the distances that have a bucket of th"),
        ({"heads": 1, "init_std": -1.0}, "init_std must be at least 0, not -1.0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, int], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        T5Bias(**settings)


def test_the_table_is_drawn_with_the_standard_deviation_asked_for() -> None:
    torch.manual_seed(0)
    assert T5Bias(64, init_std=0.5).table.std().item() == pytest.approx(0.5, rel=0.1)
