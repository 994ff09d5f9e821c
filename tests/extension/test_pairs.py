from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lengthwise as lw
from lengthwise import Positions
from lengthwise.extension import Method, effective_distance

METHODS = [
    lw.SelfExtend(group=2, window=4),
    lw.SelfExtend(group=3, window=4),
    lw.ReRoPE(window=3),
    lw.ReRoPE(window=3, leak=2.5),
    lw.DualChunk(chunk=6, local=2),
    lw.StreamingLLM(sinks=2, recent=3),
    lw.LMInfinite(sinks=2, local=3),
]
EACH = pytest.mark.parametrize("method", METHODS, ids=repr)


def tensors(batch: int, heads: int, kv_heads: int, length: int, head_dim: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    sizes = (heads, kv_heads, kv_heads)
    q, k, v = (torch.randn(batch, one, length, head_dim, generator=generator) for one in sizes)
    return q, k, v


def expected(q: Tensor, k: Tensor, v: Tensor, distance: Tensor) -> Tensor:
    """Attention whose logit (i, j) is that of a rotation by `distance[i, j]`, from cosines and sines of it alone."""
    half = q.shape[-1] // 2
    angle = distance.nan_to_num(nan=0.0, posinf=0.0)[..., None] * 10000.0 ** (-torch.arange(half).double() / half)
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1).double() for x in (k, v))
    (q1, q2), (k1, k2) = q.double().unsqueeze(3).chunk(2, dim=-1), k.unsqueeze(2).chunk(2, dim=-1)
    same, across = q1 * k1 + q2 * k2, q1 * k2 - q2 * k1  # [batch, heads, q, k, half]
    logits = (same * angle.cos() + across * angle.sin()).sum(-1) / math.sqrt(2 * half)
    barred = distance.isnan() | distance.isinf()
    return logits.masked_fill(barred, -math.inf).softmax(-1) @ v


@EACH
def test_a_rotation_acts_at_the_effective_distance_of_each_pair(method: Method, close: Callable[..., None]) -> None:
    q, k, v = tensors(2, 4, 2, 14)
    longer = lw.extend(lw.Rotary(8), method)
    wanted = expected(q, k, v, effective_distance(method, 14))
    for backend in ("auto", "reference", "blocks"):
        close(lw.attention(q, k, v, longer, backend=backend), wanted, of=torch.float32)


@EACH
def test_a_bias_acts_at_the_effective_distance_of_each_pair(method: Method, close: Callable[..., None]) -> None:
    kerple = lw.KERPLE(2)
    bias = lw.extend(kerple, method).logit_bias(Positions.sequence(14)).dense()
    distance = effective_distance(method, 14)
    seen = ~distance.isnan()
    wanted = kerple.of_distance(distance)
    close(bias[:, seen], torch.where(distance.isinf(), -math.inf, wanted)[:, seen], of=torch.float32)


@EACH
def test_a_sequence_within_the_window_is_exact_and_a_longer_one_is_not(method: Method) -> None:
    longest: int = method.exact_up_to  # pyright: ignore[reportAttributeAccessIssue]
    for length, exact in ((longest, True), (longest + 1, False)):
        place = torch.arange(length)
        plain = (place[:, None] - place).double()
        same = torch.equal(effective_distance(method, length).tril(), plain.tril())
        assert same or not exact  # one token past it some methods still give its distance
        if exact:
            q, k, v = tensors(1, 2, 2, length)
            both = [lw.attention(q, k, v, one) for one in (lw.extend(lw.Rotary(8), method), lw.Rotary(8))]
            assert torch.equal(*both)
    place = torch.arange(longest + 4)
    assert not torch.equal(effective_distance(method, longest + 4).tril(), (place[:, None] - place).double().tril())


