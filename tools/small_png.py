"""Make a PNG of few colours small: a palette in place of four channels. The same bytes each time."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

SIGNATURE = b"\x89PNG\r\n\x1a\n"
COLOURS = 256


def shrink(png: bytes) -> bytes:
    """The picture on white, in at most 256 colours: steps of a channel are doubled until these suffice."""
    pixels = _read(png).astype(np.int64)
    alpha = pixels[..., 3:]
    flat = (pixels[..., :3] * alpha + 255 * (255 - alpha)) // 255
    step = 1
    while True:
        rounded = np.minimum((flat + step // 2) // step * step, 255)
        codes = rounded @ np.array([65536, 256, 1])
        colours, index = np.unique(codes, return_inverse=True)
        if len(colours) <= COLOURS:
            break
        step *= 2
    rows = index.reshape(codes.shape).astype(np.uint8)
    palette = np.stack((colours >> 16, colours >> 8 & 255, colours & 255), -1).astype(np.uint8)
    height, width = rows.shape
    body = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", zlib.compress(body, 9)), (b"IEND", b""))
    return SIGNATURE + b"".join(_chunk(name, data) for name, data in parts)


def _read(png: bytes) -> NDArray[np.uint8]:
    """Pixels `[height, width, 4]` of an RGBA PNG with 8 bits a channel, not interlaced."""
    place, body, width, height = len(SIGNATURE), b"", 0, 0
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        name, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        if name == b"IHDR":
            width, height, *kind = struct.unpack(">IIBBBBB", data)
            if kind[:2] != [8, 6] or kind[4]:
                raise ValueError(f"expected 8-bit RGBA without interlacing, not {kind}")
        elif name == b"IDAT":
            body += data
        place += 12 + size
    lines, above = zlib.decompress(body), bytearray(4 * width)
    pixels = np.empty((height, 4 * width), dtype=np.uint8)
    for y in range(height):
        start = y * (4 * width + 1)
        above = _unfilter(lines[start], bytearray(lines[start + 1 : start + 1 + 4 * width]), above)
        pixels[y] = np.frombuffer(above, dtype=np.uint8)
    return pixels.reshape(height, width, 4)


def _unfilter(kind: int, line: bytearray, above: bytearray) -> bytearray:
    """Undo one of PNG's five filters: each byte is told as a difference from its neighbours."""
    if kind == 2:
        return bytearray((np.frombuffer(line, np.uint8) + np.frombuffer(above, np.uint8)).tobytes())
    for x in range(len(line) if kind else 0):
        left, up, corner = (line[x - 4], above[x], above[x - 4]) if x >= 4 else (0, above[x], 0)
        if kind == 4:
            guess = left + up - corner
            near = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
        else:
            near = left if kind == 1 else (left + up) // 2
        line[x] = (line[x] + near) & 255
    return line


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
