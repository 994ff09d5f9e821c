"""What a hidden state knows of position: small predictors of it, with shuffled labels as control.

A probe is fitted on some rows and scored on others that it never saw. R² is 1 where it predicts exactly and about 0
where it knows no more than the mean; with shuffled labels it must be about 0, or the probe remembers what it was shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from lengthwise.errors import InvalidArgument, nearest

Kind = Literal["linear", "mlp"]


@dataclass(frozen=True)
class ProbeScore:
    """How well a probe predicts on rows that it never saw.

    Args:
        r2: part of the variance that it explains.
        error: mean absolute error, in tokens.
    """

    r2: float
    error: float


def probe_position(
    hidden: Float[Tensor, "rows length dim"], kind: Kind = "linear", *, shuffled: bool = False, seed: int = 0
) -> ProbeScore:
    """Predict the place of each token from its hidden state.

    Args:
        hidden: states of several sequences, at least 4; the last quarter of the rows is held out.
        kind: `"linear"` (ridge regression) or `"mlp"` (one hidden layer of 64).
        shuffled: permute the places within each row before fitting: the control.
        seed: of the permutation and of the small network.

    Raises:
        InvalidArgument: too few rows, or an unknown kind.
    """
    rows, length, _ = hidden.shape
    generator = torch.Generator().manual_seed(seed)
    place = torch.arange(length, dtype=torch.float64).expand(rows, length)
    if shuffled:
        place = torch.stack([row[torch.randperm(length, generator=generator)] for row in place])
    kept = _split(rows)
    x = hidden.detach().double().cpu()
    return _fit(
        x[:kept].flatten(0, 1), place[:kept].flatten(), x[kept:].flatten(0, 1), place[kept:].flatten(), kind, seed
    )


def probe_distance(
    hidden: Float[Tensor, "rows length dim"],
    kind: Kind = "linear",
    *,
    pairs: int = 64,
    shuffled: bool = False,
    seed: int = 0,
) -> ProbeScore:
    """Predict how far apart two tokens stand from their two hidden states; `pairs` drawn a row. Else as above."""
    rows, length, _ = hidden.shape
    generator = torch.Generator().manual_seed(seed)
    kept = _split(rows)
    later = torch.randint(0, length, (rows, pairs), generator=generator)
    earlier = (torch.rand(rows, pairs, generator=generator) * (later + 1)).long()
    distance = (later - earlier).double()
    if shuffled:
        distance = torch.stack([row[torch.randperm(pairs, generator=generator)] for row in distance])
    x = hidden.detach().double().cpu()
    index = torch.arange(rows).unsqueeze(-1)
    both = torch.cat((x[index, later], x[index, earlier]), dim=-1)  # [rows, pairs, 2 dim]
    return _fit(
        both[:kept].flatten(0, 1),
        distance[:kept].flatten(),
        both[kept:].flatten(0, 1),
        distance[kept:].flatten(),
        kind,
        seed,
    )


def _split(rows: int) -> int:
    if rows < 4:
        raise InvalidArgument(f"a probe needs at least 4 sequences, of which it never sees a quarter, not {rows}")
    return rows - rows // 4


def _fit(x: Tensor, y: Tensor, x_new: Tensor, y_new: Tensor, kind: Kind, seed: int) -> ProbeScore:
    mean, spread = x.mean(dim=0), x.std(dim=0).clamp(min=1e-6)
    x, x_new = (x - mean) / spread, (x_new - mean) / spread
    middle, scale = y.mean(), y.std().clamp(min=1e-12)
    target = (y - middle) / scale
    if kind == "linear":
        ridge = 1e-3 * len(x) * torch.eye(x.shape[1], dtype=torch.float64)
        guess = x_new @ torch.linalg.solve(x.T @ x + ridge, x.T @ target)
    elif kind == "mlp":
        guess = _small_network(x.float(), target.float(), x_new.float(), seed).double()
    else:
        raise InvalidArgument(f"unknown kind {kind!r} of probe: {nearest(kind, ('linear', 'mlp'))}")
    missed = guess * scale + middle - y_new
    r2 = 1 - missed.square().sum() / (y_new - y_new.mean()).square().sum().clamp(min=1e-12)
    return ProbeScore(float(r2), float(missed.abs().mean()))


def _small_network(x: Tensor, y: Tensor, x_new: Tensor, seed: int) -> Tensor:
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(x.shape[1], 64), nn.GELU(), nn.Linear(64, 1))
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2, weight_decay=1e-2)
        for _ in range(300):
            chosen = torch.randint(0, len(x), (256,))
            loss = (network(x[chosen])[:, 0] - y[chosen]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    with torch.no_grad():
        return network(x_new)[:, 0]
