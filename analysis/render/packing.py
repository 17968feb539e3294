"""Arrays of numbers -> the few bytes a number that a page carries; `unpack.js` is the other half.

Numbers with few decimals (2.907160) are kept exactly, as differences of whole numbers of their last digit; others
are 32-bit floats, and 64-bit ones where they are large whole numbers.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
from typing import Any

import numpy as np

from gputel.analysis.document import Numbers

MOST_DIGITS = 7  # behind the point
LARGEST_STEP = 2**31 - 1
EXACT = 2.0**52


class Packer:
    """`add` answers what the page's JSON says in the array's place; `text` is all of them, gzipped, in base64."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._seen: dict[bytes, dict[str, Any]] = {}  # by a digest of the numbers

    def add(self, values: Numbers) -> dict[str, Any]:
        """Packs numbers once, however many curves lie on them."""
        numbers = np.ascontiguousarray(values, dtype=np.float64)
        digest = hashlib.blake2b(numbers.tobytes(), digest_size=16).digest()
        if digest not in self._seen:
            self._seen[digest] = self._added(numbers)
        return self._seen[digest]

    def _added(self, numbers: Numbers) -> dict[str, Any]:
        known = np.isfinite(numbers)
        spot: dict[str, Any] = {"n": len(numbers)}
        if not known.all():
            spot["known"] = self._put(np.packbits(known).tobytes())
            numbers = numbers[known]
        return {**spot, **self._packed(numbers)}

    def add_bytes(self, values: Numbers) -> dict[str, Any]:
        """Whole numbers from 0 to 255, as they are."""
        return {"n": int(values.size), "as": "bytes", "at": self._put(values.astype(np.uint8).tobytes())}

    def text(self) -> str:
        return base64.b64encode(gzip.compress(b"".join(self._parts), 9, mtime=0)).decode()

    def _packed(self, numbers: Numbers) -> dict[str, Any]:
        for digits in range(MOST_DIGITS + 1):
            whole = np.round(numbers * 10.0**digits)
            if not (np.abs(whole) < EXACT).all():
                break
            if (whole / 10.0**digits == numbers).all():
                steps = np.diff(whole, prepend=0.0)
                if (np.abs(steps) < LARGEST_STEP).all():
                    return {"as": "steps", "digits": digits, "at": self._put(_planes(steps))}
        precise = bool(((np.abs(numbers) > 2**24) & (np.abs(numbers) < EXACT) & (numbers % 1 == 0)).any())
        kind = np.dtype("<f8" if precise else "<f4")
        raw = numbers.astype(kind).view(np.uint8).reshape(-1, kind.itemsize).T.tobytes()
        return {"as": f"floats{8 * kind.itemsize}", "at": self._put(raw)}

    def _put(self, data: bytes) -> int:
        start, self._size = self._size, self._size + len(data)
        self._parts.append(data)
        return start


def _planes(steps: Numbers) -> bytes:
    """Small differences of either sign as small numbers; their lowest bytes first, then the next, and so on."""
    signed = steps.astype(np.int64)
    folded = ((signed << 1) ^ (signed >> 63)).astype("<u4")
    return bytes(folded.view(np.uint8).reshape(-1, 4).T.tobytes())
