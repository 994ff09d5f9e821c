"""Random trees of string functions, and their values for a whole batch at once: the engine of the task PCFG.

A tree is written in prefix order, functions before their arguments, as int64 `[batch, nodes]`: 0 to 9 is the function,
`LEAF` a string, `BLANK` what a smaller tree does not need. Strings are int64 `[batch, nodes, 5]`, of 2 to 5 symbols at
leaves, blanks behind them.
"""

from __future__ import annotations

import torch
from jaxtyping import Int64
from torch import Tensor

from lengthwise.tasks.layout import BLANK

UNARY = ("copy", "reverse", "shift", "echo", "swap_first_last", "repeat")
BINARY = ("append", "prepend", "remove_first", "remove_second")
FUNCTIONS = (*UNARY, *BINARY)
COPY, REVERSE, SHIFT, ECHO, SWAP, REPEAT, APPEND, PREPEND, REMOVE_FIRST, REMOVE_SECOND, LEAF = range(11)
FEWEST, MOST = 2, 5


def draw_trees(
    generator: torch.Generator, batch: int, functions: int, symbols: int
) -> tuple[Int64[Tensor, "batch nodes"], Int64[Tensor, "batch nodes 5"]]:
    """Draw trees with so many functions, each function even over all ten, and every tree with them as likely.

    A random order of the nodes of a tree is a prefix order after exactly one rotation (the cycle lemma), so rotating a
    random order draws trees evenly.
    """
    device = generator.device
    kinds = torch.randint(len(FUNCTIONS), (batch, functions), generator=generator, device=device)
    binary = (kinds >= len(UNARY)).sum(1, keepdim=True)  # [batch, 1]; a tree has one leaf more
    width = 2 * functions + 1
    leaf = torch.arange(functions + 1, device=device) <= binary
    nodes = torch.cat([kinds, torch.where(leaf, LEAF, BLANK)], dim=1)  # [batch, width]
    keys = torch.rand(batch, width, generator=generator, device=device)
    nodes = nodes.gather(1, keys.masked_fill(nodes == BLANK, 2.0).argsort(dim=1))
    # Open places for expressions: a function of two strings opens one, a leaf closes one.
    opened = (nodes >= len(UNARY)).long() - 2 * (nodes == LEAF).long()
    opened = opened.cumsum(1).masked_fill(nodes == BLANK, width)
    # The right rotation begins behind the first place where the fewest are open.
    least = opened.min(dim=1, keepdim=True).values
    start = (opened == least).int().argmax(dim=1, keepdim=True) + 1
    size = functions + binary + 1
    place = torch.arange(width, device=device)
    turned = nodes.gather(1, torch.where(place < size, (place + start) % size, place))
    count = torch.randint(FEWEST, MOST + 1, (batch, width, 1), generator=generator, device=device)
    strings = torch.randint(symbols, (batch, width, MOST), generator=generator, device=device)
    used = (torch.arange(MOST, device=device) < count) & (turned == LEAF)[..., None]
    return turned, strings.masked_fill(~used, BLANK)


