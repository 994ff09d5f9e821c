"""One pass, and all other ways to the same numbers: a cache, padding, packing, shards, another order of the batch."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from lengthwise.attention import attention, merge
from lengthwise.errors import BackendRefused
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe, quick_backends
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import output
from lengthwise.testing.verdict import Broken, NotApplicable, agree, same


@check("decoding with a cache is one pass, in every chunking", cause="distances counted among the new tokens alone")
def cache_equals_one_pass(subject: Subject) -> None:
    """All splits of 5 tokens, and of a longer sequence, with keys cached in the form that the encoding names."""
    if not subject.causal:
        raise NotApplicable("it is made for bidirectional attention")
    if subject.cached_keys == "none":
        raise NotApplicable("it says that no key may wait in a cache: cached_keys is 'none'")
    length = subject.fits(5)
    cuts = [[*map(int, bits)] for bits in itertools.product("01", repeat=max(length - 1, 0))]
    chunkings = [_chunks(length, cut) for cut in cuts] + [[0, length, 0]]
    for case in {case.kv_heads: case for case in subject.cases if case.batch}.values():
        probe = Probe(subject, subject.build(), subject.heads_of_keys(case))
        with torch.no_grad():
            x = probe.inputs(2, length)
            whole = probe(x, subject.sequence(length))
            for chunks in chunkings if case == subject.cases[0] else chunkings[:1] + chunkings[-2:]:
                agree(probe.decode(x, chunks), whole, output(torch.float32), f"chunks {chunks}")
            agree(probe.decode(x, chunkings[-2], aligned=False), whole, output(torch.float32), "steps by rows")
    long = subject.fits(40)
    if long > length:
        probe = Probe(subject, subject.build())
        x = probe.inputs(1, long)
        with torch.no_grad():
            whole = probe(x, subject.sequence(long))
            out = probe.decode(x, [long - 9, 1, 8])
        agree(out, whole, output(torch.float32, long), f"chunks {[long - 9, 1, 8]}")


@check("padded rows are the rows alone, left and right", cause="one vector of positions for all rows, or padding read")
def padded_equals_alone(subject: Subject) -> None:
    """Rows of several lengths down to none; what stands in padding must not matter, and its rows are zeros."""
    length = subject.fits(7)
    lengths = [length, max(length - 4, 0), min(1, length), 0]
    probe = Probe(subject, subject.build())
    x = probe.inputs(len(lengths), length)
    index, count = torch.arange(length), torch.tensor(lengths)[:, None]
    masks = {"left": index >= length - count, "right": index < count}
    with torch.no_grad():
        for (side, mask), causal in itertools.product(masks.items(), subject.ways):
            positions = subject.padded(mask, causal)
            out = probe(x, positions)
            other = probe(torch.where(mask[..., None], x, 5.0), positions)
            for row, own in enumerate(lengths):
                real = mask[row]
                alone = probe(x[row : row + 1, real], subject.sequence(own, causal=causal))
                what = f"row {row}, {own} tokens padded {side}, {_word(causal)}"
                agree(out[row : row + 1, :, real], alone, output(torch.float32), what)
                agree(other[row : row + 1, :, real], alone, output(torch.float32), what + " with other padding")
                if bool(out[row][:, ~real].ne(0).any()):
                    raise Broken(f"{what}: padding does not give zeros")


@check("packed documents are the documents alone", cause="positions or sums that run on across the border")
def packed_equals_apart(subject: Subject) -> None:
    """Documents in one row, one of them empty, one of a single token."""
    lengths = [subject.fits(n) for n in (3, 0, 1, 5)]
    probe = Probe(subject, subject.build())
    x = probe.inputs(2, sum(lengths))
    if subject.max_position is not None and sum(lengths) > subject.max_position:
        raise NotApplicable(f"its table of {subject.max_position} is too short for several documents")
    with torch.no_grad():
        for causal in subject.ways:
            out = probe(x, subject.packed(lengths, causal))
            apart = [probe(part, subject.sequence(part.shape[1], causal=causal)) for part in x.split(lengths, dim=1)]
            what = f"documents of {lengths} tokens, {_word(causal)}"
            agree(out, torch.cat(apart, 2), output(torch.float32), what)


@check("rows of a batch do not know each other", cause="a result of the first row used for all")
def batch_permuted(subject: Subject) -> None:
    """Another order of the rows gives the same rows, each with positions of its own."""
    length = subject.fits(6)
    probe = Probe(subject, subject.build())
    x = probe.inputs(3, length)
    order = torch.tensor([2, 0, 1])
    mask = torch.arange(length) >= torch.tensor([[0], [2], [1]])
    with torch.no_grad():
        for what, one, other in (
            ("shared positions", subject.sequence(length), subject.sequence(length)),
            ("positions of each row", subject.padded(mask), subject.padded(mask[order])),
        ):
            expected = probe(x, one)[order]
            agree(probe(x[order], other), expected, output(torch.float32), what)
        whole = probe(x, subject.sequence(length))
        spread = probe(x, subject.rows(subject.sequence(length), 3))
        agree(spread, whole, output(torch.float32), "positions written out for each row")


@check(
    "shards with their own positions and orders merge to the whole",
    cause="an index counted in the shard in place of its position",
    claim="pairwise",
)
def shards_equal_whole(subject: Subject) -> None:
    """Each pair of a shard of queries and one of keys, merged by log-sum-exp."""
    if "hidden" in subject.sites or getattr(subject.build(), "normalizes", False):
        raise NotApplicable("its logits are no function of query, key and their positions")
    length = subject.fits(7)
    probe = Probe(subject, subject.build())
    x = probe.inputs(2, length)
    index = torch.arange(length)
    striped = [index[0::2], index[1::2]]
    blocks = [index[:3], index[3:4], index[4:]]
    with torch.no_grad():
        whole = probe(x, subject.sequence(length))
        for what, shards in (("blocks", blocks), ("stripes", striped)):
            shards = [shard for shard in shards if len(shard)]
            for queries in shards:
                merged, _ = merge([_shard(probe, x, queries, keys) for keys in shards])
                agree(merged, whole[:, :, queries], output(torch.float32), f"{what}, queries {queries.tolist()}")


@check("a query that sees nothing gives zeros", cause="a softmax over no key")
def empty_rows_zero(subject: Subject) -> None:
    """In three dtypes, by every backend that takes it; in more rows than a fast road takes at once, too."""
    for dtype, wanted in ((torch.float32, 4), (torch.float16, 4), (torch.float64, 4), (torch.float32, 257)):
        length = subject.fits(wanted)
        probe = Probe(subject, subject.build(dtype), dtype=dtype)
        x, positions = probe.inputs(2, length), subject.padded(torch.zeros(2, length, dtype=torch.bool))
        with torch.no_grad():
            for backend in ("auto", *quick_backends()):
                try:
                    out = probe(x, positions, backend=backend)
                except BackendRefused:
                    if backend in ("auto", "reference"):
                        raise
                    continue
                same(out, torch.zeros_like(out), f"{length} rows without a key, {dtype}, backend {backend}")


def _word(causal: bool) -> str:
    return "causal" if causal else "bidirectional"


def _chunks(length: int, cut: list[int]) -> list[int]:
    """Sizes of the chunks of a sequence that is cut behind token i where `cut[i]`."""
    ends = [place + 1 for place, here in enumerate(cut) if here] + [length]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def _shard(probe: Probe, x: Tensor, queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Output of some queries among some keys, and the log-sum-exp of their logits."""
    subject = probe.subject
    parts: list[list[Tensor]] = []
    for index in (queries, keys):
        _, hidden, _ = probe.prepare(x[:, index], subject.part(index, index, ordered=True))
        parts.append(probe.project(hidden))
    positions = subject.part(queries, keys, ordered=True)
    prepared, _, _ = probe.prepare(x[:, queries], positions)
    (q, _, _), (_, k, v) = parts
    return attention(q, k, v, prepared, backend="reference", return_lse=True)
