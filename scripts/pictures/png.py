"""Small PNG files: with a palette of 256 colours, in which pictures of a page look as before."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
Pixels = np.ndarray
"""Height, width and three bytes of colour."""


GAP, GROUND = 16, 0xC4
"""The pixels between pictures beside each other, and the grey there."""


def join(pictures: Sequence[bytes]) -> bytes:
    """Return pictures beside each other as one PNG, with a palette, which makes it a third of the size."""
    parts = [decode(picture) for picture in pictures]
    gap = np.full((parts[0].shape[0], GAP, 3), GROUND, np.uint8)
    return encode(np.concatenate([each for part in parts for each in (gap, part)][1:], axis=1))


def decode(picture: bytes) -> Pixels:
    """Return the pixels of a PNG as browsers write it: eight bits a channel, not interlaced."""
    chunks = list(_chunks(picture))
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    if depth != 8 or kind not in (2, 6) or interlaced:
        raise ValueError(f"Expected a PNG with 8 bits a channel and no palette, not depth {depth}, colour type {kind}.")
    channels = 3 if kind == 2 else 4
    data = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    lines = np.frombuffer(data, np.uint8).reshape(height, 1 + width * channels)
    pixels = np.zeros((height, width * channels), np.uint8)
    above = np.zeros(width * channels, np.uint8)
    for number in range(height):
        above = pixels[number] = _unfilter(int(lines[number, 0]), lines[number, 1:], above, channels)
    return pixels.reshape(height, width, channels)[:, :, :3]


def encode(pixels: Pixels) -> bytes:
    height, width, _ = pixels.shape
    palette, indexes = _quantize(pixels)
    lines = np.zeros((height, width + 1), np.uint8)  # every line begins with its filter: none, best with a palette
    lines[:, 1:] = indexes
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    data = zlib.compress(lines.tobytes(), 9)
    parts = [(b"IHDR", header), (b"PLTE", palette.tobytes()), (b"IDAT", data), (b"IEND", b"")]
    return _SIGNATURE + b"".join(_chunk(name, body) for name, body in parts)


def _quantize(pixels: Pixels) -> tuple[Pixels, Pixels]:
    """Return a palette, and for each pixel the index of the nearest colour."""
    packed = pixels.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colours, inverse, counts = np.unique(packed, return_inverse=True, return_counts=True)
    channels = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)
    palette = channels[_choose(channels, counts)]
    nearest = np.array([np.argmin(((palette - colour) ** 2).sum(axis=1)) for colour in channels], np.uint8)
    return palette.astype(np.uint8), nearest[inverse].reshape(packed.shape)


def _choose(channels: Pixels, counts: Pixels) -> list[int]:
    """Return the indexes of 256 colours: frequent ones, and rare ones that no other is near to, as of a glyph."""
    chosen = [int(np.argmax(counts))]
    distances = ((channels - channels[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < min(256, len(channels)):
        chosen.append(int(np.argmax(distances * np.sqrt(counts))))
        distances = np.minimum(distances, ((channels - channels[chosen[-1]]) ** 2).sum(axis=1))
    return chosen


def _unfilter(kind: int, line: Pixels, above: Pixels, channels: int) -> Pixels:
    if kind == 0:
        return line
    if kind == 2:
        return line + above
    result, source, up = bytearray(len(line)), line.tobytes(), above.tobytes()
    for index, value in enumerate(source):
        left = result[index - channels] if index >= channels else 0
        if kind == 1:
            guess = left
        elif kind == 3:
            guess = (left + up[index]) // 2
        else:
            guess = _paeth(left, up[index], up[index - channels] if index >= channels else 0)
        result[index] = (value + guess) & 255
    return np.frombuffer(bytes(result), np.uint8)


def _paeth(left: int, up: int, corner: int) -> int:
    """Return the neighbour that is nearest to `left + up - corner`."""
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not picture.startswith(_SIGNATURE):
        raise ValueError("This is not a PNG.")
    position = len(_SIGNATURE)
    while position < len(picture):
        (size,) = struct.unpack_from(">I", picture, position)
        yield picture[position + 4 : position + 8], picture[position + 8 : position + 8 + size]
        position += 12 + size


def _chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
