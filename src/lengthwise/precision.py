"""Which dtypes are computed in, and where autocast changes them."""

from __future__ import annotations

import torch


def widest_float(device: torch.device) -> torch.dtype:
    """float64 where the device has it, else float32: angles of far positions need the digits."""
    return torch.float32 if device.type == "mps" else torch.float64


def autocasts(device_type: str) -> bool:
    """Whether autocast is on for devices of a kind, some of which do not know it."""
    return torch.amp.is_autocast_available(device_type) and torch.is_autocast_enabled(device_type)
