"""Seeded damage to the content of a file."""

from __future__ import annotations

import random


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with one to three damages of random kinds."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = rng.choice(_DAMAGES)(bytearray(content), rng)
    return content


def _cut(content: bytearray, rng: random.Random) -> bytes:
    return bytes(content[: rng.randrange(len(content) + 1)])


def _flip(content: bytearray, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 4, 32))):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def _overwrite(content: bytearray, rng: random.Random) -> bytes:
    start, size = rng.randrange(len(content) + 1), rng.choice((1, 2, 4, 8, 64, 512))
    filling = rng.choice((rng.randbytes(size), bytes(size), b"\xff" * size, b"\x7f" * size))
    content[start : start + size] = filling[: max(0, len(content) - start)]
    return bytes(content)


def _insert(content: bytearray, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    what = rng.choice(
        (b"\0", b"\n", b"[" * 300, b"9" * 5000, b"nan", b"\xff\xfe", rng.randbytes(40))
    )
    content[start:start] = what
    return bytes(content)


def _remove(content: bytearray, rng: random.Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    del content[start : start + rng.choice((1, 2, 8, 100))]
    return bytes(content)


def _repeat(content: bytearray, rng: random.Random) -> bytes:
    start, size = rng.randrange(len(content) + 1), rng.choice((4, 40, 400))
    content[start:start] = bytes(content[start : start + size]) * rng.choice((1, 1, 50))
    return bytes(content)


def _move(content: bytearray, rng: random.Random) -> bytes:
    first, second = (rng.randrange(len(content) + 1) for _ in range(2))
    part = bytes(content[first : first + 64])
    content[second : second + len(part)] = part
    return bytes(content)


_DAMAGES = (_cut, _flip, _flip, _overwrite, _overwrite, _insert, _remove, _repeat, _move)
