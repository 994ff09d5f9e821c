from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import BackendRefused, InvalidArgument, Positions
from lengthwise.attention import Request, backends
from lengthwise.attention.sdpa import attention_mask

SPECS = ["none", "rotary", "rotary(fraction=0.5, layout='interleaved')", "alibi", "t5", "t5(bidirectional=True)"]


def tensors(
    batch: int = 2,
    heads: int = 4,
    kv_heads: int = 4,
    q_length: int = 6,
    k_length: int = 6,
    head_dim: int = 8,
    value_dim: int = 8,
    dtype: torch.dtype = torch.float32,
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(batch * 1000 + q_length * 100 + k_length)
    shapes = (
        (batch, heads, q_length, head_dim),
        (batch, kv_heads, k_length, head_dim),
        (batch, kv_heads, k_length, value_dim),
    )
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def build(spec: str, heads: int = 4, head_dim: int = 8) -> nn.Module:
    torch.manual_seed(0)
    encoding = lw.build(spec, lw.Dims(dim=heads * head_dim, heads=heads, head_dim=head_dim))
    for parameter in encoding.parameters():
        nn.init.normal_(parameter)
    return encoding


def by_hand(
    q: Tensor, k: Tensor, v: Tensor, bias: Tensor, sees: Callable[[int, int, int], bool], scale: float
) -> Tensor:
    """Softmax attention in Python floats, one query at a time; `bias [batch, heads, q, k]`."""
    batch, heads, queries, _ = q.shape
    out = torch.zeros(batch, heads, queries, v.shape[-1], dtype=torch.float64)
    group = heads // k.shape[1]
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                keys = [j for j in range(k.shape[2]) if sees(b, i, j)]
                scores = [float(q[b, h, i] @ k[b, h // group, j]) * scale + float(bias[b, h, i, j]) for j in keys]
                top = max(scores, default=0.0)
                weights = [math.exp(score - top) for score in scores]
                for j, weight in zip(keys, weights, strict=True):
                    out[b, h, i] += weight / sum(weights) * v[b, h // group, j]
    return out


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_attention_is_the_softmax_computed_one_query_at_a_time(backend: str, kv_heads: int) -> None:
    q, k, v = (x.detach().double() for x in tensors(2, 4, kv_heads, 4, 6, value_dim=3))
    mask = [[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1]]
    positions = Positions.padded(torch.tensor(mask), 4)
    slopes = [0.25, 0.0625, 0.015625, 0.00390625]
    bias = torch.tensor([[[[-m * abs(i + 2 - j) for j in range(6)] for i in range(4)] for m in slopes]] * 2)

    def sees(b: int, i: int, j: int) -> bool:
        return j <= i + 2 and bool(mask[b][j]) and bool(mask[b][i + 2])

    expected = by_hand(q, k, v, bias, sees, 8**-0.5)
    out = lw.attention(q, k, v, lw.ALiBi(4), positions, backend=backend)
    torch.testing.assert_close(out, expected, rtol=1e-7, atol=1e-7)


@settings(max_examples=30)
@given(
    spec=st.sampled_from(SPECS),
    batch=st.integers(1, 3),
    kv_heads=st.sampled_from([1, 2, 4]),
    lengths=st.lists(st.integers(0, 7), min_size=2, max_size=2).map(sorted),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    kind=st.sampled_from(["last", "padded", "packed", "window", "all"]),
    seed=st.integers(0, 99),
)
def test_sdpa_is_the_reference_forward_and_in_every_gradient(
    spec: str, batch: int, kv_heads: int, lengths: list[int], dtype: torch.dtype, kind: str, seed: int
) -> None:
    queries, keys = lengths
    encoding = build(spec)
    if kind == "packed":
        cut = seed % (keys + 1)
        queries, positions = keys, Positions.packed([cut, 0, keys - cut])
    elif kind == "padded":
        mask = torch.rand(batch, keys, generator=torch.Generator().manual_seed(seed)) < 0.6
        positions = Positions.padded(mask, queries)
    else:
        positions = Positions.step(keys - queries, queries)
        if kind == "window":
            positions = positions.replace(window=seed % 4)
        if kind == "all" and spec != "t5":
            positions = positions.replace(causal=False)
    results = []
    for backend in ("reference", "sdpa"):
        encoding.zero_grad()
        q, k, v = tensors(batch, 4, kv_heads, queries, keys, value_dim=8, dtype=dtype)
        out = lw.attention(q, k, v, encoding, positions, backend=backend)
        assert out.shape == (batch, 4, queries, 8)
        assert out.dtype == dtype
        weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)
        (out * weight).sum().backward()
        parameters = [part.grad if part.grad is not None else torch.zeros_like(part) for part in encoding.parameters()]
        results.append([out.detach(), q.grad, k.grad, v.grad, *parameters])
    for one, other in zip(*results, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_a_query_that_sees_nothing_gets_zeros_and_finite_gradients(dtype: torch.dtype, spec: str, backend: str) -> None:
    q, k, v = tensors(dtype=dtype)
    positions = Positions.padded(torch.tensor([[0, 0, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0]]))
    out = lw.attention(q, k, v, build(spec), positions, backend=backend)
    assert out.isfinite().all()
    assert out[0, :, [0, 1, 5]].abs().sum() == 0
    assert out[1].abs().sum() == 0
    assert out[0, :, 2:5].abs().min() > 0
    out.sum().backward()
    for x in (q, k, v):
        assert x.grad is not None
        assert x.grad.isfinite().all()
        assert x.grad[1].abs().sum() == 0


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_biases_belong_to_query_heads(backend: str) -> None:
    q, k, v = (x.detach() for x in tensors(1, 4, 2))
    each = DenseByHead(torch.arange(4.0))
    grouped = lw.attention(q, k, v, each, backend=backend)
    for h in range(4):
        own, shared = slice(h, h + 1), slice(h // 2, h // 2 + 1)
        encoding = DenseByHead(torch.tensor([float(h)]))
        alone = lw.attention(q[:, own], k[:, shared], v[:, shared], encoding, backend=backend)
        torch.testing.assert_close(grouped[:, own], alone, rtol=1e-5, atol=1e-5)


class DenseByHead(nn.Module):
    """-strength * distance, one strength a head."""

    def __init__(self, strength: Tensor) -> None:
        super().__init__()
        self.strength = strength

    def logit_bias(self, positions: Positions) -> lw.Bias:
        return lw.DenseBias(-self.strength.view(-1, 1, 1) * positions.distance().float())


class ClipDistance(nn.Module):
    """Whole logits: q·k scaled, less 1 where the distance is above 1."""

    def attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        return torch.einsum("bhqd,bhkd->bhqk", q, k) * scale - (positions.distance() > 1).to(q.dtype)


class WrongShape(nn.Module):
    def attention_logits(self, q: Tensor, k: Tensor, positions: Positions, scale: float) -> Tensor:
        return torch.zeros(1, 1, q.shape[2], k.shape[2])


@pytest.mark.parametrize("kv_heads", [4, 2])
def test_an_encoding_that_computes_whole_logits_runs_where_they_can_be_given(kv_heads: int) -> None:
    q, k, v = (x.detach() for x in tensors(kv_heads=kv_heads))
    out = lw.attention(q, k, v, ClipDistance())
    bias = -(Positions.sequence(6).distance() > 1).float().expand(4, 6, 6)
    torch.testing.assert_close(out, lw.attend(q, k, v, lw.DenseBias(bias)), rtol=1e-5, atol=1e-5)
    with pytest.raises(BackendRefused, match="attention backend 'sdpa' can't take this: the encoding computes whole"):
        lw.attention(q, k, v, ClipDistance(), backend="sdpa")
    with pytest.raises(InvalidArgument, match=r"attention_logits returned \[1, 1, 6, 6\], and not \[2, 4, 6, 6\]"):
        lw.attention(q, k, v, WrongShape())


@pytest.fixture
def picky() -> Iterator[list[str]]:
    """A backend that is the cheapest and refuses causal positions."""
    ran: list[str] = []

    class Picky:
        def refuses(self, request: Request) -> str | None:
            return "it takes no causal positions" if request.positions.causal else None

        def cost(self, request: Request) -> float:
            return 0.1

        def plan(self, request: Request) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
            def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
                ran.append("picky")
                return q

            return run

    backends.register("picky")(Picky())
    yield ran
    backends._things.pop("picky")


def test_a_backend_asked_for_by_name_runs_or_says_why_not_and_never_falls_back(picky: list[str]) -> None:
    q, k, v = (x.detach() for x in tensors())
    with pytest.raises(
        BackendRefused, match="'picky' can't take this: it takes no causal positions; backend='auto' picks"
    ):
        lw.attention(q, k, v, backend="picky")
    lw.attention(q, k, v)
    assert picky == []
    lw.attention(q, k, v, positions=Positions.sequence(6, causal=False))
    assert picky == ["picky"]


@pytest.mark.parametrize("call", [lw.attention, lw.attend])
def test_an_unknown_backend_is_told_with_the_nearest(call: Callable[..., Tensor]) -> None:
    q, k, v = tensors()
    with pytest.raises(lw.UnknownName, match=r"unknown attention backend 'spda': did you mean 'sdpa'\?"):
        call(q, k, v, backend="spda")


def test_explain_tells_every_backend_with_its_reason_and_runs_none(picky: list[str]) -> None:
    q, k, v = tensors()
    answer = lw.explain_attention(q, k, v, lw.ALiBi(4))
    assert answer.chosen == "sdpa"
    assert set(answer.reasons) == set(backends)
    assert answer.reasons["picky"] == "refuses: it takes no causal positions"
    text = str(answer).splitlines()
    assert len(text) == len(backends)
    assert [line for line in text if line.startswith("-> ")] == ["-> sdpa       can run, cost about 4"]
    assert lw.explain_attention(q, k, v, ClipDistance()).chosen == "blocks"
    assert picky == []


def test_weights_are_the_softmax_behind_the_output() -> None:
    q, k, v = (x.detach() for x in tensors(dtype=torch.bfloat16))
    positions = Positions.padded(torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]]))
    weights = lw.attention_weights(q, k, lw.ALiBi(4), positions)
    assert weights.dtype == torch.float32
    visible = positions.visible()
    assert visible is not None
    assert weights[~visible.unsqueeze(1).expand_as(weights)].abs().sum() == 0
    total = torch.ones(2, 4, 6)
    total[1, :, :2] = 0
    torch.testing.assert_close(weights.sum(-1), total)
    out = lw.attention(q, k, v, lw.ALiBi(4), positions, backend="reference")
    torch.testing.assert_close(out, (weights @ v.float()).bfloat16())


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_scale_takes_the_place_of_one_over_the_root_of_head_dim(backend: str) -> None:
    q, k, v = (x.detach() for x in tensors())
    own = lw.attention(q, k, v, lw.ALiBi(4), scale=0.3, backend=backend)
    default = lw.attention(q * 0.3 * 8**0.5, k, v, lw.ALiBi(4), backend=backend)
    torch.testing.assert_close(own, default, rtol=1e-5, atol=1e-5)
    even = lw.attention(q, k, v, scale=0.0, backend=backend)
    torch.testing.assert_close(even, v.cumsum(2) / torch.arange(1, 7).view(1, 1, 6, 1), rtol=1e-5, atol=1e-5)
    turned = lw.attention(-q, k, v, scale=-0.3, backend=backend)
    torch.testing.assert_close(turned, lw.attention(q, k, v, scale=0.3, backend=backend), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize("spec", ["none", "alibi"])
def test_dropout_drops_its_part_of_the_weights_and_keeps_the_mean(backend: str, spec: str) -> None:
    torch.manual_seed(0)
    q, k, _ = (x.detach() for x in tensors(4, 4, 4, 32, 32))
    v = torch.eye(32).expand(4, 4, 32, 32)  # the output is the weights
    encoding, positions = build(spec), Positions.sequence(32, causal=False)
    kept = lw.attention(q, k, v, encoding, positions, backend=backend)
    dropped = lw.attention(q, k, v, encoding, positions, backend=backend, dropout=0.25)
    zero = dropped == 0
    assert zero.float().mean().item() == pytest.approx(0.25, abs=0.02)  # 16384 draws, about six deviations
    torch.testing.assert_close(dropped[~zero], (kept / 0.75)[~zero], rtol=1e-5, atol=1e-6)
    again = lw.attention(q, k, v, encoding, positions, backend=backend, dropout=0.0)
    assert torch.equal(again, kept)


@pytest.mark.parametrize("spec", SPECS)
def test_what_is_prepared_once_serves_every_layer(spec: str) -> None:
    encoding, positions = build(spec), Positions.sequence(6)
    prepared = lw.prepare(encoding, positions)
    for batch in (1, 2):
        q, k, v = (x.detach() for x in tensors(batch))
        expected = lw.attention(q, k, v, encoding, positions)
        assert torch.equal(lw.attention(q, k, v, prepared), expected)
        assert torch.equal(lw.attention(q, k, v, prepared, positions), expected)
    with pytest.raises(InvalidArgument, match="a Prepared has its positions already: do not pass positions with it"):
        lw.attention(q, k, v, prepared, Positions.sequence(6))


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (0, 5), (1, 1), (1, 5)])
def test_lengths_of_zero_and_one_work_with_gradients(spec: str, backend: str, queries: int, keys: int) -> None:
    q, k, v = tensors(q_length=queries, k_length=keys, value_dim=3 if spec == "none" else 8)
    out = lw.attention(q, k, v, build(spec), backend=backend)
    assert out.shape == (2, 4, queries, v.shape[-1])
    out.sum().backward()
    for x in (q, k, v):
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_queries_without_any_key_get_zeros() -> None:
    q, k, v = tensors(q_length=3, k_length=0)
    out = lw.attention(q * math.inf, k, v, positions=Positions.cross(3, 0))
    assert out.shape == (2, 4, 3, 8)
    assert out.abs().sum() == 0


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_a_batch_of_no_rows_is_a_batch_of_no_rows(spec: str, backend: str) -> None:
    q, k, v = tensors(batch=0)
    assert lw.attention(q, k, v, build(spec), backend=backend).shape == (0, 4, 6, 8)


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
@pytest.mark.parametrize("spec", SPECS)
def test_positions_of_one_row_serve_all_rows(spec: str, backend: str) -> None:
    q, k, v = (x.detach() for x in tensors(3))
    one = Positions.packed([2, 4])
    out = lw.attention(q, k, v, build(spec), one, backend=backend)
    each = [lw.attention(q[b : b + 1], k[b : b + 1], v[b : b + 1], build(spec), one, backend=backend) for b in range(3)]
    torch.testing.assert_close(out, torch.cat(each), rtol=1e-5, atol=1e-5)


def test_positions_none_means_that_the_queries_are_the_last_tokens() -> None:
    q, k, v = (x.detach() for x in tensors(q_length=2))
    for spec in SPECS:
        encoding = build(spec)
        assert torch.equal(lw.attention(q, k, v, encoding), lw.attention(q, k, v, encoding, Positions.step(4, 2)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_a_window_far_out_is_finite_and_is_the_same_window_at_the_start(
    dtype: torch.dtype, spec: str, backend: str
) -> None:
    q, k, v = (x.detach() for x in tensors(1, q_length=64, k_length=64, dtype=dtype))
    place = torch.arange(2**20, 2**20 + 64)
    far = lw.attention(q, k, v, build(spec), Positions(place, place), backend=backend)
    near = lw.attention(q, k, v, build(spec), Positions(place - 2**20, place - 2**20), backend=backend)
    assert far.isfinite().all()
    # Angles of 2^20 radians in float64 keep ten digits; what is left is the dtype's own rounding.
    allowed = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 2e-3}[dtype]
    torch.testing.assert_close(far, near, rtol=allowed, atol=allowed)


def request_on(device: str, dtype: torch.dtype, positions: Positions, bias: lw.Bias, heads: int = 1) -> Request:
    made = Request(
        batch=1, heads=heads, kv_heads=heads, q_length=positions.q_length, k_length=positions.k_length, head_dim=8,
        dtype=dtype, device=torch.device("cpu"), positions=positions, bias=bias, logits=None, scale=1.0, dropout=0.0,
    )  # fmt: skip
    object.__setattr__(made, "device", torch.device(device))  # the mask is built as there, on the tensors here
    return made


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_on_other_devices_the_mask_is_cast_last_and_no_far_key_turns_a_row_into_nan(dtype: torch.dtype) -> None:
    positions = Positions(torch.tensor([2**21]), torch.tensor([0, 1]), causal=False)
    mask, causal = attention_mask(request_on("cuda", dtype, positions, lw.ALiBi(2).logit_bias(positions), 2))
    assert mask is not None
    assert (mask.dtype, causal) == (dtype, False)
    assert mask.isfinite().all()
    near = Positions.sequence(3)
    mask, _ = attention_mask(request_on("cuda", dtype, near, lw.ALiBi(2).logit_bias(near), 2))
    assert mask is not None
    assert mask[0, 0].tolist() == [[0, -math.inf, -math.inf], [-0.0625, 0, -math.inf], [-0.125, -0.0625, 0]]


ALIBI = lw.ALiBi(4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda q, k, v: lw.attention(q[0], k, v),
            r"q must be \[batch, heads, length, head_dim\], not of shape \[4, 6, 8\]",
        ),
        (lambda q, k, v: lw.attention(q, k[0], v), "k must be"),
        (lambda q, k, v: lw.attention(q, k, v[0]), "v must be"),
        (lambda q, k, v: lw.attention(q, k, v[:, :, :5]), r"k \[2, 4, 6, 8\] and v \[2, 4, 5, 8\] must agree in batch"),
        (lambda q, k, v: lw.attention(q, k, v[:, :2]), "must agree in batch, heads and length"),
        (
            lambda q, k, v: lw.attention(q[:1], k, v),
            r"q \[1, 4, 6, 8\] and k \[2, 4, 6, 8\] must agree in batch and head",
        ),
        (lambda q, k, v: lw.attention(q[..., :4], k, v), "must agree in batch and head_dim"),
        (lambda q, k, v: lw.attention(q[..., :0], k[..., :0], v), "need a head_dim of at least 1, not 0"),
        (lambda q, k, v: lw.attention(q, k[:, :3], v[:, :3]), "4 query heads can't share 3 key and value heads"),
        (lambda q, k, v: lw.attention(q, k[:, :0], v[:, :0]), "4 query heads can't share 0 key and value heads"),
        (lambda q, k, v: lw.attention(q.long(), k.long(), v.long()), "queries must be floating point, not torch.int64"),
        (
            lambda q, k, v: lw.attention(q, k.half(), v),
            "q, k and v must be of one dtype, not torch.float32, torch.float16",
        ),
        (lambda q, k, v: lw.attention(q, k, v, dropout=1.0), r"dropout must be in \[0, 1\), not 1.0"),
        (lambda q, k, v: lw.attention(q, k, v, dropout=-0.1), "not -0.1"),
        (
            lambda q, k, v: lw.attention(q, k[:, :, :5], v[:, :, :5]),
            "6 queries can't be the last of 5 keys: pass positions",
        ),
        (
            lambda q, k, v: lw.attention(q, k, v, None, Positions.sequence(5)),
            "positions are of 5 queries and 5 keys, and th",
        ),
        (
            lambda q, k, v: lw.attention(q, k, v, None, Positions.padded(torch.ones(3, 6).bool())),
            "positions are of 3 rows, and the tensors hold 2: one row serves all",
        ),
        (
            lambda q, k, v: lw.attention(q, k, v, None, Positions.sequence(6, device="meta")),
            r"positions are on meta and the queries on cpu: positions\.to",
        ),
        (
            lambda q, k, v: lw.attention(q, k, v, lw.ALiBi(1)),
            r"the bias is of shape \[1, 1, 6, 6\], and this attention needs \[1 or 2, 4 query heads, 6 que",
        ),
        (lambda q, k, v: lw.attention(q, k, v, lw.ALiBi(8)), r"the bias is of shape \[1, 8, 6, 6\]"),
        (
            lambda q, k, v: lw.attend(q[:, :, 5:], k, v, ALIBI.logit_bias(Positions.step(5).new()), Positions.step(5)),
            r"the bias is of shape \[1, 4, 1, 1\], and this attention needs .* 1 queries, 6 keys\]",
        ),
        (
            lambda q, k, v: lw.attention(q, k, v, lw.Rotary(16)),
            r"expected \[batch, heads, 6, head_dim of at least 16\] to rotate, not \[2, 4, 6, 8\]",
        ),
        (
            lambda q, k, v: lw.attention(q, k, v, lw.prepare(lw.Rotary(8), Positions.sequence(5))),
            "positions are of 5 queries and 5 keys",
        ),
    ],
)
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_what_does_not_fit_together_is_refused_in_one_line(
    make: Callable[..., Tensor], message: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("attention", "attend"):
        call = getattr(lw, name)
        monkeypatch.setattr(lw, name, lambda *args, call=call, **more: call(*args, backend=backend, **more))
    with pytest.raises(InvalidArgument, match=message) as caught:
        make(*(x.detach() for x in tensors()))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("away", [256, 4096])
def test_under_autocast_a_bias_of_far_keys_alone_keeps_its_digits(dtype: torch.dtype, away: int) -> None:
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 8, length, 16, generator=generator) for length in (8, 64, 64))
    order = torch.arange(8) + 64
    far = lw.Positions(torch.arange(8) + away, torch.arange(64), q_order=order, k_order=torch.arange(64))
    wanted = lw.attention(q, k, v, lw.ALiBi(8), far, backend="reference")
    with torch.autocast("cpu", dtype=dtype):
        got = lw.attention(q, k, v, lw.ALiBi(8), far, backend="sdpa")
    # q, k and v themselves are rounded to dtype: a few roundings of numbers near 1.
    assert (got - wanted).abs().max().item() < 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_a_row_whose_visible_keys_all_have_a_bias_of_minus_infinity_gives_zeros(backend: str) -> None:
    q = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    far = Positions(torch.tensor([5, 90, 7]), torch.tensor([5, 6, 7]), causal=False)
    out = lw.attention(q, q, q, lw.Window(window=3, heads=2), far, backend=backend)
    assert out.isfinite().all()
    assert out[:, :, 1].abs().sum() == 0
    out.sum().backward()
    assert q.grad is not None
    assert q.grad.isfinite().all()


