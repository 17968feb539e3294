"""Settings that a program prints -> the configuration of the run.

Programs print them as calls and dicts (`Namespace(lr=0.1, ...)`, `{'lr': 0.1, ...}`, over one line or many), as
blocks with a pair on each line (`lr: 0.1`, YAML, `lr ........ 0.1`, tables), as pairs on one line, and as their
command line. Each kind must give a hyperparameter by a name that trainings use, so that prose, sizes of data sets
and printed models are not taken for settings. A name printed with two values has no value here: settings are
printed once, or once per rank, and do not change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from gputel.analysis.logs import setting_lines
from gputel.analysis.logs.line_prefixes import strip_to_margin
from gputel.analysis.logs.patterns import lazy_regex
from gputel.analysis.text import NUMERIC
from gputel.telemetry.secrets import mask_value

MOST = 500
LONGEST = 200  # characters of a value
_LONGEST_NAME = 80
_LONGEST_LINE = 4096
_FEWEST = 3

_WRAPPER = lazy_regex(
    r"(?i)(?:\w+_)?(?:args?|arguments|conf(?:ig)?s?|cfg|h?params|hyper_?param(?:eter)?s|settings|opts?|options|flags)"
)
_NAMESPACE = lazy_regex(
    r"(?i)(?:\w*\.)*(?:\w*namespace|\w*(?:args|arguments|config|cfg|params|settings|options|dict))"
)
_SPECIAL = lazy_regex(r"[({\[\])},]|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_CALLED = lazy_regex(r"(?P<module>\(\w+\): )?(?P<name>[A-Za-z_][\w.]*)?\s?$")
_FIELD = lazy_regex(r"\s*(?P<quote>['\"]?)(?P<name>[A-Za-z_][\w./@-]*)(?P=quote)\s*(?:=(?!=)|:(?!:))\s*")
_LINE = lazy_regex(
    r"(?P<margin>\s*)(?:[|│┃*>•]\s*)?(?:- )?(?:--)?(?P<quote>['\"]?)(?P<name>[A-Za-z_][\w./-]*(?: \w[\w./-]*){0,3})"
    r"(?P=quote)(?:\s*(?P<by>=>|->|[:=|│┃])(?![:=/])|\s*(?P<dots>\.{3,})(?=\s)|(?P<gap>\s{2,})(?=\S))(?P<value>.*)"
)
_DEFAULT = lazy_regex(r"\s*[\[(]default: ?.*[\])]$|\s+# .*$|\s*[|│┃,]$")
_ASIDE = lazy_regex(r"[\s=*#_+|-]*|\s*- \S*")  # a ruler, or an item of a list
_WORDS = lazy_regex(r"\S+(?: \S+){0,2}")
_CODE = lazy_regex(r"(?m)^\s*(?:import \w+|from [\w.]+ import |def \w+\(|class \w+.*:$|return\b|@\w+)")
_INLINE = lazy_regex(
    r"(?<![\w.-])(?P<name>[A-Za-z_][\w.]*)(?: ?= ?|: ?)"
    r"(?P<value>'[^']*'|\"[^\"]*\"|[\[(][^\])]*[\])]|\d{1,3}(?:,\d{3})+|[^\s,;|:={}()\[\]]+)(?:[\s,;|]+|$)"
)
_MEASURED = lazy_regex(r"(?i)(?:^|_)(?:loss|acc(?:uracy)?|ppl|elapsed|eta)$|^(?:epoch|step|iter|iteration)$")
_PLACEHOLDER = lazy_regex(r"\{[\w.:]*\}|%\(\w+\)\w|\$\{?\w+\}?|<.* at 0x\w+>")  # says nothing about the run
_THOUSANDS = lazy_regex(r"[+-]?\d{1,3}(?:,\d{3})+")
_COMMAND = lazy_regex(
    r"(?:^|[\s/$+>:'\"])(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun|julia|Rscript)['\"]?,?\s.*?"
    r"(?:[\w./-]+\.(?:py|jl|R)|-m,? '?[\w.]+)(?![\w.])"
)
_OPTION = lazy_regex(
    r"(?<!\S)(?:--?(?P<flag>[A-Za-z][\w.-]*)|\+{0,2}(?P<override>[A-Za-z_][\w.]*)(?==))"
    r"(?:(?:=| +(?!-[A-Za-z-]|[\w.]+=))(?P<value>\"[^\"]*\"|'[^']*'|\S+))?"
)
_LIST = lazy_regex(r"', '|\['|'\]")
_USAGE = lazy_regex(r"\[-|`|\busage\b")

Cell = float | str
Pair = tuple[str, str]


class _BlockLine(NamedTuple):
    """A line of a block; an empty value opens a section of YAML."""

    margin: int
    by: str
    name: str
    value: str


def read(text: bytes, interpreted: Iterable[str] = ()) -> dict[str, Cell]:
    """The settings in the lines before the first record.

    A name that gputel gives a meaning of its own, one of `interpreted`, has a `_` behind it.
    """
    lines = text.split(b"\n")
    whole = [line.decode(errors="replace") for line in lines]
    bare = [line.decode(errors="replace") for line in strip_to_margin(lines)]
    clean = "\n".join(bare)
    kinds = [_literals(clean), _commands(_continued(whole))]
    if not _CODE.search(clean):
        kinds[1:1] = [_blocks(bare), _pairs(bare)]
    named: dict[str, Cell] = {}
    for kind in kinds:
        named = {**_unchanged(kind), **named}
    reserved = frozenset(interpreted)
    return {f"{name}_" if name in reserved else name: cell for name, cell in list(named.items())[:MOST]}


def _unchanged(pairs: Iterable[Pair]) -> dict[str, Cell]:
    """The pairs as cells, without the names that have two values."""
    named: dict[str, set[Cell]] = {}
    for name, text in pairs:
        cell = _cell(name, text)
        if cell is not None and len(name) <= _LONGEST_NAME:
            named.setdefault(_legal(name), set()).add(cell)
    return {name: cells.pop() for name, cells in named.items() if len(cells) == 1}


def _legal(name: str) -> str:
    """`batch_size` of `--batch-size` and `args.batch_size`."""
    parts = re.sub(r"[^\w.]+", "_", name.strip()).strip("_").split(".")
    while len(parts) > 1 and _WRAPPER.fullmatch(parts[0]):
        parts = parts[1:]
    return ".".join(parts)


def _cell(name: str, text: str) -> Cell | None:
    """A number, or a text without its quotes and secrets; None where nothing is set."""
    text = " ".join(text.split())
    bare = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
    if bare in ("", "None", "null", "~", "none") or len(bare) > LONGEST or _PLACEHOLDER.fullmatch(bare):
        return None
    if NUMERIC.fullmatch(bare) or _THOUSANDS.fullmatch(bare):
        return float(bare.replace("_", "").replace(",", ""))
    return bare.lower() if bare in ("True", "False") else mask_value(name, bare)


def _literals(text: str) -> Iterator[Pair]:
    """The fields of calls and dicts, those of nested ones as `optimizer.lr`."""
    closes = _brackets(text)
    end = 0
    for begin in sorted(closes):
        if begin < end or text[begin] == "[":
            continue
        called = _CALLED.search(text, max(text.rfind("\n", 0, begin) + 1, begin - _LONGEST_NAME), begin)
        fields = list(_fields(text, begin + 1, closes[begin], closes, ""))
        if called and not called["module"] and _are_settings(called["name"] or "", fields):
            yield from fields
            end = closes[begin]


def _are_settings(name: str, fields: Sequence[Pair]) -> bool:
    """Whether a call or dict is a configuration: every field has a name, and one is a hyperparameter."""
    if not fields or not all(name for name, _ in fields):
        return False
    few = 1 if _NAMESPACE.fullmatch(name) else _FEWEST
    return len(fields) >= few and any(setting_lines.is_hyperparameter(name) for name, _ in fields)


def _brackets(text: str) -> dict[int, int]:
    """Where each bracket closes; one that does not is left out."""
    closes: dict[int, int] = {}
    opened: list[int] = []
    for mark in _SPECIAL.finditer(text):
        sign = mark.group()
        if sign in _CLOSING:
            opened.append(mark.start())
        elif sign in ")]}" and any(_CLOSING[text[at]] == sign for at in opened[-8:]):
            while _CLOSING[text[opened[-1]]] != sign:
                opened.pop()
            closes[opened.pop()] = mark.start()
    return closes


def _fields(text: str, begin: int, end: int, closes: Mapping[int, int], prefix: str) -> Iterator[Pair]:
    """The named values between two brackets; a value without a name has an empty one."""
    for first, last in _items(text, begin, end, closes):
        field = _FIELD.match(text, first, last)
        if field is None:
            if text[first:last].strip():
                yield "", ""
            continue
        at, name = field.end(), prefix + field["name"]
        inside = next((i for i in range(at, min(last, at + _LONGEST_NAME)) if i in closes), -1)
        nested = inside >= 0 and text[inside] != "[" and _CALLED.fullmatch(text, at, inside)
        if nested and text[closes[inside] + 1 : last].strip() == "":
            deeper = list(_fields(text, inside + 1, closes[inside], closes, f"{name}."))
            if deeper and all(each for each, _ in deeper):
                yield from deeper
                continue
        yield name, text[at:last]


def _items(text: str, begin: int, end: int, closes: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """Where the parts between commas begin and end."""
    first = at = begin
    while mark := _SPECIAL.search(text, at, end):
        at = closes.get(mark.start(), mark.start()) + 1 if mark.group() in _CLOSING else mark.end()
        if mark.group() == ",":
            yield first, mark.start()
            first = mark.end()
    yield first, end


def _blocks(lines: Sequence[str]) -> Iterator[Pair]:
    """The pairs of blocks of lines of one style."""
    rows = [_row(line) for line in lines if not (line.strip() and _ASIDE.fullmatch(line))]
    for by, group in groupby(rows, key=lambda row: row and row.by):
        block = [row for row in group if row]
        if by and sum(bool(row.value) for row in block) >= _FEWEST:
            pairs = list(_nested(block))
            if any(setting_lines.is_hyperparameter(name) for name, _ in pairs):
                yield from pairs


def _row(line: str) -> _BlockLine | None:
    pair = _LINE.fullmatch(line) if len(line) < _LONGEST_LINE else None
    if pair is None:
        return None
    value = pair["value"].strip()
    while default := _DEFAULT.search(value):
        value = value[: default.start()].rstrip()
    by = "." if pair["dots"] else " " if pair["gap"] else pair["by"]
    return _BlockLine(len(pair["margin"]), by, pair["name"].strip(), value)


def _nested(block: Sequence[_BlockLine]) -> Iterator[Pair]:
    """The pairs of a block, with the names of their sections."""
    sections: list[tuple[int, str]] = []
    for row in block:
        while sections and sections[-1][0] >= row.margin:
            sections.pop()
        if not row.value:
            sections.append((row.margin, row.name))
        elif _WORDS.fullmatch(row.value) or row.value[0] in "'\"[(":
            yield ".".join([*(name for _, name in sections), row.name]), row.value


def _pairs(lines: Iterable[str]) -> Iterator[Pair]:
    """The pairs of lines with several of them, which measure nothing: `lr=0.1 batch_size=32 epochs=10`."""
    for line in lines:
        found = (
            list(_INLINE.finditer(line[:_LONGEST_LINE]))
            if line.count("=") + line.count(":") >= _FEWEST
            else []
        )
        pairs = [(pair["name"], pair["value"]) for pair in found]
        named = [name for name, _ in pairs]
        gaps = sum(after.start() - before.end() for before, after in pairwise(found))
        gaps += bool(found) and "(" in line[: found[0].start()]  # a part of a printed model
        settles = any(map(setting_lines.is_hyperparameter, named)) and not any(map(_MEASURED.search, named))
        settles = settles or setting_lines.sets(line.encode()) == "led"
        if len(pairs) >= _FEWEST and not gaps and settles:
            yield from pairs


def _commands(lines: Iterable[str]) -> Iterator[Pair]:
    """The options of command lines: those after the script, or a line of options alone."""
    for line in lines:
        if "-" not in line or _USAGE.search(line):
            continue
        plain = _LIST.sub(" ", line[:_LONGEST_LINE]) if "'--" in line else line[:_LONGEST_LINE]
        command = _COMMAND.search(plain)
        options = list(_OPTION.finditer(plain, command.end() if command else 0))
        given = [option for option in options if command or option["flag"]]
        names = [option["flag"] or option["override"] for option in given]
        valued = sum(option["value"] is not None for option in given)
        if command or (valued > 1 and any(map(setting_lines.is_hyperparameter, names))):
            for name, option in zip(names, given, strict=True):
                yield name.replace("-", "_"), option["value"] or "true"


def _continued(lines: Iterable[str]) -> Iterator[str]:
    """The lines, each joined with the next one where it ends in a backslash."""
    whole = ""
    for line in lines:
        whole += line.rstrip().removesuffix("\\")
        if not line.rstrip().endswith("\\"):
            yield whole
            whole = ""
    yield whole
