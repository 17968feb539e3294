"""Names from data -> names of files: what a log or a run.json says is never a path.

Letters of any script, digits and `._-` stay; whatever else stands between them becomes one `-`. A name begins and
ends with neither a dot nor a dash, and is at most 100 bytes long, so that an ending still fits behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

MOST = 100  # bytes


def file_name(text: str, otherwise: str = "run") -> str:
    """The text as the name of a file, `otherwise` where nothing of it is left."""
    words = "".join(letter if letter.isalnum() or letter in "._-" else " " for letter in text).split()
    return _cut("-".join(words).strip("-."), MOST) or otherwise


def file_names(texts: Sequence[str], otherwise: str = "run") -> list[str]:
    """Each text as the name of a file, all different also where case does not count: `a`, `A-2`."""
    names: list[str] = []
    taken: set[str] = set()
    for text in texts:
        name = plain = file_name(text, otherwise)
        number = 2
        while name.casefold() in taken:
            name = f"{_cut(plain, MOST - len(str(number)) - 1)}-{number}"
            number += 1
        names.append(name)
        taken.add(name.casefold())
    return names


def _cut(name: str, most: int) -> str:
    return name.encode("utf-8", "ignore")[:most].decode("utf-8", "ignore").rstrip("-.")
