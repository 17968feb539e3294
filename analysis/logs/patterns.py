"""Pattern: what a format asks of a line. EngineResult: what an engine finds.

An engine is a function `read(data, patterns, starts, begins) -> EngineResult`. `data` is whole clean lines (no
ANSI, no CR; each ends in a line feed, but the last may lack it); `starts` are their positions, if known, and
`begins` those of their texts, if these begin further on: only the texts are read. Each line belongs to the first
pattern that matches anywhere in it. What stands before the match (timestamps, ranks, echo) is not
read here; the engine only says where the match began. `regex_engine.read` does just that in plain Python;
`numpy_engine.read` must give the same cells.

`lazy_regex` compiles a regular expression when it is first used: gputel has some two hundred, a log needs a dozen,
and compiling them all takes longer than reading ten megabytes.

STYLES are the ways to write `name value` pairs, each a regex that formats refer to by name. Each has the groups
`key` and `value`; some have `also`, the second number of a pair, in brackets. A key begins where a word begins and
has a limited length, so that no line takes long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any, AnyStr, Literal, NamedTuple, Protocol, cast

import numpy as np
import numpy.typing as npt

Role = Literal[
    "train",
    "part",
    "bar",
    "eval",
    "eval_bar",
    "task",
    "summary",
    "config",
    "epoch",
    "header",
    "begins",
    "names",
    "again",
    "border",
    "evaluates",
    "validates",
    "tested",
    "trains",
    "starts",
]
RECORDS: tuple[Role, ...] = ("train", "part", "bar")
EVALUATIONS: tuple[Role, ...] = ("eval", "task")
MEASURES = (*RECORDS, *EVALUATIONS)
STATED: tuple[Role, ...] = ("summary", "config")  # of the run as a whole
Kind = Literal["number", "clock", "text"]


@dataclass(frozen=True)
class Field:
    """One value that lines print: its column, its printed name and unit, and how its text becomes a number.

    A number is float(text without commas, exponent moved by `shift`) * times / over: moving the exponent keeps
    0.4066 s at exactly 406.6 ms. A clock is seconds, then the same. Texts in `nulls` mean "not measured".
    """

    column: str
    source: str
    unit: str | None = None
    kind: Kind = "number"
    shift: int = 0
    times: int = 1
    over: int = 1
    nulls: frozenset[bytes] = frozenset()

    def __post_init__(self) -> None:
        # Fields are hashed often; these three tell them apart.
        object.__setattr__(self, "_hash", hash((self.column, self.source, self.unit)))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined,no-any-return]


class Names(Protocol):
    """A vocabulary: the field of a printed name and unit; None for a pair to ignore."""

    def field(self, key: bytes, unit: bytes) -> Field | None: ...


@dataclass(frozen=True)
class Pairs:
    """`name value` pairs, scanned from where the pattern's own regex ended to the end of the line.

    `regex` has the groups `key` and `value`, and may have `also`: a second number of the same pair, in brackets,
    whose key is the pair's with `()` behind it. Each value is a number, with or without a unit (`values.split`):
    `658.60ms`, `11.5K`, `93.46 GiB`. A value that is neither number nor placeholder is passed over; where its
    column is one of `must`, the line is a reject. A line in which none of the columns `need` was read is not a
    line of this pattern (nothing needed: any will do).
    Of two pairs with the same field the first counts, in a bar the last.
    """

    regex: re.Pattern[bytes]
    names: Names
    must: frozenset[str] = frozenset()
    need: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Pattern:
    """One kind of line. `regex` is searched; its groups in `fields` are values, null if a group did not take part.

    Every line that `regex` or `looks` matches contains the literal `needle`. A line that no pattern matches is a
    reject of the first pattern whose `looks` matches.
    """

    name: str
    role: Role
    regex: re.Pattern[bytes]
    needle: bytes
    fields: Mapping[str, Field] = field(default_factory=dict)
    pairs: Pairs | None = None
    looks: re.Pattern[bytes] | None = None
    unless: re.Pattern[bytes] | None = None  # is found in no line of the pattern
    stage: str | None = None  # the phase that such a line belongs to, begins or names
    whole_epochs: bool = True  # whether an epoch without a fraction may stand for the step
    first_epoch: int | None = None  # None: 0 if an epoch 0 was seen, else 1
    is_record: bool = False  # whether each of its lines is a record, whatever it gives
    total: int | None = None  # of the records, told by a line that announces a loop with another one
    ends: int | None = None  # the first epoch, where the line stands below the records of its epoch
    is_of_above: bool = False  # whether an evaluation without a step is of the record above it


class Values(NamedTuple):
    """A column of one pattern's hits. NaN is a printed number; `present` says whether one was printed."""

    numbers: npt.NDArray[np.float64]  # 0.0 where not present
    present: npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Texts:
    """A column of texts of one pattern's hits: where each stands in `data`; a missing one begins at -1."""

    data: bytes
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begins)

    def __getitem__(self, row: int) -> bytes | None:
        begin = int(self.begins[row])
        return None if begin < 0 else self.data[begin : int(self.ends[row])]

    def __iter__(self) -> Iterator[bytes | None]:
        for begin, end in zip(self.begins.tolist(), self.ends.tolist(), strict=True):
            yield None if begin < 0 else self.data[begin:end]

    @property
    def present(self) -> npt.NDArray[np.bool_]:
        present: npt.NDArray[np.bool_] = self.begins >= 0
        return present

    def take(self, rows: slice | npt.NDArray[np.int64]) -> Texts:
        return Texts(self.data, self.begins[rows], self.ends[rows])


