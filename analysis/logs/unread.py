"""Lines that no pattern reads: which of them may be of the training, and the losses that they print.

`UnreadLosses` looks at those lines, and at the records that came without any loss. Lines
about the best model so far, averages and weights of losses do not count: they repeat what is read elsewhere.
`candidates` are the lines from which a format may be inferred.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gputel.analysis.logs.lines import Chunk, line_at
from gputel.analysis.logs.outcome import RECORDS
from gputel.analysis.logs.patterns import EngineResult, Hits, lazy_regex

MOST = 8 << 20  # bytes that are looked at
SAMPLE = 50  # records of a pattern in one chunk that are looked at
LEAST = 3
_FOREIGN = "损失 損失 ロス 손실".split()
_NEEDLES = (b"loss", b"nll", b"perplexity", *(word.encode() for word in _FOREIGN))
_WORDS = rb"loss(?:es)?|nll|perplexity|" + "|".join(_FOREIGN).encode()
_LOSS = lazy_regex(
    rb"(?i)(?P<name>[\w./-]{0,40}(?:%b)(?![a-z]|[ _.-]?(?:scal|weight|coe|factor|clip|func))[\w./]{0,20})"
    rb"['\"]?[ )\]]{0,2}(?: ?(?:[:=]|is|->)|[ \t])\s{0,8}[-+(\[]{0,2}\d+\.\d"
    rb"|(?<![\w.])\d+\.\d+ (?P<behind>(?:[a-z]\w{0,20}[ _])?loss)(?=\W{0,2}$)" % _WORDS
)
_SCORES = tuple(b"acc auc f1 iou bleu psnr dice".split())
_SCORE_NAME = rb"(?:top[-_ ]?\d )?(?:m?acc(?:uracy)?|auc|f1|m?iou|bleu|psnr|dice)"
# a score on a line that says its epoch or step: `epoch: 15 done, AUC: 0.942`
_SCORED = lazy_regex(
    rb"(?i)^(?=.{0,60}(?<![a-z])(?:epochs?|step|iter(?:ation)?)\W{0,3}\d).{0,120}?"
    rb"(?P<name>(?<![a-z])%b(?![a-z]))[ )\]]{0,2} ?[:=] ?\d*\.\d(?P<behind>)" % _SCORE_NAME
)
_REPEATS = lazy_regex(
    rb"(?i)best|improv|sav(?:ed|ing)|minim|maxim|lowest|early stop|average|\bmean\b|\bavg|reduc|\bload"
    rb"|epoch \d+ (?:done|finished|summary)"
)


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
_WORD = lazy_regex(rb"[a-z]{3,}")
_IN_VALUES = {b"nan", b"inf", b"infinity", b"day", b"days"}


def is_score(name: str) -> bool:
    """Whether an unread figure is a score and no loss."""
    return re.fullmatch(_SCORE_NAME.decode(), name, re.IGNORECASE) is not None


def has_candidates(lines: bytes) -> bool:
    """Whether any of these lines has a word that lines of training have."""
    small = lines.lower()
    return _MEASURES.is_in(small) or _OTHERS.is_in(small)


def candidates(lines: bytes) -> bytes:
    """The lines that may speak of training, a tenth of a long log."""
    return b"\n".join(line for line in lines.split(b"\n") if has_candidates(line))


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


class UnreadLosses:
    """Counts losses that were printed and not read.

    Lines are looked at when the answer is asked for: a log that is read again with an inferred format has others.
    """

    def __init__(self) -> None:
        self._unread: list[tuple[bytes, int]] = []  # lines, and the number of their first
        self._kept = 0  # bytes
        self._loses = False  # whether any record gave a loss
        self._records = 0  # records that were looked at
        self._passed = 0  # of these, lines that print a loss which was not read

    def add(self, region: bytes, number: int) -> None:
        """Keeps lines that no pattern has read; `number` is that of the first."""
        if self._kept <= MOST:
            self._kept += len(region)
            self._unread.append((region, number))

    def see(self, reading: EngineResult, chunk: Chunk) -> None:
        """Looks at the records that were read."""
        for hits in reading.hits:
            if hits.pattern.role not in RECORDS or self._loses:
                continue
            if any("loss" in what.column.lower() for what in hits.values):
                self._loses = True
                continue
            for line in _lines(hits, chunk.data):
                self._records += 1
                self._passed += _LOSS.search(line) is not None

    @property
    def are_passed_over(self) -> bool:
        """Whether the records print losses, and none was read: they are of another format."""
        return not self._loses and self._passed >= max(LEAST, 0.5 * self._records)

    def worst(self) -> tuple[str, int, int] | None:
        """The loss that was left unread most often, how often, and the line of its first figure; else a score."""
        return self._most_often(_NEEDLES, _LOSS) or self._most_often(_SCORES, _SCORED)

    def _most_often(
        self, needles: Sequence[bytes], figures: re.Pattern[bytes]
    ) -> tuple[str, int, int] | None:
        names: Counter[bytes] = Counter()
        first: dict[bytes, int] = {}
        for region, number in self._unread:
            for begin, line in _speaking(region, needles):
                if _REPEATS.search(_english(line)):
                    continue
                for found in figures.finditer(line):
                    name = found["name"] or found["behind"]
                    names[name] += 1
                    if name not in first:
                        first[name] = number + region.count(b"\n", 0, begin)
        if not names:
            return None
        (name, count), *_ = names.most_common(1)
        return name.decode(errors="replace"), count, first[name]


def _english(line: bytes) -> bytes:
    if line.isascii():
        return line
    from gputel.analysis.logs.languages import english

    return english(line)


def _speaking(region: bytes, needles: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
    """The lines with one of the words, and where each begins: searching for words is fast, and regexes are not."""
    small = region.lower()
    begins = set[int]()
    for needle in needles:
        at = small.find(needle)
        while at >= 0:
            begins.add(small.rfind(b"\n", 0, at) + 1)
            end = small.find(b"\n", at)
            at = small.find(needle, end) if end >= 0 else -1
    for begin in sorted(begins):
        yield begin, line_at(region, begin)


def _lines(hits: Hits, data: bytes) -> Iterator[bytes]:
    for start in hits.starts[:SAMPLE].tolist():
        yield line_at(data, start)
