"""Lines -> the same lines without what stands before their records.

Timestamps, ranks, levels, names of hosts and of source files. Most prefixes are known by their look. An unknown one
stands on nearly every line and has few texts, where a record's own counter has many. What a prefix says is read in
`prefixes`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from gputel.analysis.logs.languages import english
from gputel.analysis.logs.patterns import lazy_regex

_CLOCK = rb"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[AP]M\b|[+-]\d\d:?\d\d))?"
_DAY = (
    rb"(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d-\d\d-\d\d|\d\d/\d\d/\d{2,4}|\d\d\.\d\d\.\d{4}|\d\d\.\d\d\.\d\d(?=\|)"
    rb"|\d\d[-/]\d\d|\d\d [A-Z][a-z]{2} \d{4}"
    rb"|\d\d?-(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)-(?:\d{4}|\d\d))"
)
_EASTERN_DAY = r"\d{4}(?:年|년 ?)\d\d?(?:月|월 ?)\d\d?(?:日|일)".encode()
_EASTERN_CLOCK = r"\d\d?(?:时|時|시) ?\d\d?(?:分|분) ?\d\d?(?:秒|초)".encode()
STAMP = (
    rb"(?:%b(?:(?:[T _,:]{1,2}|\|)%b|[T_]\d\d-\d\d-\d\d)|%b[ ,]{0,2}(?:%b|%b)"
    rb"|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d\d? (?:\d{4} )?%b(?: \d{4})?)"
    % (_DAY, _CLOCK, _EASTERN_DAY, _CLOCK, _EASTERN_CLOCK, _CLOCK)
)
_PREFIX = lazy_regex(
    rb"^(?:[\[(<|]*\s*(?:%b(?:s(?=\])| [\w./-]+(?=\]))?|%b(?:s(?=\])|(?=[\s\]>)|,]))"
    rb"|[IWEFDC]\d{4,8} +(?:%b|00:00:\d{9,}(?:\.\d+)?) +\d+|1[5-9]\d{8}(?:\.\d+)?(?=[\]: ])"
    rb"|(?i:(?:local_|global_)?rank[ :=]?\s*\d+)|default\d+|(?:\w+ )?(?:pid=\d+)(?:, ip=[\d.]+)?"
    rb"|(?:DEBUG|INFO|WARNING|WARN|ERROR|NOTICE)\b(?:[:|][\w.]+(?=:| (?![\d.+-]))|(?:[:|][\w.]+)+(?=\]))?"
    rb"|(?:\w+ (?=\S+:\d+\]))?[\w./-]+\.(?:py|cc|cpp|cu|rs|jl)(?::\d+| \d+(?=\))|,? +line:? \d+(?: +\d+(?=\]))?)?"
    rb"|\xe2\x94\x8c (?:Info|Debug)(?=: )"  # Julia, above the values of a block
    rb"|\[1\] \"(?=[^\"]*\"$)|\w+:\d+(?=\) )|\w+\.[\w.]+:\d+(?= - )|[\w.-]+:\d+(?=\t)"
    rb"|(?<=:\d\d )[\w.-]+ [\w./-]+\[\d+\]:(?= )"  # journald: host and program[pid]
    rb"|[\w.]+:[\w<>]+:\d+(?= - )|(?:\d+:|[A-Za-z_]\w*) (?=(?:INFO|WARN(?:ING)?|ERROR|DEBUG)\b)"
    rb"|(?:root|__main__|[A-Za-z_]\w*(?:\.\w+)+)(?= - )|[\w./-]+(?= - (?:DEBUG|INFO|WARN(?:ING)?|ERROR) - )"
    rb"|(?:(?<=\[ )|\xe2\x94\x8c )(?:Debug|Info|Warning|Error)(?=: )"  # Julia, over one line or several
    rb")[\])>|]*[\s:,>-]*)+" % (STAMP, _CLOCK, _CLOCK)
)
# A bar that measures nothing, before a line that says its own place or its time
_DRAWN = lazy_regex(
    rb"\s*(?:[A-Za-z ]+:\s*)?(?:\d+%%)?\|[^|]*\| *\d+/[\d?]+ \[[^\]=]*\]\s*"
    rb"(?=\W?%b|.*(?i:epoch|step|iter)\w*\W{0,3}\d)" % STAMP
)
_OWN = lazy_regex(rb"(?:\[[^\]\nA-Za-z]*[A-Za-z][^\]\n]*\]:?|[\w.-]+:|[\w.-]+ *\|)(?= )")
_PLACE = lazy_regex(rb"(?i)ep|step|iter|batch|it\b|\be\d+\b")
_COMMENT = lazy_regex(rb"\s*(?:#{1,2}|%|//)(?: |$)")
_COMMON = 0.7  # share of the lines
_FEW = 8


def strip_prefixes(lines: Sequence[bytes]) -> list[bytes]:
    """Every line without what stands before its record."""
    lines = _without_comment(lines)
    bare = [_strip_known(line) for line in lines]
    margin = _own_margin(bare)
    if margin is None:
        return bare
    rests = [margin.sub(b"", line, count=1) for line in bare]
    return [_strip_known(rest) if rest != line else line for rest, line in zip(rests, bare, strict=True)]


def strip_to_margin(lines: Sequence[bytes]) -> list[bytes]:
    """Every line without its prefix, with the indentation that stands behind the prefix."""
    return [_with_margin(line, rest) for line, rest in zip(lines, strip_prefixes(lines), strict=True)]


def _with_margin(line: bytes, rest: bytes) -> bytes:
    before = line[: line.rfind(rest)] if rest else b""
    return b" " * (len(before) - len(before.rstrip()) - bool(before.strip())) + rest


def _without_comment(lines: Sequence[bytes]) -> Sequence[bytes]:
    """The lines without the sign of a comment, where all have the same: the output of a report in R or MATLAB.

    One that only some lines have heads a table, or is a heading.
    """
    marks = [mark.group() if (mark := _COMMENT.match(line)) else b"" for line in lines if line.strip()]
    first = marks[0].strip() if len(marks) > 2 else b""
    if not first or any(mark.strip() != first for mark in marks):
        return lines
    return [_COMMENT.sub(b"", line, count=1) for line in lines]


def _strip_known(line: bytes) -> bytes:
    drawn = _DRAWN.match(line) if b"|" in line else None
    line = line[drawn.end() :] if drawn else line
    prefix = _PREFIX.match(line)
    rest = line[prefix.end() :] if prefix else line.lstrip()
    return _undivided(line, rest) if rest[:2] == b"| " else rest


def _undivided(line: bytes, rest: bytes) -> bytes:
    """The rest of `10:40:45 | INFO | step 3` without the bar before it; a row of a box ends with one, too."""
    divided = line.find(b"|") < len(line) - len(rest) and line.rstrip()[-1:] != b"|"
    return rest[2:].lstrip() if divided else rest


def _may_be(head: bytes) -> bool:
    """Whether it may name a rank or a host: it has a number, and no word such as `step`."""
    return re.search(rb"\d", head) is not None and not _PLACE.search(english(head))


def _own_margin(lines: Sequence[bytes]) -> re.Pattern[bytes] | None:
    """A regex for a prefix that most lines have, such as `node-12: ` or `3: `, with any digits."""
    heads = [match.group() for line in lines if (match := _OWN.match(line)) and _may_be(match.group())]
    kinds = Counter(re.sub(rb"\d+", b"0", head) for head in heads)
    if not kinds:
        return None
    (kind, count), *_ = kinds.most_common(1)
    texts = {head for head in heads if re.sub(rb"\d+", b"0", head) == kind}
    counts = count > 2 and len(texts) == count  # it differs on every line: a counter of the record
    if count < _COMMON * sum(map(bool, lines)) or len(texts) > _FEW or counts:
        return None
    return re.compile(b"^" + re.escape(kind).replace(b"0", rb"\d+") + b" *")
