from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from lengthwise.report.colours import OUTLINES, PALETTE, SHAPES, styles

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB.
SIGHT = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def linear(colour):
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(a, b):
    low, high = sorted(float(np.dot([0.2126, 0.7152, 0.0722], linear(colour))) for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("sight", SIGHT)
def test_colours_stay_apart_under_every_kind_of_colour_sight(sight):
    seen = [lab(np.array(SIGHT[sight]) @ linear(colour)) for colour in PALETTE]
    assert min(np.linalg.norm(a - b) for a, b in combinations(seen, 2)) > 15


@pytest.mark.parametrize("ground", ["#ffffff", "#16191d"])
def test_colours_stand_out_from_a_light_and_a_dark_page(ground):
    assert min(contrast(colour, ground) for colour in PALETTE) > 2.2


def test_an_encoding_keeps_its_style_whatever_else_is_on_the_page():
    core = ["none", "learned", "sinusoidal", "rotary", "alibi", "t5", "kerple", "fire"]
    together = styles(core)
    assert len({style.colour for style in together.values()}) == 8
    assert len({style.shape for style in together.values()}) == 8
    assert styles(reversed(core)) == together
    assert all(styles([name])[name] == together[name] for name in core)
    assert styles(["rotary(base=500000)", "rotary", "a b"])["rotary"] == together["rotary"]


def test_from_the_ninth_encoding_on_dashes_tell_equal_colours_apart():
    many = styles(f"encoding_{number}" for number in range(24))
    assert len(set(many.values())) == 24


def test_every_shape_has_an_outline():
    assert set(OUTLINES) == set(SHAPES)
