"""Names in a question -> SQL: a fact of the run, else a setting, else the last value of a metric.

A setting that is compared with a number is compared as a number: SQLite would take every text for larger than every
number, and some tools keep all settings as text.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

from gputel.analysis.catalogue.facts import FACTS, FIGURES
from gputel.telemetry.errors import GputelError

PREFIXES = ("config", "tag", "env", "package")
EXTRA = ("away",)
TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^']|'')*')|(?P<quoted>"(?:[^"]|"")+"|\[[^\]]+\]|`[^`]+`)"""
    r"""|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)"""
    r"""|(?P<name>[^\W\d]\w*(?:[./-](?=\w)[\w@:%]+)*)|(?P<sign><=|>=|<>|!=|==|\|\||[-+*/%<>=(),]))"""
)
WORDS = frozenset(
    """and or not in is null like glob between case when then else end cast as text real integer collate nocase
    escape isnull notnull true false""".split()
)
COMPARES = frozenset({"<", ">", "<=", ">=", "=", "==", "!=", "<>"})
SUMS = frozenset({"+", "-", "*", "/", "%"})
LONGEST = 20_000  # letters of a question


class Token(NamedTuple):
    kind: str
    text: str


class KnownNames:
    """The names of facts, settings and metrics in the index."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @cached_property
    def settings(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._connection.execute("SELECT DISTINCT key FROM settings"))

    @cached_property
    def metrics(self) -> frozenset[str]:
        return frozenset(row[0] for row in self._connection.execute("SELECT DISTINCT name FROM metrics"))

    def setting(self, name: str) -> str | None:
        """The whole key of a setting; a bare name is enough where one kind of setting has it."""
        if name in self.settings:
            return name
        keys = [key for prefix in PREFIXES if (key := f"{prefix}.{name}") in self.settings]
        if len(keys) > 1:
            raise GputelError(name, f"is {' and '.join(keys)}", "name one of them", exit_code=2)
        return keys[0] if keys else None

    def all(self) -> list[str]:
        bare = [key.partition(".")[2] for key in self.settings]
        return [*FACTS, *self.settings, *bare, *self.metrics]


def expression(name: str, names: KnownNames, *, as_number: bool = False) -> str:
    """The SQL of one name; raises GputelError, naming the nearest, where there is none."""
    if name in FACTS or name in EXTRA:
        return f'r."{name}"'
    key = names.setting(name)
    if key is not None:
        cell = "num" if as_number else "coalesce(num, text)"
        return f"(SELECT {cell} FROM settings WHERE run = r.id AND key = {_literal(key)})"
    metric, _, figure = name.rpartition(".")
    if metric in names.metrics and figure in FIGURES:
        return f'(SELECT "{figure}" FROM metrics WHERE run = r.id AND name = {_literal(metric)})'
    if name in names.metrics:
        return f'(SELECT "last" FROM metrics WHERE run = r.id AND name = {_literal(name)})'
    near = get_close_matches(name, names.all(), 3, 0.5)
    hint = f"did you mean {', '.join(dict.fromkeys(near))}?" if near else "see 'gputel runs --columns all'"
    raise GputelError(name, "is not a fact, setting or metric of any run", hint, exit_code=2)


def condition(text: str, names: KnownNames) -> str:
    """The SQL of a condition, with every name in it resolved."""
    tokens = _tokens(text)
    _check_parentheses(tokens)
    parts = []
    for at, token in enumerate(tokens):
        if not _is_name(tokens, at):
            parts.append(token.text)
            continue
        name = token.text[1:-1].replace('""', '"') if token.kind == "quoted" else token.text
        parts.append(expression(name, names, as_number=_is_numeric(tokens, at)))
    return " ".join(parts)


def _tokens(text: str) -> list[Token]:
    if len(text) > LONGEST:
        raise GputelError("the condition", f"has more than {LONGEST:,} letters", "shorten it", exit_code=2)
    tokens, at = [], 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None or match.lastgroup is None:
            rest = text[at:].strip()[:20]
            raise GputelError(
                "the condition", f"cannot be read from {rest!r} on", "see docs/runs.md", exit_code=2
            )
        tokens.append(Token(match.lastgroup, match[match.lastgroup]))
        at = match.end()
    return tokens


def _check_parentheses(tokens: Sequence[Token]) -> None:
    """Refuses an unmatched `)`: it would let the rest of the condition out of the parentheses around it."""
    depth = 0
    for token in tokens:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth < 0:
            break
    if depth:
        fault = "has parentheses that do not match"
        raise GputelError("the condition", fault, "see docs/runs.md", exit_code=2)


def _is_name(tokens: Sequence[Token], at: int) -> bool:
    token = tokens[at]
    if token.kind == "quoted":
        return True
    if token.kind != "name" or token.text.lower() in WORDS:
        return False
    return not (at + 1 < len(tokens) and tokens[at + 1].text == "(")


def _is_numeric(tokens: Sequence[Token], at: int) -> bool:
    """Whether the name stands beside a number: compared, between two of them, in a list, or in a sum."""
    after = [token.text.lower() for token in tokens[at + 1 : at + 5]]
    kinds = [token.kind for token in tokens[at + 1 : at + 5]]
    if after[:1] == ["not"]:
        after, kinds = after[1:], kinds[1:]
    if after[:1] and after[0] in SUMS:
        return True
    if after[:1] and (after[0] in COMPARES or after[0] == "between"):
        return kinds[1:2] == ["number"] or (after[1:2] in (["-"], ["+"]) and kinds[2:3] == ["number"])
    if after[:2] == ["in", "("]:
        return kinds[2:3] == ["number"] or after[2:3] == ["-"]
    before = tokens[max(at - 2, 0) : at]
    if before and before[-1].text in SUMS:
        return True
    return len(before) == 2 and before[1].text in COMPARES and before[0].kind == "number"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
