"""Passkey retrieval by depth: numbers are hidden in a long text, and the model is asked for each of them.

Mohtashami and Jaggi 2023 (arXiv 2305.16300) hide one number in repeated sentences. Here several, each with a name, lie
at different depths of one real text, which the model then reads once: each question continues from the same cache,
cut back after it. The answer is given to the model (teacher forcing), and counts as found where each of its tokens is
the likeliest one.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from lengthwise.errors import DataError
from lengthwise.hf.stretch.perplexity import body, logits_of, token_losses

NAMES = (
    *("Lisbon", "Oslo", "Cairo", "Lima", "Tokyo", "Delhi", "Accra", "Quito"),
    *("Paris", "Rome", "Berlin", "Madrid", "Dublin", "Warsaw", "Athens", "Vienna"),
    *("Prague", "Havana", "Nairobi", "Jakarta", "Bogota", "Tunis", "Hanoi", "Seoul"),
    *("Kiev", "Riga", "Sofia", "Minsk", "Doha", "Dakar", "Ottawa", "Manila"),
)
DIGITS = 5


@dataclass(frozen=True, eq=False)
class Haystack:
    """A text with numbers hidden in it, and the questions for them.

    Args:
        tokens: the text, `[length]`.
        depths: part of the text that lies before each number.
        questions: tokens of each question with its answer.
        answers: how many of the last tokens of each question are the answer.
    """

    tokens: Int64[Tensor, " length"]
    depths: tuple[float, ...]
    questions: tuple[Int64[Tensor, " question"], ...]
    answers: tuple[int, ...]


@dataclass(frozen=True)
class Found:
    """One answer.

    Args:
        depth: part of the text before the number.
        exact: whether every token of the number was the likeliest.
        loss: nats a token of the number.
    """

    depth: float
    exact: bool
    loss: float


def hide(tokenizer: Any, text: Int64[Tensor, " tokens"], *, length: int, keys: int, seed: int) -> Haystack:
    """Hide `keys` numbers evenly in a text, so that text and longest question together are `length` tokens.

    Raises:
        DataError: they would fill more than half of the length.
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(NAMES), generator=generator)[:keys].tolist()
    numbers = [
        str(int(number)) for number in torch.randint(10 ** (DIGITS - 1), 10**DIGITS, (keys,), generator=generator)
    ]

    def encode(words: str) -> list[int]:
        return tokenizer(words, add_special_tokens=False)["input_ids"]

    def ask(place: int) -> str:
        return f"\n\nWhat is the secret number of {NAMES[place]}? The secret number of {NAMES[place]} is"

    needles: list[list[int]] = []
    questions: list[list[int]] = []
    answers: list[int] = []
    for place, number in zip(order, numbers, strict=True):
        needles.append(encode(f"\nThe secret number of {NAMES[place]} is {number}. Remember it.\n"))
        asked = encode(ask(place))
        questions.append(
            encode(f"\n\nWhat is the secret number of {NAMES[place]}? The secret number of {NAMES[place]} is {number}")
        )
        shared = next((at for at, (a, b) in enumerate(zip(asked, questions[-1], strict=False)) if a != b), len(asked))
        answers.append(len(questions[-1]) - shared)
    filler = length - sum(map(len, needles)) - max(map(len, questions))
    if not length // 2 <= filler <= len(text):
        raise DataError(f"{keys} passkeys leave less than half of {length} tokens to text: use fewer with --keys")
    parts: list[Tensor] = []
    depths: list[float] = []
    edges = [round((number + 0.5) * filler / keys) for number in range(keys)]
    at = 0
    for edge, needle in zip(edges, needles, strict=True):
        parts += [text[at:edge], torch.tensor(needle, dtype=torch.int64)]
        at = edge
        depths.append(sum(map(len, parts[:-1])))
    tokens = torch.cat([*parts, text[at:filler]])
    shares = tuple(depth / len(tokens) for depth in depths)
    return Haystack(tokens, shares, tuple(torch.tensor(one, dtype=torch.int64) for one in questions), tuple(answers))


def retrieve(model: Any, haystack: Haystack) -> list[Found]:
    """Ask a model for each number; the text is read once where the model's cache can be cut back.

    Args:
        model: a causal language model of `transformers`.
        haystack: text and questions.
    """
    from transformers.cache_utils import DynamicCache

    found: list[Found] = []
    with torch.inference_mode():
        cache: Any = DynamicCache(config=model.config)
        named = "cache" if "cache" in inspect.signature(model.base_model.forward).parameters else "past_key_values"
        kept = {named: cache, "use_cache": True}
        shared = not any(getattr(layer, "is_sliding", False) for layer in cache.layers)
        if shared:
            body(model, haystack.tokens.unsqueeze(0).to(model.device), **kept)
        for depth, question, answer in zip(haystack.depths, haystack.questions, haystack.answers, strict=True):
            if shared:
                new = question.unsqueeze(0).to(model.device)
                hidden = body(model, new, **kept).last_hidden_state[0]
                cache.crop(-len(question))
            else:  # a window forgets what it would have to give back
                whole = torch.cat((haystack.tokens, question)).unsqueeze(0).to(model.device)
                hidden = body(model, whole, use_cache=False).last_hidden_state[0]
            logits = logits_of(model, hidden[-answer - 1 : -1])
            right = question[-answer:]
            exact = bool((logits.argmax(dim=-1).cpu() == right).all())
            found.append(Found(depth, exact, float(token_losses(logits, right).mean())))
    return found
