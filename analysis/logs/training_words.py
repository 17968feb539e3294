"""Words that lines of training have: from the lines with one, a format may be inferred."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
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
    tuple(b"bpb bpc mae return f1 ce mse perd 's".split()),
    lazy_regex(
        rb"bp[bc]\b|\bmae\b|(?<![a-z])returns?(?![a-z])|f1\b|\b[bc]?ce\b|\bmse\b|(?<![a-z])perd(?:as?|ita)(?![a-z])"
        rb"|\b(?:cv_agg|(?:eval|val|valid|test|dev)(?:_\w{1,20})?)'s [\w@ -]{1,30}:"
    ),
)
_OTHERS = _Vocabulary(
    tuple(b"norm learn train epoch seconds".split()),
    tuple(b"lr rate time avg /".split()),
    lazy_regex(rb"lr\b|rate\b|\btime\b|\bavg|/ ?s(?:ec)?\b|\d/\d+ +\d[\d.]*g +\d"),
)
_HEADING = lazy_regex(rb"(?i)(?<![a-z])(?:eval\w*|vali?\w*|test)(?: (?:results?|metrics|scores?))?[ *#=:-]*$")
# `epoch  train loss  val loss`, its rows, and the rules between them
_COLUMNS = lazy_regex(rb"""\s*[A-Za-z|](?:[^\d:=()\[\]{}<>"'?!;]|(?<=[A-Za-z_@-])\d){4,300}""")
_ROW = lazy_regex(
    rb"(?:[\s|,]*[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?%?|nan|inf|N/A)(?=[\s|,]|$)){2,}[\s|,]*|[\s|,+=:-]+"
)
_FRACTION = lazy_regex(rb"\d+\.\d{2,}")
_REPEATED = 0.8  # share of the rows of a table whose figures stand in other lines
_WORD = lazy_regex(rb"[a-z]{3,}")
_IN_VALUES = {b"nan", b"inf", b"infinity", b"day", b"days"}


def has_candidates(lines: bytes) -> bool:
    """Whether any of these lines has a word that lines of training have."""
    small = lines.lower()
    return _MEASURES.is_in(small) or _OTHERS.is_in(small)


def names_measure(small: bytes) -> bool:
    """Whether a line in lower case names what trainings and evaluations measure."""
    return _MEASURES.is_in(small)


def candidates(lines: bytes, whole: Callable[[], bytes] = bytes) -> bytes:
    """The lines that may speak of training, a tenth of a long log.

    With them come the heading of an evaluation above them, and the rows of numbers below the heading of a table,
    but for those that give figures of the `whole` log once more.
    """
    kept: list[bytes] = []
    rows: list[tuple[int, bytes]] = []  # of tables, and where they belong
    above = b""
    in_table = False
    for line in lines.split(b"\n"):
        if has_candidates(line):
            kept += [above, line] if _HEADING.search(above) else [line]
            in_table = _COLUMNS.fullmatch(line) is not None
        elif in_table and _ROW.fullmatch(line):
            rows.append((len(kept), line))
        else:
            in_table = False
        above = line
    if rows and not _are_repeated([row for _, row in rows], whole()):
        for at, row in reversed(rows):
            kept.insert(at, row)
    return b"\n".join(kept)


def _are_repeated(rows: Sequence[bytes], whole: bytes) -> bool:
    """Whether most rows of tables have a fraction that other lines give, in full or rounded."""
    own = {*rows}
    others = b"\n".join(line for line in whole.split(b"\n") if line not in own)
    known = {float(figure) for figure in _FRACTION.findall(others)}
    rounded = {digits: {round(figure, digits) for figure in known} for digits in range(2, 7)}
    fractions = [figures for row in rows if (figures := _FRACTION.findall(row))]
    repeated = sum(any(_is_among(figure, known, rounded) for figure in figures) for figures in fractions)
    return repeated >= _REPEATED * len(fractions)


def _is_among(figure: bytes, known: set[float], rounded: Mapping[int, set[float]]) -> bool:
    """Whether a fraction of three digits and more is known, or rounds a known one, or one rounds it."""
    digits = len(figure.partition(b".")[2])
    value = float(figure)
    if digits < 3:
        return False
    shorter = any(round(value, each) in known for each in range(3, min(digits, 6)))
    return value in known or value in rounded.get(digits, ()) or shorter


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
