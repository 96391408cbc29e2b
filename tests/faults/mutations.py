"""Bytes that are almost right: cut, flipped, doubled, moved, or with something strange inside."""

from __future__ import annotations

import random

STRANGE = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b'"', b"\\", b"\t", b"\r", b"\n\n",
    b"{", b"}", b"[" * 500, b"null", b"NaN", b"-1", b"1e999", b"9" * 25, b"0x10",
    b"\xf0\x9f\x98\x80",
    b"../../etc/passwd", b"\x80\x04\x95cposix\nsystem\n", b",", b"'" * 3,
)  # fmt: skip


def mutated(content: bytes, chance: random.Random) -> bytes:
    """The content after one to four mishaps."""
    for _ in range(chance.randint(1, 4)):
        content = chance.choice(_MISHAPS)(content, chance)
    return content


def _place(content: bytes, chance: random.Random) -> int:
    # Often near the begin: there are the headers.
    limit = min(64, len(content)) if chance.random() < 0.4 else len(content)
    return chance.randint(0, limit)


def _flip(content: bytes, chance: random.Random) -> bytes:
    if not content:
        return content
    place = min(_place(content, chance), len(content) - 1)
    changed = content[place] ^ (1 << chance.randrange(8))
    return content[:place] + bytes([changed]) + content[place + 1 :]


def _cut(content: bytes, chance: random.Random) -> bytes:
    return content[: _place(content, chance)]


def _drop(content: bytes, chance: random.Random) -> bytes:
    place = _place(content, chance)
    return content[:place] + content[place + chance.randint(1, 16) :]


def _insert(content: bytes, chance: random.Random) -> bytes:
    place = _place(content, chance)
    return content[:place] + chance.choice(STRANGE) + content[place:]


def _replace(content: bytes, chance: random.Random) -> bytes:
    place = _place(content, chance)
    strange = chance.choice(STRANGE)
    return content[:place] + strange + content[place + len(strange) :]


def _repeat(content: bytes, chance: random.Random) -> bytes:
    first, last = sorted((_place(content, chance), _place(content, chance)))
    return content[:last] + content[first:last] * chance.randint(1, 5) + content[last:]


def _digits(content: bytes, chance: random.Random) -> bytes:
    """Make a number larger: sizes are what memory is taken for."""
    places = [place for place, byte in enumerate(content[:4096]) if 48 <= byte <= 57]
    if not places:
        return content
    place = chance.choice(places)
    return content[:place] + b"9" * chance.randint(1, 12) + content[place:]


_MISHAPS = (_flip, _cut, _drop, _insert, _replace, _repeat, _digits)
