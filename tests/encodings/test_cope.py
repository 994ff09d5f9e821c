from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import CoPE, Positions

with warnings.catch_warnings():  # its module scripts a function as it is imported
    warnings.simplefilter("ignore", DeprecationWarning)
    from x_transformers.x_transformers import CoPE as TheirCoPE

Close = Callable[..., None]


def made(max_positions: int = 4, **settings: bool) -> CoPE:
    encoding = CoPE(4, max_positions, **settings).double()
    torch.nn.init.normal_(encoding.table, generator=torch.Generator().manual_seed(1))
    return encoding


def tensors(queries: int = 7, keys: int = 7, heads: int = 2, kv_heads: int = 2) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, heads, queries, 4, generator=generator, dtype=torch.float64)
    return q, torch.randn(2, kv_heads, keys, 4, generator=generator, dtype=torch.float64)


def one_pair_at_a_time(encoding: CoPE, q: Tensor, k: Tensor, visible: Tensor, order: Tensor) -> Tensor:
    """Logits of visible pairs from the paper's formulas; order `[k]`, visible `[q, k]`."""
    out = torch.zeros(*q.shape[:3], k.shape[2], dtype=torch.float64)
    e, last = encoding.table.detach(), encoding.max_positions - 1
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i, j in visible.nonzero().tolist():
                later = [t for t in range(k.shape[2]) if visible[i, t] and order[t] >= order[j]]
                p = min(sum(1 / (1 + math.exp(-float(q[b, h, i] @ k[b, h, t]) / 2)) for t in later), last)
                low, high = math.floor(p), math.ceil(p)
                z = (1 - (p - low)) * (q[b, h, i] @ e[low]) + (p - low) * (q[b, h, i] @ e[high])
                content = q[b, h, i] @ k[b, h, j]
                out[b, h, i, j] = content / 2 + z if encoding.nodiv else (content + z) / 2
    return out


def seen(logits: Tensor, positions: Positions) -> Tensor:
    visible = positions.visible()
    return logits.masked_fill(~(visible if visible.dim() == 2 else visible[:, None]), 0.0)


@pytest.mark.parametrize("nodiv", [False, True])
@pytest.mark.parametrize("window", [None, 0, 2])
def test_logits_are_those_of_the_formulas(nodiv: bool, window: int | None, close: Close) -> None:
    encoding, (q, k) = made(nodiv=nodiv), tensors(queries=5)
    positions = Positions.step(2, 5).replace(window=window)
    expected = one_pair_at_a_time(encoding, q, k, positions.visible(), torch.arange(7))
    close(seen(encoding.attention_logits(q, k, positions, 0.5), positions), expected)