@dataclass(frozen=True)
class Hits:
    """The lines of one pattern, column by column. `lines` counts the lines of `data` from 0 and rises."""

    pattern: Pattern
    lines: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]  # where the text of the line starts in data
    begins: npt.NDArray[np.int64]  # where the match begins in data; time and rank stand between the two
    values: dict[Field, Values]  # in the order in which the fields were first met
    texts: dict[Field, Texts]  # of the fields whose kind is text

    def take(self, rows: slice | npt.NDArray[np.int64]) -> Hits:
        values = {what: Values(v.numbers[rows], v.present[rows]) for what, v in self.values.items()}
        texts = {what: texts.take(rows) for what, texts in self.texts.items()}
        return Hits(self.pattern, self.lines[rows], self.starts[rows], self.begins[rows], values, texts)


class Reject(NamedTuple):
    """A line that looks like a record and cannot be read."""

    line: int
    pattern: str
    reason: str


class EngineResult(NamedTuple):
    """The result of an engine for a piece of data: hits in the order of patterns, rejects in that of lines."""

    lines: int
    hits: list[Hits]
    rejects: list[Reject]


class AlreadyRead(NamedTuple):
    """What known formats have read of a log whose other lines may have a format of their own."""

    records: int = 0
    passes: int = 0  # in which their steps began again
    names: Mapping[str, str] = MappingProxyType({})  # printed, by column


NOTHING_READ = AlreadyRead()


class Engine(Protocol):
    def __call__(
        self,
        data: bytes,
        patterns: tuple[Pattern, ...],
        starts: npt.NDArray[np.int64] | None = None,
        begins: npt.NDArray[np.int64] | None = None,
        /,
    ) -> EngineResult: ...