@EACH
@pytest.mark.parametrize("spec", ["rotary", "alibi", "xpos"])
def test_blocks_of_rows_give_what_the_whole_gives(
    method: Method, spec: str, close: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    longer = lw.extend(lw.build(spec, lw.Dims(dim=32, heads=4)), method)
    mask = torch.arange(30) >= torch.tensor([[0], [6]])
    q, k, v = (x.requires_grad_() for x in tensors(2, 4, 2, 30))
    monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", 2 * 4 * 30 * 4)
    for positions in (Positions.sequence(30), Positions.padded(mask), Positions.packed([12, 18])):
        outs = [lw.attention(q, k, v, longer, positions, backend=name) for name in ("reference", "blocks")]
        grads = [torch.autograd.grad(out.square().sum(), (q, k, v)) for out in outs]
        close(outs[1], outs[0])
        for one, other in zip(*grads, strict=True):
            close(one, other, times=4)
        with torch.no_grad():
            close(lw.attention(q, k, v, longer, positions, backend="blocks"), outs[0])


@EACH
def test_keys_wait_unrotated_and_a_cache_equals_one_pass(method: Method, close: Callable[..., None]) -> None:
    longer = lw.extend(lw.Rotary(8), method)
    assert longer.cached_keys == "raw"
    assert lw.sites(longer) == ("logits",)
    assert lw.extend(lw.ALiBi(2), method).cached_keys == "rotated"  # a bias leaves keys as they are
    q, k, v = tensors(1, 2, 2, 14)
    whole = lw.attention(q, k, v, longer)
    for start in (3, 9, 13):
        close(lw.attention(q[:, :, start:], k, v, longer, Positions.step(start, 14 - start)), whole[:, :, start:])
        close(lw.attention(q[:, :, :start], k[:, :, :start], v[:, :, :start], longer), whole[:, :, :start])


@EACH
def test_padded_rows_are_the_rows_alone(method: Method, close: Callable[..., None]) -> None:
    longer = lw.extend(lw.Rotary(8), method)
    q, k, v = tensors(2, 2, 1, 14)
    out = lw.attention(q, k, v, longer, Positions.padded(torch.arange(14) >= torch.tensor([[5], [0]])))
    close(out[:1, :, 5:], lw.attention(q[:1, :, 5:], k[:1, :, 5:], v[:1, :, 5:], longer))
    close(out[1:], lw.attention(q[1:], k[1:], v[1:], longer))


def test_keys_that_no_branch_holds_cost_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs, formed = sys.modules["lengthwise.extension.pairs"], []
    product = pairs.product
    monkeypatch.setattr(pairs, "product", lambda q, k: (formed.append(q.shape[2] * k.shape[2]), product(q, k))[1])
    monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", 2 * 400 * 8)
    q, k, v = tensors(1, 2, 2, 400)
    with torch.no_grad():
        lw.attention(q, k, v, lw.extend(lw.Rotary(8), lw.StreamingLLM(sinks=2, recent=10)))
        assert sum(formed) < 400 * 30
        formed.clear()
        lw.attention(q, k, v, lw.extend(lw.Rotary(8), lw.ReRoPE(window=50)))
    assert sum(formed) < 1.1 * 400 * 401 / 2 + 400 * 20


def test_attention_that_compiles_as_one_graph_gives_the_same() -> None:
    code = """
import torch, lengthwise as lw
torch.set_num_threads(1)
for method in (lw.SelfExtend(2, 4), lw.StreamingLLM(2, 3), lw.ByQuery(lw.DynamicNTK(2, 16), 8)):
    longer = lw.extend(lw.Rotary(8), method)
    attend = torch.compile(lambda q, k, v, p: lw.attention(q, k, v, longer, p), fullgraph=True, backend="eager")
    q, k, v = (torch.randn(1, 2, 40, 8, requires_grad=True) for _ in range(3))
    outs = [one(q, k, v, lw.Positions.sequence(40)) for one in (attend, lambda *a: lw.attention(*a[:3], longer, a[3]))]
    torch.testing.assert_close(*outs, rtol=1e-5, atol=1e-5)
    grads = [torch.autograd.grad(out.square().sum(), (q, k)) for out in outs]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_one_more_method_of_pairs_is_refused_and_the_error_says_why() -> None:
    once = lw.extend(lw.Rotary(8), lw.ReRoPE(4))
    with pytest.raises(lw.InvalidArgument, match="a rotation"):
        lw.extend(once, lw.SelfExtend())
    with pytest.raises(lw.InvalidArgument, match="LogN has used: apply it first"):
        lw.extend(lw.extend(lw.Rotary(8), lw.LogN(16)), lw.SelfExtend())
    with pytest.raises(lw.InvalidArgument, match="more than distances"):
        lw.extend(lw.QueryTemperature(), lw.SelfExtend())
    with pytest.raises(lw.InvalidArgument, match="axes"):
        lw.extend(lw.build("mrope", lw.Dims(dim=64, heads=4)), lw.SelfExtend())
    with pytest.raises(lw.InvalidArgument, match="causal"):
        lw.prepare(once, Positions.sequence(8, causal=False))


def test_effective_distance_of_a_method_without_distances_is_an_error() -> None:
    with pytest.raises(lw.InvalidArgument, match="moves no distances"):
        effective_distance(lw.LogN(16), 4)
    assert effective_distance(lw.Interpolate(4), 5)[4].tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert effective_distance(lw.Interpolate(4), 5)[0, 1:].isnan().all()
