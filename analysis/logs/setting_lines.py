"""Lines that set something and measure nothing, though they give a loss and a step: `Config: loss=1.0 | step=10`.

`sets` judges one line by its words: a command with its options, names and values behind `Namespace(` or `Config:`,
the place of a checkpoint that is loaded. A line behind `Config:` is settings only where the first such line stands
above all records: later ones are results of what was set. `SettingRows` takes such lines out of what an engine has
read, and the blocks of pairs below `Hyperparameters:`. It looks at records that print other fields than the record
before, or behind a longer prefix, so that a long log costs nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from gputel.analysis.logs.languages import english
from gputel.analysis.logs.line_kinds import plan
from gputel.analysis.logs.line_prefixes import strip_prefixes, strip_to_margin
from gputel.analysis.logs.outcome import RECORDS
from gputel.analysis.logs.patterns import EngineResult, Hits, Pattern, Reject, Values, lazy_regex

Kind = Literal["command", "call", "loaded", "led"]
Words = tuple[bytes, ...]
Look = tuple[int, int, int]  # a row to look at: its line, its hits, and which of them it is

_FOREIGN = (
    "超参数|超參數|参数|參數|配置|设置|設定|引数|ハイパーパラメータ|パラメータ|하이퍼파라미터|파라미터|설정|인자|"
    "einstellungen|konfiguration|paramètres|paramètre|configuración|parámetros|configuração|parâmetros|"
    "параметры|гиперпараметры|настройки|конфигурация"
).encode()
_NAMES = (
    rb"(?:configs?|configuration|cfg|args|arguments|h?params|(?:hyper[-_ ]?)?parameters|settings|options|opts?"
    rb"|flags|kwargs|%b)" % _FOREIGN
)
_WORDS = rb"(?:[A-Za-z][\w'.]*[ _.-]){0,3}?"
_LED = lazy_regex(
    rb"(?i)\W{0,6}%b(?P<lead>[a-z_.]*%b)['\"]?(?:\s*(?::|=|->|=>|\s-\s|\xef\xbc\x9a))?\s*(?<=[:=>\x9a-])\s*[\[({]*\s*"
    rb"(?:--[a-z]|['\"]?[a-z_\x80-\xff][\w.\x80-\xff-]*['\"]?\s?(?:[:=]|\xef\xbc\x9a)(?!/))"
    % (_WORDS, _NAMES)
)
_CALL = lazy_regex(
    rb"(?i)\W{0,6}(?:[\w' -]{0,40}[:=>]\s*)?['\"]?[\w.]*"
    rb"(?:namespace|config|args|arguments|h?params|settings|options)\(\s*['\"{]{0,2}[A-Za-z_]\w*['\"]?\s*[:=].*[)}]\W*"
)
# `EarlyStopping(patience=5, ...)`: an object of the training, which has no place in it
_OBJECT = lazy_regex(
    rb"\W{0,6}(?:[\w' -]{0,40}[:=>]\s*)?[A-Z]\w*\((?!.*\b(?:step|epoch|iter\w*)=)"
    rb"(?=.*\b(?:patience|min_delta|weight_decay|momentum|betas|eps|factor|step_size|T_max|milestones|seed)=)"
    rb"\w+=.*\)\W*"
)
_PROGRAM = lazy_regex(
    rb"(?:.{0,200}[\s/$+>:'\"])?(?:python[\d.]*|torchrun|accelerate|deepspeed|srun|mpirun|julia|Rscript|bash|sh)\s.*?"
    rb"(?:[\w./-]+\.(?:py|jl|R|sh)|-m\s+[\w.]+)(?![\w.])"
)
_OPTION = lazy_regex(rb"(?<!\S)--[A-Za-z][\w.-]*(?:=|\s+|$)")
_SCRIPT = lazy_regex(rb"\W{0,4}(?:\S+\s+){0,2}?[\w./-]+\.(?:py|jl|R|sh)\s")
_OVERRIDE = lazy_regex(rb"\W{0,4}(?:\S+\s+){0,2}?[\w./-]+\.(?:py|jl|R|sh)(?: [\w.]+=\S+)+\s*")
_LOADED = lazy_regex(
    rb"(?i)\W{0,6}(?:(?:successfully|auto|model|weights) ?)?(?:(?:re)?load|resum|restor)(?:e|ed|ing)?\b"
    rb"(?=.*\b(?:checkpoint|ckpt|weights|snapshot|state)|.*\.(?:pth?|ckpt|safetensors|bin)\b)"
    rb"|\W{0,6}(?:checkpoint|weights|snapshot|state) (?:successfully )?(?:loaded|restored|resumed)\b"
)
_HEADING = lazy_regex(
    rb"(?i)\W*(?:%b[a-z_.]*%b\s*(?::|\xef\xbc\x9a|[=*#_-]{2,})|[a-z_.]*%b)[\W_]*" % (_WORDS, _NAMES, _NAMES)
)
_COLUMNS = lazy_regex(
    rb"(?i)[\s|]*(?:(?:hyper)?parameter|setting|option|config|argument|flag)s?\s*\|?\s*values?[\s|]*"
)
_PAIR = lazy_regex(
    rb"(?P<margin>\s*)[|*>-]?\s*(?:--)?['\"]?(?P<key>[a-zA-Z_\x80-\xff][\w./\x80-\xff-]*(?: [\w./-]+){0,3})['\"]?"
    rb"\s*(?:=>|->|[:=|\t]|\xef\xbc\x9a|\s{2,}|\.{3,}\s)\s*(?!.*\w ?[:=] ?[+-]?\d)\S.*"
)
_RULER = lazy_regex(rb"\s*[-+=*_#|]{3,}\s*")
_KEYS = lazy_regex(rb"([^\W\d][\w.-]*)['\"]?\s?[:=]")
_MEASURED = lazy_regex(rb"(?i)(?:loss|step|epoch|iter\w*|acc\w*)['\"]?\s?[:=]\s*([^\s,;|)}]+)")
_LONGEST_LINE = 4096
_LONGEST_BLOCK = 60  # lines
_MOST_ABOVE = 100  # lines of settings; with more of them, and no record, they are the records
_MOST_LOOKS = 10_000  # in a log of which every other line looks new


def sets(line: bytes) -> Kind | None:
    """How a line without its prefix sets something; None where it may measure."""
    if len(line) > _LONGEST_LINE:
        return None
    if b"--" in line or b".py" in line or b".sh" in line:
        options = len(_OPTION.findall(line))
        runs = (options and _SCRIPT.match(line)) or _OVERRIDE.fullmatch(line) or _PROGRAM.match(line)
        if options > 1 or runs:
            return "command"
    if b"(" in line and (_CALL.fullmatch(line) or _OBJECT.fullmatch(line)):
        return "call"
    if _LOADED.match(line):
        return "loaded"
    return "led" if _LED.match(line) else None


def below_heading(lines: Sequence[bytes]) -> bool:
    """Whether the last line is a pair in a block below a line such as `Hyperparameters:`.

    The block ends at an empty line, at text, at a smaller margin, and at a name that it has already.
    """
    keys: set[bytes] = set()
    margin = _LONGEST_LINE
    for each in reversed(lines[-_LONGEST_BLOCK:]):
        if keys and _is_heading(each):
            return True
        if keys and _RULER.fullmatch(each):
            continue
        pair = _PAIR.fullmatch(each) if len(each) < _LONGEST_LINE else None
        if pair is None or pair["key"] in keys or len(pair["margin"]) > margin:
            return False
        keys.add(pair["key"])
        margin = len(pair["margin"])
    return False


def _is_heading(line: bytes) -> bool:
    return len(line) < 80 and (_HEADING.fullmatch(line) or _COLUMNS.fullmatch(line)) is not None


class SettingRows:
    """Takes the rows of settings out of readings, one reading after the other."""

    def __init__(self) -> None:
        self._recording = False  # whether a record has been read
        self._led: dict[Words, Words] = {}  # the lines above the records: names -> measures
        self._last: dict[Pattern, tuple[int, frozenset[str]]] = {}  # prefix and fields of the last record
        self._set_above = 0  # commands and calls before the first record
        self._was_mistaken = False  # whether lines like those above the records turned out to be records
        self._looks = 0
        self._above: list[bytes] = []  # the last lines, up to the first record

    def without(self, reading: EngineResult, data: bytes) -> EngineResult:
        """The reading without the rows of settings."""
        found: dict[int, list[int]] = {}
        rejects = list(reading.rejects)
        looks = sorted(look for at, hits in enumerate(reading.hits) for look in self._new_rows(at, hits))
        for number, at, row in looks:  # grows
            hits, was_mistaken = reading.hits[at], self._was_mistaken
            if self._sets(hits, row, data):
                found.setdefault(at, []).append(row)
                self._look_below(looks, hits, at, row)
            else:
                self._recording = self._recording or measures(hits)
            if self._was_mistaken > was_mistaken:
                rejects.append(
                    Reject(number, hits.pattern.name, "a line like it was taken for settings above")
                )
        self._above = [] if self._recording else [*self._above, *data.splitlines()][-_LONGEST_BLOCK:]
        kept = [_without_rows(hits, found.get(at, [])) for at, hits in enumerate(reading.hits)]
        rejects.sort(key=lambda reject: reject.line)
        return EngineResult(reading.lines, [hits for hits in kept if len(hits.lines)], rejects)

    def _new_rows(self, at: int, hits: Hits) -> Iterator[Look]:
        """The rows of records unlike the one before, with their lines."""
        if hits.pattern.role not in RECORDS:
            return iter(())
        masks = {what.source: column.present for what, column in hits.values.items()}
        masks |= {what.source: column.present for what, column in hits.texts.items()}
        prefixes = hits.begins - hits.starts
        new = np.ones(len(hits.lines), dtype=np.bool_)
        new[1:] = prefixes[1:] != prefixes[:-1]
        for mask in masks.values():
            if not mask.all():
                new[1:] |= mask[1:] != mask[:-1]
        first, last = (
            (int(prefixes[row]), frozenset(name for name, mask in masks.items() if mask[row]))
            for row in (0, -1)
        )
        new[0] = self._last.get(hits.pattern) != first
        self._last[hits.pattern] = last
        rows = np.flatnonzero(new)[: max(0, _MOST_LOOKS - self._looks)]
        self._looks += len(rows)
        return ((int(hits.lines[row]), at, int(row)) for row in rows)

    def _look_below(self, looks: list[Look], hits: Hits, at: int, row: int) -> None:
        """Sees to it that the next row is looked at, too: it is not like a record."""
        if row + 1 == len(hits.lines):
            del self._last[hits.pattern]
            return
        below = (int(hits.lines[row + 1]), at, row + 1)
        place = bisect_left(looks, below)
        if looks[place : place + 1] != [below]:
            looks.insert(place, below)

    def _sets(self, hits: Hits, row: int, data: bytes) -> bool:
        start = int(hits.starts[row])
        end = data.find(b"\n", start)
        line = data[start : end if end >= 0 else len(data)]
        bare = strip_prefixes([line])[0]
        kind = sets(bare)
        if kind == "led":
            return self._is_led(english(bare))
        if kind and not self._recording:
            self._set_above += 1
            self._was_mistaken = self._was_mistaken or self._set_above > _MOST_ABOVE
        if kind or self._recording:
            return kind is not None and not self._was_mistaken
        above = [*self._above, *data[:start].rsplit(b"\n", _LONGEST_BLOCK + 1)[:-1]]
        return below_heading(strip_to_margin([*above, line]))

    def _is_led(self, line: bytes) -> bool:
        """Whether a line behind a word is settings: the first such line is above the records, and none measures."""
        names, measures = tuple(_KEYS.findall(line)), tuple(_MEASURED.findall(line))
        above = self._led.get(names) if self._recording else self._led.setdefault(names, measures)
        self._was_mistaken = self._was_mistaken or (above is not None and above != measures)
        return above == measures and not self._was_mistaken


def measures(hits: Hits) -> bool:
    """Whether its lines are records or evaluations, unlike a bar that only counts."""
    kind = plan(hits.pattern, (*hits.values, *hits.texts))
    return hits.pattern.role in RECORDS and bool(kind.record or kind.evals)


def _without_rows(hits: Hits, rows: list[int]) -> Hits:
    if not rows:
        return hits
    keep = np.setdiff1d(np.arange(len(hits.lines)), rows)
    values = ((what, Values(c.numbers[keep], c.present[keep])) for what, c in hits.values.items())
    texts = ((what, column.take(keep)) for what, column in hits.texts.items())
    return replace(
        hits,
        lines=hits.lines[keep],
        starts=hits.starts[keep],
        begins=hits.begins[keep],
        values={what: column for what, column in values if column.present.any()},
        texts={what: column for what, column in texts if column.present.any()},
    )
