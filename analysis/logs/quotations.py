"""Whether a text is a document or source code that quotes a few lines of a training log."""

from __future__ import annotations

from gputel.analysis.logs.patterns import lazy_regex

FEWEST_SENTENCES = 2
MOST_QUOTED = 0.5  # share of the lines with content
MOST_IN_CODE = 5
MOST_BY_SENTENCE = 5  # records that are quoted for each sentence
_LONG = 40  # bytes of a sentence without spaces between its words
LEAST_CODE = 0.4  # share of the lines with content

_WIDE = rb"\xe3\x80[\x81\x82]|\xef\xbc[\x8c\x9a\x9b]"  # Chinese and Japanese commas, full stops and colons
# `#### Data ####` and `# weights:  43` are of programs
_HEADING = lazy_regex(rb"#{1,6} +(?!.*(?: #+|: *[\d.]+)$)[A-Za-z\x80-\xff][^|=]*$|#\d+: ")
_SENTENCE = lazy_regex(rb"(?:[-*>] +|\d+\. +)?(?:[A-Z`]|[a-z]+ ).*\s[a-z]{2,}[^=|]*[.!?:;]$")
_WIDE_SENTENCE = lazy_regex(rb"[^=|]*(?:" + _WIDE + rb")[^=|]*$")
_STAMPED = lazy_regex(rb"\s*[\[(]?\d{4}-\d\d-\d\d|\s*[IWE]\d{4} |\s*[\[(]?\d\d:\d\d:\d\d")
_CODE = lazy_regex(
    rb"\s*(?:import |from \w[\w.]* import |def \w+\(|class \w+|return\b|for .*:$|if .*[:{]$|else\b|assert "
    rb"|print\(|#include|@\w|while\b|[\w.]+ = |[\w.]+\(.*\)$|.*[;{]\s*$|\}\s*$)"
)
_SPEAKER = lazy_regex(rb"\[?\d\d:\d\d(?::\d\d)?\]? <?(?P<name>[a-z]+)>?: ")


def quotes_training(text: bytes, records: int) -> bool:
    """Whether a file that gave so many records quotes a log and is none; `text` is the beginning of the file."""
    lines = [line.rstrip() for line in text.split(b"\n") if line.strip()]
    if not lines or records > MOST_QUOTED * len(lines):
        return False
    if _is_conversation(lines):
        return True
    plain = [line for line in lines if not _STAMPED.match(line)]
    code = sum(_CODE.match(line) is not None for line in plain)
    if records <= MOST_IN_CODE and code > LEAST_CODE * len(lines):
        return True
    sentences = len({line for line in plain if _is_sentence(line)})
    if MOST_BY_SENTENCE * sentences < records:
        return False
    heading = any(_HEADING.match(line) for line in plain)
    if heading and sentences and any(line.startswith(b"```") for line in lines):
        return True
    chapters = lines[0].startswith(b"# ") and any(line.startswith(b"## ") for line in lines)
    return heading and sentences >= (1 if chapters else min(FEWEST_SENTENCES, records))


def _is_sentence(line: bytes) -> bool:
    if line.endswith(b"..."):  # what a program is about to do
        return False
    return (_SENTENCE.match(line) is not None and len(line.split()) > 3) or (
        len(line) > _LONG and _WIDE_SENTENCE.match(line) is not None
    )


def _is_conversation(lines: list[bytes]) -> bool:
    """Whether people speak in turn: most lines begin with a time and one of a few names."""
    names = [speaker["name"] for line in lines if (speaker := _SPEAKER.match(line))]
    return 1 < len(set(names)) < len(names) and 5 * len(names) > 4 * len(lines)
