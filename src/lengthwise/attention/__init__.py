"""Attention with any encoding: the call, the plan behind it, and the backends."""

from lengthwise.attention import blocks as blocks
from lengthwise.attention import flex as flex
from lengthwise.attention import reference as reference
from lengthwise.attention import sdpa as sdpa
from lengthwise.attention import toeplitz as toeplitz
from lengthwise.attention.attend import attend, attention, attention_weights, explain_attention
from lengthwise.attention.merge import merge
from lengthwise.attention.plan import Explanation, Plan, plan
from lengthwise.attention.request import Backend, Request, backends

__all__ = [
    "Backend",
    "Explanation",
    "Plan",
    "Request",
    "attend",
    "attention",
    "attention_weights",
    "backends",
    "explain_attention",
    "merge",
    "plan",
]
