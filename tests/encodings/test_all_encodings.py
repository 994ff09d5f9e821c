"""What every encoding keeps, whatever it does: taken over the registry, so that a new one is tested too."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import lengthwise as lw
from lengthwise import Positions

DIM, HEADS, HEAD_DIM, LENGTH = 16, 2, 8, 7
DIMS = lw.Dims(dim=DIM, heads=HEADS, head_dim=HEAD_DIM, max_length=64)
SPECS = [
    *(name for name, _ in lw.encodings.encodings.own_items()),
    "rotary(layout='interleaved')",
    "rotary(fraction=0.5, base=100)",
    "sinusoidal(variant='half')",
    "sinusoidal(variant='tensor2tensor')",
    "t5(bidirectional=True)",
    "t5(buckets=8, max_distance=6)",
]
TIGHT = {"rtol": 1e-5, "atol": 1e-5}


def build(spec: str, dtype: torch.dtype = torch.float32) -> nn.Module:
    torch.manual_seed(1)
    encoding = lw.build(spec, DIMS)
    for parameter in encoding.parameters():
        nn.init.normal_(parameter)  # large enough that a wrong row shows
    return encoding.to(dtype)


class Layer:
    """One attention layer with fixed weights, so that embeddings, rotations and biases all reach the output."""

    def __init__(self, encoding: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        generator = torch.Generator().manual_seed(2)
        self.encoding = encoding
        self.weights = [torch.randn(DIM, HEADS * HEAD_DIM, generator=generator).to(dtype) / 4 for _ in range(3)]

    def project(self, x: Tensor, positions: Positions) -> list[Tensor]:
        """q, k, v `[batch, heads, length, head_dim]` of the embeddings, before any rotation."""
        prepared = lw.prepare(self.encoding, positions)
        x = x if prepared.embed is None else prepared.embed(x)
        return [(x @ w).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2) for w in self.weights]

    def __call__(self, x: Tensor, positions: Positions, **settings: object) -> Tensor:
        q, k, v = self.project(x, positions)
        return lw.attention(q, k, v, self.encoding, positions, **settings)

    def decode(self, x: Tensor, chunks: list[int]) -> Tensor:
        """The same, chunk by chunk, with a cache of rotated keys."""
        keys = values = torch.empty(x.shape[0], HEADS, 0, HEAD_DIM)
        outs, past = [], 0
        for count in chunks:
            positions = Positions.step(past, count)
            q, k, v = self.project(x[:, past : past + count], positions.new())
            own = lw.prepare(self.encoding, positions.new())
            if own.rotation is not None:
                q, k = own.rotation(q, k)
            keys, values = torch.cat((keys, k), 2), torch.cat((values, v), 2)
            bias = lw.prepare(self.encoding, positions).bias
            outs.append(lw.attend(q, keys, values, bias, positions))
            past += count
        return torch.cat(outs, 2)


def embeddings(batch: int = 1, length: int = LENGTH, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(batch, length, DIM, generator=torch.Generator().manual_seed(3)).to(dtype)


def logits(encoding: nn.Module, positions: Positions) -> Tensor:
    """Logits of fixed queries and keys `[1, heads, q, k]`, in float64 where the encoding allows."""
    layer = Layer(encoding, torch.float64)
    q, k, _ = layer.project(embeddings(dtype=torch.float64), positions)
    prepared = lw.prepare(encoding, positions)
    if prepared.rotation is not None:
        q, k = prepared.rotation(q, k)
    out = q @ k.transpose(-1, -2) / HEAD_DIM**0.5
    return out if prepared.bias is None else out + prepared.bias.dense()


@pytest.mark.parametrize("spec", SPECS)
def test_shifting_all_positions_changes_the_logits_iff_no_invariance_is_claimed(spec: str) -> None:
    encoding = build(spec)
    place = torch.arange(LENGTH)
    here, there = (logits(encoding, Positions(p, p)) for p in (place, place + 13))
    visible = torch.ones(LENGTH, LENGTH).tril().bool()
    same = torch.allclose(here[..., visible], there[..., visible], rtol=1e-5, atol=1e-5)
    assert same == ("translation_invariant" in lw.claims(encoding))


@pytest.mark.parametrize("spec", SPECS)
def test_the_bias_never_rises_with_distance_iff_that_is_claimed(spec: str) -> None:
    encoding = build(spec)
    bias = lw.prepare(encoding, Positions.sequence(64)).bias
    falls = bias is not None and bool((bias.dense()[:, -1].diff() >= 0).all())  # keys come nearer along the row
    assert falls == ("nonincreasing" in lw.claims(encoding))


@pytest.mark.parametrize("spec", SPECS)
def test_rotations_keep_norms_iff_that_is_claimed(spec: str) -> None:
    encoding = build(spec)
    rotation = lw.prepare(encoding, Positions.sequence(LENGTH)).rotation
    assert (rotation is not None) == ("norm_preserving" in lw.claims(encoding))
    if rotation is not None:
        x = torch.randn(1, HEADS, LENGTH, HEAD_DIM, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(rotation.q(x).norm(dim=-1), x.norm(dim=-1))
        torch.testing.assert_close(rotation.k(x).norm(dim=-1), x.norm(dim=-1))


@pytest.mark.parametrize("spec", SPECS)
def test_a_logit_depends_on_its_own_query_key_and_positions_iff_that_is_claimed(spec: str) -> None:
    encoding = build(spec)
    place = torch.arange(LENGTH)
    whole = logits(encoding, Positions(place, place))
    bent = place.clone()
    bent[3] = 40  # only row 3 and column 3 may notice
    others = torch.tensor([0, 1, 2, 4, 5, 6])
    change = (whole - logits(encoding, Positions(bent, bent)))[0][:, others][:, :, others].abs().max()
    assert (change < 1e-9) == ("pairwise" in lw.claims(encoding))


@pytest.mark.parametrize("spec", SPECS)
def test_decoding_with_a_cache_of_rotated_keys_is_one_pass_for_every_chunking(spec: str) -> None:
    layer, x = Layer(build(spec)), embeddings(2, 5)
    with torch.no_grad():
        whole = layer(x, Positions.sequence(5))
        for chunks in ([5], [1, 1, 1, 1, 1], [2, 3], [3, 2], [4, 1], [1, 4], [2, 1, 2], [0, 5, 0]):
            torch.testing.assert_close(layer.decode(x, chunks), whole, **TIGHT)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_a_padded_batch_is_its_rows_alone(spec: str, side: str, backend: str) -> None:
    layer, lengths = Layer(build(spec)), [LENGTH, 3, 1, 0]
    x = embeddings(len(lengths))
    index = torch.arange(LENGTH)
    count = torch.tensor(lengths)[:, None]
    mask = index >= LENGTH - count if side == "left" else index < count
    with torch.no_grad():
        out = layer(x, Positions.padded(mask), backend=backend)
        assert out.isfinite().all()
        for row, length in enumerate(lengths):
            real = mask[row]
            alone = layer(x[row : row + 1, real], Positions.sequence(length), backend=backend)
            torch.testing.assert_close(out[row : row + 1, :, real], alone, **TIGHT)
            assert out[row][:, ~real].abs().sum() == 0


@pytest.mark.parametrize("spec", SPECS)
def test_packed_documents_are_the_documents_alone(spec: str) -> None:
    layer, x = Layer(build(spec)), embeddings(2)
    with torch.no_grad():
        out = layer(x, Positions.packed([3, 0, 1, 3]))
        apart = [layer(part, Positions.sequence(part.shape[1])) for part in x.split([3, 0, 1, 3], dim=1)]
        torch.testing.assert_close(out, torch.cat(apart, 2), **TIGHT)


@pytest.mark.parametrize("spec", SPECS)
def test_rows_of_a_causal_pass_do_not_know_how_long_it_is(spec: str) -> None:
    layer, x = Layer(build(spec)), embeddings(1, 40)
    with torch.no_grad():
        whole = layer(x, Positions.sequence(40))
        for length in (0, 1, 17):
            short = layer(x[:, :length], Positions.sequence(length))
            torch.testing.assert_close(short, whole[:, :, :length], **TIGHT)


@pytest.mark.parametrize("spec", SPECS)
def test_the_order_of_calls_never_matters_and_two_modules_share_nothing(spec: str) -> None:
    calls: list[Callable[[Layer], Tensor]] = [
        lambda layer: layer(embeddings(1, 40), Positions.sequence(40)),
        lambda layer: layer(embeddings(1, 5), Positions.sequence(5)),
        lambda layer: layer(embeddings(1, 5), Positions.packed([2, 3])),
        lambda layer: layer(embeddings(1, 5).double().float(), Positions.padded(torch.tensor([[0, 0, 1, 1, 1]]))),
    ]
    with torch.no_grad():
        used = Layer(build(spec))
        forwards = [call(used) for call in calls]
        backwards = [call(Layer(build(spec))) for call in reversed(calls)][::-1]
    for one, other in zip(forwards, backwards, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("spec", SPECS)
def test_inputs_are_left_as_they_are(spec: str) -> None:
    layer, x = Layer(build(spec)), embeddings(2)
    positions = Positions.padded(torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1] * 7]))
    q, k, v = layer.project(x, positions)
    kept = [part.clone() for part in (x, q, k, v, positions.q, positions.k, positions.q_segment)]
    for backend in ("reference", "sdpa"):
        lw.attention(q, k, v, layer.encoding, positions, backend=backend)
    layer.project(x, positions)
    for part, before in zip((x, q, k, v, positions.q, positions.k, positions.q_segment), kept, strict=True):
        assert torch.equal(part, before)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["reference", "sdpa"])
def test_outputs_keep_the_dtype_and_are_near_those_of_float64(
    spec: str, dtype: torch.dtype, backend: str, tolerance: dict[torch.dtype, float]
) -> None:
    x, positions = embeddings(2), Positions.sequence(LENGTH)
    with torch.no_grad():
        exact = Layer(build(spec, torch.float64), torch.float64)(x.double(), positions, backend="reference")
        out = Layer(build(spec, dtype), dtype)(x.to(dtype), positions, backend=backend)
    assert out.dtype == dtype
    # Rotations and slopes are float32; products of a projection, a logit and a value stack some roundings.
    allowed = 8 * max(tolerance[dtype], tolerance[torch.float32] / 8)
    torch.testing.assert_close(out.double(), exact, rtol=allowed, atol=allowed)


@pytest.mark.parametrize("spec", SPECS)
def test_a_module_in_low_precision_serves_queries_in_another(spec: str) -> None:
    encoding = build(spec, torch.bfloat16)
    q = torch.randn(1, HEADS, LENGTH, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        reference, sdpa = (lw.attention(q, q, q, encoding, backend=name) for name in ("reference", "sdpa"))
    assert reference.dtype == sdpa.dtype == torch.float32
    torch.testing.assert_close(reference, sdpa, **TIGHT)


@pytest.mark.parametrize("spec", SPECS)
def test_under_autocast_the_reference_stays_exact_and_the_others_near(spec: str) -> None:
    encoding = build(spec)
    q = torch.randn(1, HEADS, LENGTH, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = lw.attention(q, q, q, encoding, backend="reference")
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(lw.attention(q, q, q, encoding, backend="reference"), plain, rtol=0, atol=0)
            fast = lw.attention(q, q, q, encoding, backend="sdpa")
            mixed = lw.attention(q, q, q.bfloat16(), encoding)
    torch.testing.assert_close(fast.float(), plain, rtol=0.05, atol=0.05)
    torch.testing.assert_close(mixed.float(), plain, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_is_saved_but_parameters_and_none_depends_on_a_length_save_the_learned_table(spec: str) -> None:
    encoding = build(spec)
    assert list(encoding.buffers()) == []
    assert set(encoding.state_dict()) == {name for name, _ in encoding.named_parameters()}
    shapes = {name: part.shape for name, part in lw.build(spec, DIMS).named_parameters()}
    longer = lw.build(spec, lw.Dims(dim=DIM, heads=HEADS, head_dim=HEAD_DIM, max_length=128))
    same = {name: part.shape for name, part in longer.named_parameters()} == shapes
    assert same == (getattr(encoding, "max_position", None) is None)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deepcopy", "pickle"])
def test_copies_give_the_same_numbers(spec: str, clone: Callable[[nn.Module], nn.Module]) -> None:
    encoding = build(spec)
    x, positions = embeddings(), Positions.sequence(LENGTH)
    with torch.no_grad():
        assert torch.equal(Layer(clone(encoding))(x, positions), Layer(encoding)(x, positions))
    assert repr(clone(encoding)) == repr(encoding)


@pytest.mark.parametrize("spec", SPECS)
def test_a_module_made_on_meta_is_right_once_its_state_is_loaded(spec: str) -> None:
    encoding = build(spec)
    with torch.device("meta"):
        empty = lw.build(spec, DIMS)
    empty = empty.to_empty(device="cpu")
    empty.load_state_dict(encoding.state_dict(), strict=True)
    x, positions = embeddings(), Positions.sequence(LENGTH)
    with torch.no_grad():
        assert torch.equal(Layer(empty)(x, positions), Layer(encoding)(x, positions))


@pytest.mark.parametrize("spec", SPECS)
def test_embeddings_that_do_not_match_their_positions_are_refused_and_never_broadcast(spec: str) -> None:
    encoding = build(spec)
    if not isinstance(encoding, lw.EmbedsPositions):
        assert lw.prepare(encoding, Positions.sequence(LENGTH)).embed is None
        return
    rows = Positions.padded(torch.ones(3, LENGTH).bool())
    axes = Positions(torch.zeros(1, LENGTH, 2).long(), torch.zeros(1, LENGTH, 2).long())
    for positions in (Positions.sequence(1), Positions.step(LENGTH - 1), rows, axes):
        with pytest.raises(lw.InvalidArgument, match=r"do not match positions of|positions of one axis"):
            encoding.embed_positions(embeddings(1), positions)


@pytest.mark.parametrize("spec", SPECS)
def test_every_parameter_has_its_gradient_in_float64(spec: str) -> None:
    encoding = build(spec, torch.float64)
    names = [name for name, _ in encoding.named_parameters()]
    layer, x = Layer(encoding, torch.float64), embeddings(dtype=torch.float64)[:, :4]

    def output(*values: Tensor) -> Tensor:
        holder = nn.Module()
        holder.encoding = encoding
        for name, value in zip(names, values[1:], strict=True):
            delattr(encoding, name)
            setattr(encoding, name, value)
        return layer(values[0], Positions.sequence(4), backend="reference")

    values = [x.requires_grad_(), *(part.detach().clone().requires_grad_() for part in encoding.parameters())]
    assert torch.autograd.gradcheck(output, tuple(values), fast_mode=True)
