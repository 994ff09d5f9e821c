from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise.analysis.similarity import attention_distance, divergence


def weights(seed: int, heads: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(2, heads, 6, 6, generator=generator)
    mask = torch.ones(6, 6, dtype=torch.bool).tril()
    return [logits.masked_fill(~mask, -math.inf).softmax(-1), (2 * logits).masked_fill(~mask, -math.inf).softmax(-1)]


def test_the_divergence_is_that_of_scipy() -> None:
    from scipy.spatial.distance import jensenshannon

    p, q = weights(0)[0][0, 0, -1].double(), weights(1)[0][0, 0, -1].double()
    assert divergence(p, q).item() == pytest.approx(jensenshannon(p.numpy(), q.numpy()) ** 2, rel=1e-6)


def test_the_authors_divergence_is_the_mean_of_torchs_with_the_logarithms_as_input() -> None:
    p, q = weights(0)[0][0, 0, -1].double(), weights(1)[0][0, 0, -1].double()
    middle = (p + q) / 2
    loss = torch.nn.KLDivLoss(reduction="sum")
    expected = (loss(p.log(), middle) + loss(q.log(), middle)) / 2
    assert divergence(p, q, "authors").item() == pytest.approx(expected.item(), rel=1e-9)


def test_rows_that_share_no_key_are_ln_2_apart_and_further_in_the_authors_variant() -> None:
    p, q = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    assert divergence(p, q).item() == pytest.approx(math.log(2))
    assert divergence(p, q, "authors").item() > 10 * math.log(2)


def test_a_model_is_at_distance_0_from_itself_and_from_its_heads_in_another_order() -> None:
    mine = weights(0)
    assert attention_distance(mine, [layer[:, [2, 0, 1]] for layer in mine]).max() == 0


def test_the_distance_is_the_least_over_all_pairs_of_heads_and_symmetric() -> None:
    mine, other = weights(0), weights(1)
    there, back = attention_distance(mine, other), attention_distance(other, mine)
    torch.testing.assert_close(there, back)
    pairs = [divergence(mine[0][:, a], other[0][:, b]).mean(-1) for a in range(3) for b in range(3)]
    torch.testing.assert_close(there[:, 0], torch.stack(pairs).amin(0))


def test_the_authors_variant_misses_a_head_against_itself() -> None:
    mine = weights(0)
    assert attention_distance(mine, mine, "authors").min() > 0


@pytest.mark.parametrize(
    ("first", "second", "variant", "message"),
    [
        (weights(0), weights(0)[:1], "true", "2 layers and the other 1"),
        (weights(0), [layer[..., :5, :5] for layer in weights(0)], "true", "different tokens"),
        (weights(0, heads=1), weights(0, heads=1), "authors", "one head only"),
        (weights(0), weights(0), "autors", "did you mean 'authors'"),
    ],
)
def test_attention_that_can_not_be_compared_is_refused(
    first: object, second: object, variant: str, message: str
) -> None:
    with pytest.raises(lw.InvalidArgument, match=message):
        attention_distance(first, second, variant)  # pyright: ignore[reportArgumentType]