def measure(
    nodes: Int64[Tensor, "batch nodes"], strings: Int64[Tensor, "batch nodes 5"]
) -> tuple[Int64[Tensor, "batch nodes"], Int64[Tensor, "batch nodes"]]:
    """How many symbols the value of each node has, at most 2^40, and where its second argument stands (0: it has none).

    The first argument stands right behind its function. From right to left, a stack holds the expressions that are
    complete; on top is the first argument of the next function.
    """
    batch, width = nodes.shape
    by_place = nodes.T.contiguous()  # [nodes, batch]: a place of all rows lies together
    is_leaf = by_place == LEAF
    is_binary = (by_place >= len(UNARY)) & ~is_leaf
    is_inner = (by_place != BLANK) & ~is_leaf
    firsts = (by_place != REMOVE_FIRST).long() + (by_place == REPEAT)  # how often the first argument comes
    others = (is_binary & (by_place != REMOVE_SECOND)).long()
    counts = (strings != BLANK).sum(2).T.contiguous()
    seconds = torch.zeros_like(by_place)
    rows = torch.arange(batch, device=nodes.device)
    stack = nodes.new_zeros(width // 2 + 2, batch)  # places of complete expressions
    # How many are complete behind each place; of rows that have fewer nodes, none yet.
    top = (is_leaf.long() - is_binary.long()).flip(0).cumsum(0).flip(0)  # [nodes, batch]
    for place in range(width - 1, -1, -1):
        if place < width - 1:
            second = stack[(top[place + 1] - 2).clamp_(min=0), rows] * is_binary[place]
            value = counts[place + 1] * firsts[place] + counts[second, rows] * others[place]
            value = value + (by_place[place] == ECHO)
            counts[place] = torch.where(is_inner[place], value.clamp_(max=2**40), counts[place])
            seconds[place] = second
        stack[(top[place] - 1).clamp_(min=0), rows] = place
    return counts.T.contiguous(), seconds.T.contiguous()


def answers_of(
    nodes: Int64[Tensor, "batch nodes"],
    strings: Int64[Tensor, "batch nodes 5"],
    counts: Int64[Tensor, "batch nodes"],
    seconds: Int64[Tensor, "batch nodes"],
    longest: int,
) -> Int64[Tensor, "batch {longest}"]:
    """The value of each tree with blanks behind it, where none has more than `longest` symbols.

    Every symbol of a value is followed from the root to the leaf that it comes from.
    """
    batch, width = nodes.shape
    device = nodes.device
    wanted = torch.arange(longest, device=device) < counts[:, :1]  # [batch, longest]
    row, column = wanted.nonzero(as_tuple=True)  # one entry a symbol of an answer
    at, offset = row * width, column.clone()  # the node as an index into all nodes, and the place in its value
    kinds, sizes, second_places = nodes.flatten(), counts.flatten(), seconds.flatten()
    moving = torch.arange(len(at), device=device)
    while len(moving):
        here, place = at[moving], offset[moving]
        kind = kinds[here]
        is_inner = kind != LEAF
        moving, here, place, kind = (values[is_inner] for values in (moving, here, place, kind))
        second = here - here % width + second_places[here]
        n, m = sizes[here + 1], sizes[second]
        at[moving], offset[moving] = _one_down(kind, here, second, place, n, m)
    out = nodes.new_full((batch, longest), BLANK)
    out[row, column] = strings.flatten(0, 1)[at, offset]
    return out


def written(nodes: Int64[Tensor, "batch nodes"], strings: Int64[Tensor, "batch nodes 5"], symbols: int) -> Tensor:
    """The prompt of each tree, `[batch, 7 * nodes]` with blanks: functions, strings, a comma before second arguments.

    What comes behind a string can only be the second argument of a function that still waits for one.
    """
    behind_leaf = torch.nn.functional.pad(nodes[:, :-1] == LEAF, (1, 0))
    comma = torch.where(behind_leaf & (nodes != BLANK), symbols + len(FUNCTIONS), BLANK)
    names = torch.where((nodes < LEAF) & (nodes != BLANK), nodes + symbols, BLANK)
    return torch.cat([comma[..., None], names[..., None], strings], dim=2).flatten(1)


def _one_down(kind: Tensor, here: Tensor, second: Tensor, place: Tensor, n: Tensor, m: Tensor) -> tuple[Tensor, Tensor]:
    """From a place in a function's value to the argument that it comes from, and the place there.

    Args:
        kind: the function.
        here: where it stands.
        second: where its second argument stands.
        place: the place in its value.
        n: number of symbols of the first argument.
        m: number of symbols of the second argument.
    """
    to_second = (kind == REMOVE_FIRST) | ((kind == APPEND) & (place >= n)) | ((kind == PREPEND) & (place < m))
    inside = torch.where((kind == APPEND) & to_second, place - n, place)
    inside = torch.where((kind == PREPEND) & ~to_second, place - m, inside)
    inside = torch.where(kind == REVERSE, n - 1 - place, inside)
    inside = torch.where(kind == SHIFT, place + 1, inside)
    inside = torch.where((kind == SHIFT) & (inside == n), 0, inside)
    inside = torch.where((kind == ECHO) & (place == n), n - 1, inside)
    inside = torch.where((kind == SWAP) & (place == 0), n - 1, inside)
    inside = torch.where((kind == SWAP) & (place == n - 1), 0, inside)
    inside = torch.where((kind == REPEAT) & (place >= n), place - n, inside)
    return torch.where(to_second, second, here + 1), inside