@pytest.mark.parametrize("length", [6, 300])
@pytest.mark.parametrize("heads", [1, 2, 8])
def test_a_bias_of_another_number_of_heads_is_refused_by_every_backend(length: int, heads: int) -> None:
    q = torch.zeros(1, 4, length, 8)
    features = torch.zeros(heads, length, 1)
    low_rank = lw.LowRankBias(features, features, features[..., 0])
    distance = lw.ALiBi(heads).logit_bias(Positions.sequence(length))
    for bias in (low_rank, distance, lw.DenseBias(torch.zeros(heads, length, length)), distance + low_rank):
        for name in backends:
            try:
                with pytest.raises(InvalidArgument, match="the bias is of"):
                    lw.attend(q, q, q, bias, backend=name)
            except BackendRefused:
                continue


@pytest.mark.parametrize("length", [6, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("learned", [False, True])
def test_a_bias_in_float64_serves_narrower_queries_on_every_backend(
    length: int, dtype: torch.dtype, learned: bool
) -> None:
    q = torch.randn(1, 4, length, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    values = torch.randn(4, 2 * length, generator=torch.Generator().manual_seed(1)).double().requires_grad_(learned)
    bias = lw.DistanceBias(lambda distance: values[:, distance.abs()], Positions.sequence(length))
    right = lw.attend(q, q, q, bias, backend="reference")
    for name in ("sdpa", "toeplitz", "blocks", "auto"):
        out = lw.attend(q, q, q, bias, backend=name)
        assert out.dtype == dtype
        torch.testing.assert_close(
            out, right, rtol=1e-5 if dtype == torch.float32 else 0.02, atol=1e-5 if dtype == torch.float32 else 0.02
        )


@pytest.mark.parametrize("backend", ["reference", "sdpa", "toeplitz", "blocks", "auto"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("spec", [None, "alibi", "t5", "window(window=3)", "chunks(chunk=4)"])
def test_padded_rows_give_zeros_and_the_others_the_reference_whatever_the_dtype(
    backend: str, dtype: torch.dtype, spec: str | None
) -> None:
    # The encoding stays in float32, and the length is above that from which the fast roads are chosen.
    torch.manual_seed(0)
    encoding = None if spec is None else lw.build(spec, lw.Dims(dim=32, heads=4))
    q = torch.randn(2, 4, 600, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    mask = torch.ones(2, 600, dtype=torch.bool)
    mask[0, :50], mask[1, 560:] = False, False
    positions = Positions.padded(mask)
    try:
        out = lw.attention(q, q, q, encoding, positions, backend=backend)
    except BackendRefused:
        return
    right = lw.attention(q, q, q, encoding, positions, backend="reference")
    assert out[0, :, :50].abs().sum() == 0
    assert out[1, :, 560:].abs().sum() == 0
    allowed = {torch.float64: 1e-6, torch.float32: 1e-5, torch.float16: 4e-3}[dtype]
    torch.testing.assert_close(out, right, rtol=allowed, atol=allowed)


@pytest.mark.parametrize("backend", ["reference", "sdpa", "toeplitz", "blocks"])
@pytest.mark.parametrize("length", [6, 300])
def test_a_query_that_is_not_a_number_is_not_hidden(backend: str, length: int) -> None:
    q = torch.randn(1, 4, length, 8, generator=torch.Generator().manual_seed(0))
    q[0, 0, 5] = float("nan")
    k = torch.ones(1, 4, length, 8)
    out = lw.attention(q, k, k, lw.ALiBi(4), backend=backend)
    assert out[0, 0, 5].isnan().all()
    assert out[0, 1:].isfinite().all()


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")  # PyTorch's own, at its first jvp
def test_transforms_of_functions_get_derivatives_at_every_length() -> None:
    k = torch.randn(1, 4, 300, 8, generator=torch.Generator().manual_seed(0))
    for length in (20, 300):
        x = k[:, :, :length]

        def out(q: Tensor, x: Tensor = x) -> Tensor:
            return lw.attention(q, x, x, lw.ALiBi(4)).square().sum()

        leaf = x.clone().requires_grad_()
        out(leaf).backward()
        torch.testing.assert_close(torch.func.grad(out)(x), leaf.grad, rtol=1e-4, atol=1e-4)
        moved, wanted = (
            torch.func.jvp(
                lambda q, x=x, way=way: lw.attention(q, x, x, lw.ALiBi(4), backend=way), (x,), (torch.ones_like(x),)
            )
            for way in ("auto", "reference")
        )
        assert wanted[1].abs().max() > 0.01
        torch.testing.assert_close(moved[1], wanted[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("spec", ["shaw", "cope", "alibi", "fire", "stick_breaking"])
@pytest.mark.parametrize("shape", [(0, 5, 5), (2, 0, 5), (2, 0, 0)])
def test_nothing_to_attend_gives_nothing_and_no_error(spec: str, shape: tuple[int, int, int]) -> None:
    batch, queries, keys = shape
    encoding = lw.build(spec, lw.Dims(dim=32, heads=4))
    q, k = torch.zeros(batch, 4, queries, 8), torch.zeros(batch, 4, keys, 8)
    for backend in ("auto", "reference", "toeplitz", "blocks"):
        try:
            assert lw.attention(q, k, k, encoding, backend=backend).shape == (batch, 4, queries, 8)
        except BackendRefused:
            continue


@pytest.mark.parametrize("backend", ["auto", "sdpa", "blocks"])
@pytest.mark.parametrize("spec", ["t5", "kerple", "fire"])
def test_transforms_differentiate_by_queries_beside_a_bias_that_learns(
    spec: str, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["lengthwise.attention.blocks"], "_PAIRS", 2 * 4 * 7 * 20)
    encoding, (q, k, v) = build(spec), (x.detach() for x in tensors(q_length=20, k_length=20))

    def summed(q: Tensor, backend: str) -> Tensor:
        return lw.attention(q, k, v, encoding, backend=backend).square().sum()

    got, wanted = (torch.func.grad(summed)(q, way) for way in (backend, "reference"))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    along = torch.ones_like(q)
    forward = torch.func.jvp(lambda q: summed(q, backend), (q,), (along,))[1]
    torch.testing.assert_close(forward, (wanted * along).sum(), rtol=1e-4, atol=1e-3)
