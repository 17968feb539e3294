"""Log formats are data: each TOML file here is one format, with sample lines and the rows that they must give.

`load` turns a file into a `Format`, whose patterns an engine understands. docs/log-formats.md describes the files;
an unknown key or value is an error that names the place. The shipped formats are read from formats.json, which is
twenty times as fast; `python -m gputel.analysis.logs.formats` generates it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from gputel.analysis.logs import values
from gputel.analysis.logs.names import Vocabulary
from gputel.analysis.logs.patterns import STYLES, Field, Pairs, Pattern, Role, lazy_regex, pair_style
from gputel.analysis.timed_regex import timed, try_out
from gputel.telemetry import settings
from gputel.telemetry.errors import GputelError

ROLES: tuple[Role, ...] = get_args(Role)
HOME = Path(__file__).parent
GENERATED = HOME / "formats.json"
MUST = frozenset({"loss", "lr", "grad_norm", "dt_ms", "tok_per_sec", "mfu", "val_loss", "step"})
_SLOT = re.compile(r"(?<!\?P)<(\d*[^\W\d_]\w*)(?::(\w*))?(?::([^<>]+))?>")
_WHOLE = frozenset(
    "step total_steps iteration batch index length count total epochs "
    "world_size gpus gpus_available gpus_per_node nodes vocab_size depth heads".split()
)
_LINE_KEYS = {
    "name", "role", "line", "needle", "pairs", "must", "need", "looks", "unless", "stage", "epochs", "first_epoch",
    "names", "record", "total", "ends", "of",
}  # fmt: skip
_FORMAT_KEYS = {"title", "grammar", "names", "nulls", "lines", "samples", "last", "with"}
_TABLES, _LISTS, _NUMBERS = {"names", "nulls"}, {"lines", "samples"}, {"last", "first_epoch", "total", "ends"}
_WORDS = {"must", "need", "with"}
_CHOICES = {"epochs": ("whole", "fraction"), "record": ("always",), "of": ("next", "above")}


@dataclass(frozen=True, eq=False)
class Format:
    """One log format: its patterns, in the order in which they are tried, and its samples."""

    name: str
    title: str
    grammar: str  # where the format of the lines was found
    patterns: tuple[Pattern, ...]
    samples: tuple[Mapping[str, Any], ...]
    last: int = 0  # 1: tried after formats that are more specific; 2: even later
    beside: tuple[str, ...] = ()  # shipped formats that read the other lines of such a log


@lru_cache(maxsize=1)
def shipped() -> tuple[Format, ...]:
    """The formats that come with gputel, general ones last."""
    tables = json.loads(GENERATED.read_text())
    loaded = [_format(table, name, f"{name}.toml", trusted=True) for name, table in tables.items()]
    return tuple(sorted(loaded, key=lambda each: each.last))


def generate() -> str:
    """The text of formats.json: the tables of all TOML files here, one line each."""
    tables = {path.stem: _parsed(path.read_text(), path.name) for path in sorted(HOME.glob("*.toml"))}
    lines = [f"{json.dumps(name)}: {json.dumps(table)}" for name, table in tables.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


@lru_cache(maxsize=8)
def patterns(formats: tuple[Format, ...]) -> tuple[Pattern, ...]:
    return tuple(pattern for known in formats for pattern in known.patterns)


@lru_cache(maxsize=1)
def interpreted() -> frozenset[str]:
    """The names of settings that have a meaning of their own: figures are computed from what banners say."""
    banners = (pattern for pattern in patterns(shipped()) if pattern.role == "config")
    return frozenset(what.column for pattern in banners for what in pattern.fields.values())


def find(word: str) -> Format:
    """The format with this name, or in this file."""
    for known in shipped():
        if known.name == word:
            return known
    path = Path(word)
    if path.suffix == ".toml" or path.exists():
        try:
            text = settings.beginning(path)
            if fault := settings.too_dear(text):
                raise GputelError(word, fault, "see docs/log-formats.md")
            return load(text.decode(), path.stem, word)
        except UnicodeDecodeError as error:
            raise GputelError(word, f"is not UTF-8: {error.reason}", "see docs/log-formats.md") from None
        except OSError as error:
            raise GputelError(
                word, f"cannot be read: {error.strerror}", "name a format or a TOML file"
            ) from None
    raise GputelError(
        word, "no such format", "'gputel formats' lists them; a file ends in .toml", exit_code=2
    )


def with_others(known: Format) -> tuple[Format, ...]:
    """The format, and the shipped ones that read the other lines of its logs."""
    return (*(each for each in shipped() if each.name in known.beside), known)


def load(text: str, name: str, place: str, *, trusted: bool = False) -> Format:
    """A format from its TOML; errors name `place`. Regexes of a trusted format are compiled only when used."""
    return _format(_parsed(text, place), name, place, trusted=trusted)


def _parsed(text: str, place: str) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib  # novermin
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GputelError(place, f"is not TOML: {error}", "see docs/log-formats.md") from None
    except RecursionError:
        raise GputelError(place, "is nested too deeply", "see docs/log-formats.md") from None


def _format(table: dict[str, Any], name: str, place: str, *, trusted: bool) -> Format:
    _only(table, _FORMAT_KEYS, place)
    lines = table.get("lines", [])
    if not lines:
        raise GputelError(place, "has no [[lines]]", "see docs/log-formats.md")
    for line in lines:
        _only(line, _LINE_KEYS, place)
    if not trusted:
        _distinct(lines, place)
        _texts(table.get("samples", []), place)
    patterns = tuple(_pattern(line, name, _words(table, line), place) for line in lines)
    if not trusted:
        for pattern in patterns:
            _compile(pattern, place)
        patterns = tuple(_timed(pattern, table.get("samples", []), place) for pattern in patterns)
    return Format(
        name,
        str(table.get("title", name)),
        str(table.get("grammar", "")),
        patterns,
        tuple(table.get("samples", [])),
        int(table.get("last", 0)),
        _shipped_names(table.get("with", []), place),
    )


def _shipped_names(words: Sequence[str], place: str) -> tuple[str, ...]:
    known = {each.name for each in shipped()} if words else set()
    if unknown := [word for word in words if word not in known]:
        raise GputelError(place, f"'with' names no shipped format: {unknown[0]}", "see 'gputel formats'")
    return tuple(words)


def _distinct(lines: Sequence[Mapping[str, Any]], place: str) -> None:
    """Refuses a second line of the same name: the first one would read its lines as well."""
    names = [line.get("name") for line in lines]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise GputelError(place, f"has two lines with the name '{twice}'", "rename or remove one of them")


def _texts(samples: Sequence[Mapping[str, Any]], place: str) -> None:
    for number, sample in enumerate(samples, start=1):
        if not isinstance(sample.get("text"), str):
            raise GputelError(place, f"sample {number} has no 'text'", "see docs/log-formats.md")
        if not _are_tables(sample.get("rows", [])):
            raise GputelError(
                place, f"sample {number} has 'rows' that are no tables", "see docs/log-formats.md"
            )


def _compile(pattern: Pattern, place: str) -> None:
    """Raises the error of a regular expression before any log is read with it."""
    regexes = (pattern.regex, pattern.looks, pattern.unless, pattern.pairs and pattern.pairs.regex)
    try:
        for regex in regexes:
            _ = regex and regex.groups
    except re.error as error:
        name = pattern.name.rpartition(".")[2]
        raise GputelError(place, f"'{name}' is not a regular expression: {error}", "correct it") from None
    if pattern.pairs and not {"key", "value"} <= pattern.pairs.regex.groupindex.keys():
        name = pattern.name.rpartition(".")[2]
        fault = f"the pairs of '{name}' are no style, nor a regular expression with the groups key and value"
        raise GputelError(place, fault, f"one of {', '.join(STYLES)}")


def _timed(pattern: Pattern, samples: Sequence[Mapping[str, Any]], place: str) -> Pattern:
    """The pattern with a limit on the time of each search, tried out on the format's samples."""
    name = pattern.name.rpartition(".")[2]
    pairs = pattern.pairs and replace(pattern.pairs, regex=timed(pattern.pairs.regex, name, place))
    looks = pattern.looks and timed(pattern.looks, name, place)
    unless = pattern.unless and timed(pattern.unless, name, place)
    regex = timed(pattern.regex, name, place)
    limited = replace(pattern, regex=regex, looks=looks, unless=unless, pairs=pairs)
    lines = [line.encode() for sample in samples for line in str(sample.get("text", "")).splitlines()]
    for each in (limited.regex, limited.looks, limited.unless):
        if each:
            try_out(each, lines)
    return limited