def lazy_regex(source: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A regex that is compiled when first used; an error in it is raised only then."""
    return cast("re.Pattern[AnyStr]", _Lazy(source, flags))


def any_of(alternatives: Iterable[bytes]) -> bytes:
    """A regex for any of the alternatives, each of which begins with one byte.

    Those with the same one share it, so that `re` passes over most bytes, and tries few alternatives at the others.
    """
    rests: dict[bytes, list[bytes]] = {}
    for alternative in alternatives:
        first = alternative[: 2 if alternative.startswith(b"\\") else 1]
        rests.setdefault(first, []).append(alternative[len(first) :])
    return b"|".join(first + b"(?:" + b"|".join(rest) + b")" for first, rest in rests.items())


class _Lazy:
    """Stands in for a compiled regex, and takes over its methods as they are used."""

    def __init__(self, source: str | bytes, flags: int) -> None:
        self.pattern = source
        self._flags = flags

    def __reduce__(self) -> tuple[type[_Lazy], tuple[str | bytes, int]]:
        return _Lazy, (self.pattern, self._flags)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled: Any = re.compile(self.pattern, self._flags)
        found = getattr(compiled, name)
        setattr(self, name, found)
        return found


_DIGITS_FIRST = r"(?:(?<![\w.,:/+-])\d{1,3}(?=[A-Za-z]{1,10}_))?"
"""A key may begin with a number, `2d_loss`, where a word begins."""
_WORD = r"[A-Za-z_][\w./@%-]{0,200}"
_SET_FIRST = r"(?i:train|training|trn|vali?|valid|validation|vld|eval|test|dev)"
_NUMBER_AHEAD = r"(?=[-+.]?\d|[+-]?(?i:nan|inf)\b)"


def _key(without: str) -> str:
    """A regex for a key: some words without these characters."""
    return (
        rf"(?<![A-Za-z])(?P<key>{_DIGITS_FIRST}[A-Za-z][^{without}\s]{{0,80}}"
        rf"(?:\s{{1,20}}[^{without}\s]{{1,80}}){{0,9}}?)"
    )


def _after_key(without: str, end: str) -> str:
    """A regex for what follows a key: a sign, or a blank if a number and then an end follow."""
    return rf"(?:\s*[:=]\s*|\s+{_NUMBER_AHEAD}(?=[^{without}]{{0,120}}{end}))"


STYLES: dict[str, str] = {
    # | lm loss: 2.198845E+00 | lr 8.3916e-07 | norm:15.4 (+0.1)| elapsed time per iteration (ms): 106.4 |
    "bars": _key("|:=")
    + _after_key("|:=", r"(?:\||$)")
    + r"(?P<value>[^|(\s]*(?:\s+[^|(\s]+)*)(?:\s*\((?P<also>[^()|]*)\))?\s*(?:\||$)",
    # loss 10.9733, time 42422.97ms, mfu -100.00%   or   lr: 1.396e-07, eta: 1 day, 0:09:32, loss: 3.7080
    "commas": _key(",;:=")
    + _after_key(",;:=", "(?:[,;]|$)")
    + r"(?P<value>(?:\d+ days?, )?[^,;(\s]*(?:(?:\s+|,(?=\d{3}))[^,;(\s]+)*)"
    r"(?:\s*\((?P<also>[^(),]*)\))?\s*(?:[,;]|$)",
    # - loss: 1.7197 - acc: 0.5893
    "dashes": rf"(?<!\s)\s+-\s+(?P<key>{_DIGITS_FIRST}[A-Za-z][^:]{{0,200}}?):\s*"
    r"(?P<value>\S*(?:\s+(?!-\s)\S+)*?)(?=\s+-\s|\s*$)",
    # loss:2.085 lr:2e-05   metrics={'acc': 0.5}   loss:  3.11665  memory: 93.46GiB(52.40%)  loss: 6.8536 (6.9458)
    # and, where a comma or the name of a set shows it, a name of several words: `, G loss=2.5`, `val loss: 2.5`
    "words": rf"(?<![A-Za-z_])(?P<key>(?:(?:(?<=, ){_WORD}|{_SET_FIRST})(?: {_WORD}){{1,3}}(?=['\"]?\s*[:=])"
    rf"|{_DIGITS_FIRST}{_WORD}))['\"]?\s*[:=]\s*"
    r"(?P<value>(?!\{)[^\s,;(|\]}]*[^\s,;(|\]}:](?:,\d{3}[^\s,;(|\]}]*)*)(?:\s?\((?P<also>[^()]*)\))?",
    # step=3 loss=2.1 msg="step done"
    "equals": rf"(?<![A-Za-z_])(?P<key>{_DIGITS_FIRST}[A-Za-z_][\w./%-]{{0,200}})="
    r'(?P<value>"[^"]*"|[^\s,;"]+(?:,\d{3}(?!\d)[^\s,;"]*)*)',
    # lr: 1.0e-03  recall@thr=0.5: 0.2222  max mem: 3524: two blanks or a tab between pairs
    "columns": rf"(?<![A-Za-z_])(?P<key>{_DIGITS_FIRST}[A-Za-z_][^:\s]{{0,80}}(?: [^:\s]{{1,80}}){{0,9}}):\s*"
    r"(?P<value>(?:\d+ days?, )?[^\s(]+)(?:\s?\((?P<also>[^()]*)\))?",
    # {'loss': 2.2818, "eval_loss": "4.83"}
    "quoted": r"""["'](?P<key>[^"']{1,400})["']\s*:\s*(?P<q>["'])?(?P<value>(?(q)[^"']*|[^,{}\[\]]*))""",
}


@lru_cache(maxsize=64)
def pair_style(style: str) -> re.Pattern[bytes]:
    """The regex of a style by its name, or a format's own regex."""
    return lazy_regex(STYLES.get(style, style).encode())
