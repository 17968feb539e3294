"""The training loss of the last lines that a command printed, for the status line: a search, not a parser.

Only a plain name counts: `loss`, `train_loss`, `training loss`. What has another word in front of it (`val loss`,
`aux_loss`, `packet loss`) may be anything, and no loss is better than a wrong one.
"""

from __future__ import annotations

import re

TAIL_BYTES = 8192
LOSS = re.compile(
    rb"""(?<![\w/.-]) (?:train(?:ing)?[ _/.]?)? loss ["']? (?:\s*[:=]\s*|\s+)"""
    rb"""(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|[+-]?inf|nan) (?![\w.%]|\s*%)""",
    re.IGNORECASE | re.VERBOSE,
)
WORD = re.compile(rb"[A-Za-z]+[ _/.-]*$")
LEVELS = (b"INFO", b"DEBUG", b"WARNING")


def last_loss(tail: bytes) -> str | None:
    """The last loss in whole lines of the end of an output; None if there is none."""
    lines = tail[: max(tail.rfind(b"\n"), tail.rfind(b"\r")) + 1]
    for match in reversed(list(LOSS.finditer(lines))):
        line = lines[: match.start()].rpartition(b"\n")[2].rpartition(b"\r")[2]
        before = WORD.search(line)
        if not before or before[0].strip() in LEVELS:
            return match[1].decode()
    return None