def _words(table: Mapping[str, Any], line: Mapping[str, Any]) -> Vocabulary:
    """The format's names, with those that mean something else on this kind of line."""
    return Vocabulary({**table.get("names", {}), **line.get("names", {})}, table.get("nulls", {}))


def _only(table: Mapping[str, Any], known: set[str], place: str) -> None:
    for key in table:
        if key not in known:
            raise GputelError(place, f"does not know '{key}'", f"one of {', '.join(sorted(known))}")
        if not _has_type(key, table[key]):
            raise GputelError(place, f"'{key}' has a value of a wrong type", "see docs/log-formats.md")


def _has_type(key: str, value: object) -> bool:
    if key in _TABLES:
        texts = list(value.values()) if isinstance(value, dict) else [None]
        return all(_are_texts(each) if key == "nulls" else isinstance(each, str) for each in texts)
    if key in _WORDS:
        return _are_texts(value)
    if key in _LISTS:
        return _are_tables(value)
    return isinstance(value, int if key in _NUMBERS else str)


def _are_tables(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _pattern(line: Mapping[str, Any], format_name: str, words: Vocabulary, place: str) -> Pattern:
    try:
        name = f"{format_name}.{line['name']}"
        if line["role"] not in ROLES:
            raise GputelError(
                place, f"'{line['name']}' has no role '{line['role']}'", f"one of {', '.join(ROLES)}"
            )
        for key, allowed in _CHOICES.items():
            if line.get(key, allowed[0]) not in allowed:
                fault = f"'{line['name']}' has no {key} '{line[key]}'"
                raise GputelError(place, fault, f"one of {', '.join(allowed)}")
        _closed(str(line["line"]), name, place)
        regex, fields = _expand(str(line["line"]), words)
        pairs = None
        if "pairs" in line:
            must = frozenset(line.get("must", MUST))
            pairs = Pairs(pair_style(line["pairs"]), words, must, frozenset(line.get("need", ())))
        return Pattern(
            name=name,
            role=line["role"],
            regex=regex,
            needle=str(line["needle"]).encode(),
            fields=fields,
            pairs=pairs,
            looks=lazy_regex(line["looks"].encode()) if "looks" in line else None,
            unless=lazy_regex(line["unless"].encode()) if "unless" in line else None,
            stage=line.get("stage"),
            whole_epochs=line.get("epochs", "whole") == "whole",
            first_epoch=line.get("first_epoch"),
            is_record=line.get("record") == "always",
            total=line.get("total"),
            ends=line.get("ends"),
            is_of_above=line.get("of") == "above",
        )
    except KeyError as error:
        raise GputelError(place, f"a line has no {error}", "see docs/log-formats.md") from None


def _closed(line: str, name: str, place: str) -> None:
    """Refuses a slot without an end, which would be a literal that no line has."""
    slot = re.search(r"(?<![\\P])<[^\W\d_][\w:]*", _SLOT.sub("", line))
    if slot:
        fault = f"'{name.rpartition('.')[2]}' has a slot without an end: {slot.group()}"
        raise GputelError(place, fault, f"write {slot.group()}>, or \\{slot.group()} for the text itself")


def _expand(line: str, words: Vocabulary) -> tuple[re.Pattern[bytes], dict[str, Field]]:
    """`<loss>` is a number for the column loss; `<total_time_min:s:train_time>` says its unit and printed name."""
    fields: dict[str, Field] = {}

    def slot(found: re.Match[str]) -> str:
        column, unit, source = found[1], (found[2] or "").strip("_") or None, found[3]
        kind = {"text": "text", "word": "text", "clock": "clock"}.get(unit or "", "number")
        group = column if column.isascii() else "value"  # as regexes of bytes have it
        group = group if group[0].isalpha() else f"_{group}"
        group = group if group not in fields else f"{group}_{len(fields)}"
        fields[group] = words.named(column, source or column, None if kind != "number" else unit, kind)
        whole = column in _WHOLE and unit not in values.COUNTS  # `1.5K` of steps is a fraction of thousands
        grammar = _grammar(unit if unit == "word" else kind, whole=whole)
        return f"(?P<{group}>{grammar})"

    return lazy_regex(_SLOT.sub(slot, line).encode()), fields


def _grammar(kind: str, *, whole: bool) -> str:
    if kind == "text":
        return r"\S.*?"
    if kind == "word":
        return r"\S+"
    if kind == "clock":
        return values.TIME_GRAMMAR.decode()
    return r"\d+(?:,\d{3})*" if whole else f"(?:{values.GRAMMAR.decode()})"
