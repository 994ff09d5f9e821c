from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import Positions, TransformerXL

Close = Callable[..., None]
DIM, HEADS, HEAD_DIM = 12, 2, 4


def made(**settings: float) -> TransformerXL:
    torch.manual_seed(1)
    return TransformerXL(DIM, HEADS, HEAD_DIM, init_std=1.0, **settings).double()


def tensors(queries: int = 7, keys: int = 7, kv_heads: int = HEADS) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, HEADS, queries, HEAD_DIM, generator=generator, dtype=torch.float64)
    return q, torch.randn(2, kv_heads, keys, HEAD_DIM, generator=generator, dtype=torch.float64)


def four_terms(encoding: TransformerXL, q: Tensor, k: Tensor, distance: Tensor) -> Tensor:
    """Written from section 3.3, a vector for each pair; distance `[q, k]`."""
    r = torch.empty(*distance.shape, DIM, dtype=torch.float64)
    for m in range(DIM // 2):
        angle = distance.double() / math.pow(10000.0, 2 * m / DIM)
        r[..., m], r[..., DIM // 2 + m] = angle.sin(), angle.cos()
    w = encoding.weight.view(HEADS, HEAD_DIM, DIM)
    u, v = encoding.content_bias, encoding.position_bias
    out = torch.einsum("bhid,bhjd->bhij", q, k) + torch.einsum("hd,bhjd->bhj", u, k).unsqueeze(2)
    return out + torch.einsum("bhid,hdc,ijc->bhij", q, w, r) + torch.einsum("hd,hdc,ijc->hij", v, w, r)


def test_logits_are_the_four_terms_of_the_paper(close: Close) -> None:
    encoding, (q, k) = made(), tensors()
    index = torch.arange(7)
    logits = encoding.attention_logits(q, k, Positions.sequence(7, causal=False), 0.5)
    close(logits, four_terms(encoding, q, k, index[:, None] - index) / 2, times=4)


def test_shifting_rows_as_the_authors_do_gives_the_same_below_the_diagonal(close: Close) -> None:
    encoding, (q, k) = made(), tensors(queries=4)
    past, keys = 3, 7
    falling = torch.arange(keys - 1, -1, -1).expand(4, keys)  # one row of distances klen - 1 ... 0 for all queries
    place = four_terms(encoding, q, torch.zeros_like(k), falling)
    shifted = torch.zeros_like(place)
    for i in range(4):
        shifted[..., i, : i + past + 1] = place[..., i, keys - 1 - i - past :]
    logits = encoding.attention_logits(q, torch.zeros_like(k), Positions.step(past, 4), 1.0)
    visible = Positions.step(past, 4).visible()
    close(logits[..., visible], shifted[..., visible], times=4)


def test_distances_beyond_the_clamp_are_read_as_the_clamp(close: Close) -> None:
    encoding, (q, k) = made(clamp=3), tensors()
    index = torch.arange(7)
    distance = (index[:, None] - index).clamp(-3, 3)
    close(
        encoding.attention_logits(q, k, Positions.sequence(7, causal=False), 1.0),
        four_terms(encoding, q, k, distance),
        times=4,
    )
    rows = torch.stack((index, index + 5))  # positions of each row of the batch
    close(encoding.attention_logits(q, k, Positions(rows, rows), 1.0), four_terms(encoding, q, k, distance), times=4)


def test_positions_of_each_row_and_fractions_are_served(close: Close) -> None:
    encoding, (q, k) = made(), tensors()
    rows = torch.stack((torch.arange(7) * 0.25, torch.arange(7) * 3.0)).double()
    logits = encoding.attention_logits(q, k, Positions(rows, rows), 1.0)
    for row in range(2):
        expected = four_terms(encoding, q[row : row + 1], k[row : row + 1], rows[row][:, None] - rows[row])
        close(logits[row : row + 1], expected, times=4)


def test_far_positions_lose_nothing_in_float32(close: Close) -> None:
    encoding, (q, k) = made(), tensors()
    near = encoding.attention_logits(q, k, Positions.sequence(7), 0.5)
    place = torch.arange(7) + 2**24
    far = encoding.float().attention_logits(q.float(), k.float(), Positions(place, place), 0.5)
    assert far.dtype == torch.float32
    close(far.double(), near, of=torch.float32, times=4)


def test_grouped_keys_are_the_keys_of_each_query_head_written_out() -> None:
    encoding, (q, k) = made(), tensors(kv_heads=1)
    grouped = encoding.attention_logits(q, k, Positions.sequence(7), 0.5)
    assert torch.equal(grouped, encoding.attention_logits(q, k.expand(-1, 2, -1, -1), Positions.sequence(7), 0.5))


def test_biases_can_be_tied_between_layers_as_published() -> None:
    first, other = made(), made()
    other.content_bias = first.content_bias
    assert len({id(part) for layer in (first, other) for part in layer.parameters()}) == 5


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 5, "heads": 1, "head_dim": 4}, "needs an even dim, for a sine and a cosine each, not 5"),
        ({"dim": 4, "heads": 0, "head_dim": 4}, "at least 1 head and a head_dim of at least 1, not 0 and 4"),
        ({"dim": 4, "heads": 1, "head_dim": 4, "base": 0.0}, "base must be above 0, not 0.0"),
        ({"dim": 4, "heads": 1, "head_dim": 4, "clamp": -1}, "clamp must be above 0, not -1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        TransformerXL(**settings)


def test_queries_of_another_number_of_heads_are_refused() -> None:
    q = torch.zeros(1, 3, 2, HEAD_DIM)
    with pytest.raises(lw.InvalidArgument, match="made for 2 query heads, and q has 3"):
        lw.attention(q, q, q, made())


def test_first_values_have_the_standard_deviation_asked_for() -> None:
    torch.manual_seed(0)
    assert TransformerXL(64, 4, 16).weight.std().item() == pytest.approx(0.02, rel=0.05)
