"""Words that lines of training have: from the lines with one, a format may be inferred."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gputel.analysis.logs.patterns import lazy_regex


@dataclass(frozen=True)
class _Vocabulary:
    """Words in lower case, as literals and as regexes with the literals without which these cannot match.

    One regex for all of them takes 300 ns a byte, a hundred times as long as looking for literals.
    """

    literals: tuple[bytes, ...]
    needles: tuple[bytes, ...]
    regex: re.Pattern[bytes]

    def is_in(self, small: bytes) -> bool:
        """Whether lines in lower case hold any of the words."""
        return any(word in small for word in self.literals) or (
            any(needle in small for needle in self.needles) and self.regex.search(small) is not None
        )


_MEASURES = _Vocabulary(
    (
        *b"loss nll ppl perplex entropy xent rmse objective cost reward acc multiclass err score".split(),
        *b"objf recon psnr auc".split(),
        # letters beyond ASCII keep their case
        *"verlust perte rdida 损失 損失 ロス 손실 отер ОТЕР лосс Лосс".encode().split(),
        *"熵 エントロピー 엔트로피 нтроп".encode().split(),
    ),
    tuple(b"bpb bpc mae return f1 ce mse perd".split()),
    lazy_regex(
        rb"bp[bc]\b|\bmae\b|(?<![a-z])returns?(?![a-z])|f1\b|\b[bc]?ce\b|\bmse\b|(?<![a-z])perd(?:as?|ita)(?![a-z])"
    ),
)
_OTHERS = _Vocabulary(
    tuple(b"norm learn train epoch seconds".split()),
    tuple(b"lr rate time avg /".split()),
    lazy_regex(rb"lr\b|rate\b|\btime\b|\bavg|/ ?s(?:ec)?\b|\d/\d+ +\d[\d.]*g +\d"),
)
_HEADING = lazy_regex(rb"(?i)(?<![a-z])(?:eval\w*|vali?\w*|test)(?: (?:results?|metrics|scores?))?[ *#=:-]*$")
_WORD = lazy_regex(rb"[a-z]{3,}")
_IN_VALUES = {b"nan", b"inf", b"infinity", b"day", b"days"}


def has_candidates(lines: bytes) -> bool:
    """Whether any of these lines has a word that lines of training have."""
    small = lines.lower()
    return _MEASURES.is_in(small) or _OTHERS.is_in(small)


def names_measure(small: bytes) -> bool:
    """Whether a line in lower case names what trainings and evaluations measure."""
    return _MEASURES.is_in(small)


def candidates(lines: bytes) -> bytes:
    """The lines that may speak of training, a tenth of a long log; with the heading of an evaluation above them."""
    kept: list[bytes] = []
    above = b""
    for line in lines.split(b"\n"):
        if has_candidates(line):
            kept += [above, line] if _HEADING.search(above) else [line]
        above = line
    return b"\n".join(kept)


def may_recur_or_measure(lines: bytes) -> bool:
    """Whether two of these lines may be of one kind, or one names a measure; otherwise no format is in them.

    Lines of one kind end with the same word. Most logs of a known format have a few other lines, such as a banner
    and a total at the end, and inferring a format from them costs as much as reading ten thousand records.
    """
    if _MEASURES.is_in(lines.lower()):
        return True
    ends = [_last_word(line) for line in lines.lower().split(b"\n")]
    return len(set(ends)) < len(ends)


def _last_word(line: bytes) -> bytes:
    return next((word for word in reversed(_WORD.findall(line)) if word not in _IN_VALUES), b"")