def test_positions_are_those_of_the_formula_sheet() -> None:
    q, k = torch.ones(1, 1, 1, 1).double(), torch.tensor([0.3, -0.2, 1.0, 0.5]).double().view(1, 1, 4, 1)
    expected = torch.tensor([2.37812643, 1.80368391, 1.35351791, 0.622459331], dtype=torch.float64)
    torch.testing.assert_close(CoPE(1).counts(q, k, Positions.step(3), 1.0)[0, 0, 0], expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("max_positions", [2, 5, 64])
def test_unscaled_it_is_what_x_transformers_adds(max_positions: int, close: Close) -> None:
    encoding, (q, k) = made(max_positions, nodiv=True), tensors()
    theirs = TheirCoPE(4, 2, max_positions).double()
    theirs.load_state_dict({"pos_emb": encoding.table})
    positions = Positions.sequence(7)
    logits = (q @ k.transpose(-1, -2) / 2).masked_fill(~positions.visible(), -1e9)
    with torch.no_grad():
        expected = seen(logits + theirs(q, logits), positions)
        close(seen(encoding.attention_logits(q, k, positions, 0.5), positions), expected)


@pytest.mark.parametrize("nodiv", [False, True])
def test_at_its_first_values_it_is_attention_without_positions(nodiv: bool) -> None:
    q, k = tensors()
    logits = CoPE(4, nodiv=nodiv).attention_logits(q, k, Positions.sequence(7), 0.5)
    assert torch.equal(logits, q @ k.transpose(-1, -2) * 0.5)


def test_with_all_gates_open_positions_are_distances_and_one(close: Close) -> None:
    q = torch.full((1, 1, 6, 4), 10.0)
    counts = CoPE(4).counts(q, q, Positions.sequence(6), 1.0)[0, 0]
    index = torch.arange(6)
    close(counts.tril(), ((index[:, None] - index) + 1).tril().float())


def test_positions_never_rise_with_the_key() -> None:
    q, k = tensors()
    counts = seen(CoPE(4).counts(q, k, Positions.sequence(7), 0.5), Positions.sequence(7))
    assert (counts.diff(dim=-1) <= 0).all()


@pytest.mark.parametrize("rows", [False, True])
def test_keys_in_another_order_have_the_logits_of_their_own(rows: bool, close: Close) -> None:
    encoding, (q, k) = made(), tensors()
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    other = torch.tensor([6, 5, 0, 1, 2, 4, 3])
    orders = torch.stack((order, other)) if rows else order[None].expand(2, -1)
    mixed_q, mixed_k = (torch.stack([x[b][:, orders[b]] for b in range(2)]) for x in (q, k))
    kept = orders if rows else order
    positions = Positions(kept, kept, q_order=kept, k_order=kept)
    whole = encoding.attention_logits(q, k, Positions.sequence(7), 0.5)
    expected = torch.stack([whole[b][:, orders[b]][:, :, orders[b]] for b in range(2)])
    found = encoding.attention_logits(mixed_q, mixed_k, positions, 0.5)
    close(seen(found, positions), seen(expected, positions))


def test_padding_and_other_documents_pass_no_gate(close: Close) -> None:
    encoding, (q, k) = made(), tensors()
    padded = Positions.padded(torch.tensor([[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 1, 1]]))
    alone = seen(encoding.attention_logits(q[:, :, 3:], k[:, :, 3:], Positions.sequence(4), 0.5), Positions.sequence(4))
    close(seen(encoding.attention_logits(q, k, padded, 0.5), padded)[..., 3:, 3:], alone)
    packed = Positions.packed([3, 4])
    close(seen(encoding.attention_logits(q, k, packed, 0.5), packed)[..., 3:, 3:], alone)


def test_gradients_flow_through_the_fraction_of_a_position() -> None:
    encoding, (q, k) = made(), tensors(4, 4)
    positions = Positions.sequence(4)

    def logits(q: Tensor, k: Tensor) -> Tensor:
        return seen(encoding.attention_logits(q, k, positions, 0.5), positions)

    assert torch.autograd.gradcheck(logits, (q.requires_grad_(), k.requires_grad_()))


def test_gradients_are_finite_at_whole_positions_and_at_the_last() -> None:
    encoding = made(3)
    q = torch.full((1, 1, 6, 4), 50.0, dtype=torch.float64, requires_grad=True)  # gates of exactly 1
    encoding.attention_logits(q, q, Positions.sequence(6), 1.0).sum().backward()
    assert q.grad.isfinite().all()
    assert encoding.table.grad.isfinite().all()


def test_grouped_keys_are_the_keys_of_each_query_head_written_out() -> None:
    encoding, (q, k) = made(), tensors(heads=4)
    grouped = encoding.attention_logits(q, k, Positions.sequence(7), 0.5)
    assert torch.equal(grouped, encoding.attention_logits(q, k.repeat_interleave(2, 1), Positions.sequence(7), 0.5))


def test_without_causality_it_is_refused() -> None:
    with pytest.raises(lw.InvalidArgument, match="CoPE is made for causal attention"):
        lw.prepare(CoPE(4), Positions.sequence(3, causal=False))


@pytest.mark.parametrize("settings", [{"head_dim": 0}, {"head_dim": 4, "max_positions": 0}])
def test_sizes_below_one_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(lw.InvalidArgument, match="CoPE needs a head_dim and max_positions of at least 1"):
        CoPE(**settings)
