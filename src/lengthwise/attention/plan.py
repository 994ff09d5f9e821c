"""From a request to the backend that runs it.

Order of preference: among the backends that do not refuse, the one with the lowest cost; at equal cost, the first by
name. So `toeplitz` takes a bias of distance and masks on a CPU, `sdpa` what needs neither, `blocks` what has no
structure, `reference` what is small, and `flex`, which compiles, nothing by itself. A backend asked for by name runs or
says why it can't; there is no falling back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lengthwise.attention.request import Backend, Request, Run, backends
from lengthwise.errors import BackendRefused


@dataclass(frozen=True, eq=False)
class Plan:
    """An attention that is ready to run: masks are made, the backend is chosen.

    Args:
        backend: its name.
        run: the computation.
        request: what was planned for.
    """

    backend: str
    run: Run
    request: Request

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
        """Attend: `[batch, heads, q, head_dim]` of q and the last dimension of v; with the log-sum-exp if asked for."""
        if 0 in (self.request.batch, self.request.q_length, self.request.k_length):
            # Zeros whose gradients are defined, and are zeros too: sums of nothing.
            nothing = k[..., :0].sum() + v[..., :0].sum()
            zeros = (q[..., :0].sum(-1, keepdim=True) + nothing).expand(*q.shape[:-1], v.shape[-1])
            wide = torch.promote_types(q.dtype, torch.float32)
            return (zeros, q.new_full(q.shape[:-1], float("-inf"), dtype=wide)) if self.request.lse else zeros
        return self.run(q, k, v)


@dataclass(frozen=True)
class Explanation:
    """What each backend says to a request; printing it gives a table.

    Args:
        chosen: name of the backend that would run.
        reasons: for each backend, why it refuses or what it costs.
    """

    chosen: str
    reasons: dict[str, str]

    def __str__(self) -> str:
        width = max(len(name) for name in self.reasons)
        return "\n".join(
            f"{'->' if name == self.chosen else '  '} {name:<{width}}  {reason}"
            for name, reason in self.reasons.items()
        )


def plan(request: Request, backend: str = "auto") -> Plan:
    """Choose a backend and let it do all that does not need the tensors.

    Raises:
        UnknownName: no backend of this name.
        BackendRefused: the named backend can't take the request, with its reason.
    """
    name = choose(request) if backend == "auto" else backend
    reason = refusal(backends[name], request)
    if reason is not None:
        raise BackendRefused(f"attention backend {name!r} can't take this: {reason}; backend='auto' picks one that can")
    return Plan(name, backends[name].plan(request), request)


def choose(request: Request) -> str:
    """Name of the cheapest backend that takes the request."""
    able = [(backends[name].cost(request), name) for name in _names() if refusal(backends[name], request) is None]
    return min(able)[1]


def explain(request: Request) -> Explanation:
    """What each backend says to the request, without running any."""
    reasons: dict[str, str] = {}
    for name in _names():
        backend = backends[name]
        why = refusal(backend, request)
        reasons[name] = f"refuses: {why}" if why else f"can run, cost about {backend.cost(request):g}"
    return Explanation(choose(request), reasons)


def refusal(backend: Backend, request: Request) -> str | None:
    """Why a backend can't take a request, or None."""
    if request.lse and not getattr(backend, "gives_lse", False):
        return "it gives no log-sum-exp"
    return backend.refuses(request)


def _names() -> list[str]:
    # A compiler can't trace the search for other packages' backends: it chooses among those that are loaded.
    return [name for name, _ in backends.own_items()] if torch.compiler.is_compiling() else list(backends)
