"""The dtype in which angles are formed."""

from __future__ import annotations

import torch


def widest_float(device: torch.device) -> torch.dtype:
    """float64 where the device has it, else float32: angles of far positions need the digits."""
    return torch.float32 if device.type == "mps" else torch.float64
