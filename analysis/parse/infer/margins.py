"""What stands before the records of an unknown log: stamps, ranks, levels, names of hosts and of source files.

Most of it is known by its look. A margin that nobody knows is told by being there on nearly every line and by
having few texts, where a record's own counter has many.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

_CLOCK = rb"\d{1,2}:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_DAY = rb"(?:\d{4}[-/.]\d\d[-/.]\d\d|\d\d-\d\d-\d\d|\d\d/\d\d/\d{2,4}|\d\d[-/]\d\d|\d\d [A-Z][a-z]{2} \d{4})"
STAMP = rb"(?:%b(?:[T _,:]{1,2}%b)|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d\d? (?:\d{4} )?%b(?: \d{4})?)" % (
    _DAY,
    _CLOCK,
    _CLOCK,
)
_PREFIX = re.compile(
    rb"^(?:[\[(<|]*\s*(?:%b(?: [\w./-]+(?=\]))?|%b(?=[\s\]>)|,])"
    rb"|[IWEFDC]\d{4,8} +%b +\d+|1[5-9]\d{8}(?:\.\d+)?(?=[\]: ])"
    rb"|(?i:(?:local_|global_)?rank[ :=]?\s*\d+)|default\d+|(?:\w+ )?(?:pid=\d+)(?:, ip=[\d.]+)?"
    rb"|(?:DEBUG|INFO|WARNING|WARN|ERROR|NOTICE)\b(?:[:|][\w.]+(?=[: ])|(?:[:|][\w.]+)+(?=\]))?"
    rb"|(?:\w+ (?=\S+:\d+\]))?[\w./-]+\.(?:py|cc|cpp|cu|rs|jl)(?::\d+| \d+(?=\)))?"
    rb"|\w+:\d+(?=\) )|\w+\.[\w.]+:\d+(?= - )|[\w.-]+:\d+(?=\t)"
    rb"|[\w.]+:[\w<>]+:\d+(?= - )|(?:\d+:|[A-Za-z]+\d+) (?=INFO|WARN|ERROR|DEBUG)"
    rb"|(?:root|__main__|[A-Za-z_]\w*(?:\.\w+)+)(?= - )"
    rb")[\])>|]*[\s:,>-]*)+" % (STAMP, _CLOCK, _CLOCK)
)
_OWN = re.compile(rb"(?:\[[^\]\n]*[A-Za-z][^\]\n]*\]:?|[\w.-]+:|[\w.-]+ *\|)(?= )")
_PLACE = re.compile(rb"(?i)ep|step|iter|batch|it\b")
_COMMON = 0.7  # of the lines
_FEW = 8


def strip(lines: Sequence[bytes]) -> list[bytes]:
    """Every line from where its record may begin."""
    bare = [_strip_known(line) for line in lines]
    own = _own_margin(bare)
    if own is None:
        return bare
    rests = [own.sub(b"", line, count=1) for line in bare]
    return [_strip_known(rest) if rest != line else line for rest, line in zip(rests, bare, strict=True)]


def _strip_known(line: bytes) -> bytes:
    found = _PREFIX.match(line)
    return line[found.end() :] if found else line.lstrip()


def _may_be(head: bytes) -> bool:
    """A rank or a host has a number, and says nothing of where the training is."""
    return re.search(rb"\d", head) is not None and not _PLACE.search(head)


def _own_margin(lines: Sequence[bytes]) -> re.Pattern[bytes] | None:
    """Such as `node-12: ` or `3: `, with its digits free."""
    heads = [found.group() for line in lines if (found := _OWN.match(line)) and _may_be(found.group())]
    kinds = Counter(re.sub(rb"\d+", b"0", head) for head in heads)
    if not kinds:
        return None
    (kind, count), *_ = kinds.most_common(1)
    texts = {head for head in heads if re.sub(rb"\d+", b"0", head) == kind}
    counts = count > 2 and len(texts) == count  # another one on each line: the record's own
    if count < _COMMON * sum(map(bool, lines)) or len(texts) > _FEW or counts:
        return None
    return re.compile(b"^" + re.escape(kind).replace(b"0", rb"\d+") + b" *")
