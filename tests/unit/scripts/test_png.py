"""The pictures of the web page: smaller files that look as before."""

from __future__ import annotations

import importlib.util
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy")
_PATH = Path(__file__).parents[3] / "scripts" / "pictures" / "png.py"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("pictures_png", _PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


png = _load()


def write_png(pixels: Any, filters: list[int]) -> bytes:
    """Return pixels as a PNG of 24 bits, whose lines have these filters in turn; only 0, 1 and 2 are known."""
    height, width, _ = pixels.shape
    lines, above = b"", np.zeros(width * 3, np.uint8)
    for number in range(height):
        kind = filters[number % len(filters)]
        line = pixels[number].reshape(-1)
        left = np.concatenate([np.zeros(3, np.uint8), line[:-3]])
        lines += bytes([kind]) + (line - (np.zeros_like(line), left, above)[kind]).tobytes()
        above = line
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(lines))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(png._chunk(*chunk) for chunk in [*chunks, (b"IEND", b"")])


def read_palette_png(picture: bytes) -> Any:
    chunks = dict(png._chunks(picture))
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    return np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[lines[:, 1:]]


def test_pictures_stand_beside_each_other_with_their_own_colours() -> None:
    random = np.random.default_rng(1)
    first, second = (random.integers(0, 5, (6, 7, 3)).astype(np.uint8) * 60 for _ in range(2))
    joined = read_palette_png(png.join([write_png(first, [0, 1, 2]), write_png(second, [2, 1])]))
    assert (joined[:, :7] == first).all()
    assert (joined[:, 7 : 7 + png.GAP] == png.GROUND).all()
    assert (joined[:, 7 + png.GAP :] == second).all()


def test_a_rare_colour_keeps_its_place_in_the_palette_beside_many_similar_ones() -> None:
    greys = np.repeat(np.arange(0, 252, dtype=np.uint8), 40).reshape(-1, 40)[:, :, None].repeat(3, axis=2)
    blues = np.stack([np.full((40, 40), value, np.uint8) for value in (10, 20, 30)], axis=2)
    pixels = np.concatenate([greys, blues + np.arange(40, dtype=np.uint8)[:, None, None]])
    pixels[5, 5] = (200, 120, 0)
    shown = read_palette_png(png.join([write_png(pixels, [0])]))
    assert tuple(shown[5, 5]) == (200, 120, 0)
    assert np.abs(shown.astype(int) - pixels.astype(int)).max() < 16


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="not a PNG"):
        png.join([b"GIF89a"])
