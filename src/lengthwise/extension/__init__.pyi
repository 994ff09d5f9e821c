"""Written by `make stubs` from the registry; do not edit."""

from lengthwise.extension.extend import applies as applies
from lengthwise.extension.extend import extend as extend
from lengthwise.extension.extended import Extended as Extended
from lengthwise.extension.interpolate import Interpolate as Interpolate
from lengthwise.extension.method import Branch as Branch
from lengthwise.extension.method import Method as Method
from lengthwise.extension.registry import extensions as extensions

__all__ = [
    "Branch",
    "Extended",
    "Interpolate",
    "Method",
    "applies",
    "extend",
    "extensions",
]
