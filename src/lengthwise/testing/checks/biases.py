"""Biases: what their structure says is what their dense form says."""

from __future__ import annotations

import torch
from torch import Tensor

from lengthwise.bias import Bias, DistanceBias, LowRankBias, SumBias
from lengthwise.positions import Positions
from lengthwise.testing.checks.registry import check
from lengthwise.testing.probe import Probe, visible
from lengthwise.testing.subject import Subject
from lengthwise.testing.tolerances import rounding
from lengthwise.testing.verdict import Broken, NotApplicable, agree


@check(
    "the structure of a bias says what its dense form says",
    cause="a vector, features or rows that were made for other positions",
    sites=("bias", "hidden"),
)
def structure_equals_dense(subject: Subject) -> None:
    """Vectors of all distances, rows of pairs, features, sums; and the same positions row by row."""
    length = subject.fits(33)
    probe = Probe(subject, subject.build())
    x = probe.inputs(2, length)
    asked = {"a sequence": subject.sequence(length)}
    if subject.causal:
        asked["a step"] = subject.part(torch.arange(length)[length // 2 :], torch.arange(length))
    for what, positions in asked.items():
        with torch.no_grad():
            prepared, _ = probe.prepare_step(x, positions)
            if prepared.bias is None:
                raise NotApplicable("it adds no bias")
            seen = visible(prepared.positions)[0]
            _structure(prepared.bias, prepared.positions, seen, what)
            if "hidden" in subject.sites:
                continue
            dense = prepared.bias.dense()
            spread = subject.rows(positions, 2)
            by_rows, _, _ = probe.prepare(x[:, length - positions.q_length :], spread)
            values = by_rows.bias.dense() if by_rows.bias is not None else dense
            _equal(values, dense.expand_as(values), seen, f"{what} written out for 2 rows")


def _structure(bias: Bias, positions: Positions, seen: Tensor, what: str) -> None:
    dense = bias.dense()
    if dense.dtype not in (torch.float32, torch.float64):
        raise Broken(f"the bias of {what} is {dense.dtype}: expected float32 or wider")
    middle, last = positions.q_length // 2, positions.k_length * 3 // 4
    rows = (slice(0, middle), slice(middle, positions.q_length))
    columns = (slice(0, last), slice(last, positions.k_length))
    parts = [torch.cat([bias.block(row, column) for column in columns], dim=-1) for row in rows]
    _equal(torch.cat(parts, dim=-2), dense, seen, f"{what} in four blocks")
    if isinstance(bias, SumBias):
        for term in bias.terms:
            _structure(term, positions, seen, what)
        total = torch.stack([term.dense().broadcast_to(dense.shape) for term in bias.terms]).sum(0)
        _equal(dense, total, seen, f"the sum over {what}")
    elif isinstance(bias, DistanceBias):
        distance = bias.positions.distance()
        flat = bias.of_distance(distance.flatten())
        if flat.shape != (dense.shape[-3], distance.numel()):
            raise Broken(f"of_distance of {distance.numel()} distances gives {list(flat.shape)}")
        _equal(flat.view(-1, *distance.shape).movedim(0, -3), dense, seen, f"of_distance of {what}, one by one")
        if bias.positions.aligned:
            vector, keys = bias.vector(), bias.positions.k_length
            q_order, k_order = bias.positions.orders()
            index = q_order.unsqueeze(-1) - k_order.unsqueeze(-2) + keys - 1
            _equal(vector[:, index].movedim(0, -3), dense, seen, f"the vector of distances of {what}")
    elif isinstance(bias, LowRankBias):
        q, k, constant = bias.q_features.double(), bias.k_features.double(), bias.row_constant.double()
        _equal(torch.einsum("...qr,...kr->...qk", q, k) + constant[..., None], dense, seen, f"features of {what}")


def _equal(one: Tensor, other: Tensor, seen: Tensor, what: str) -> None:
    agree(one.masked_fill(~seen, 0.0), other.masked_fill(~seen, 0.0), 2 * rounding(torch.float32), what)
