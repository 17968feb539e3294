"""What people read: tables and answers on standard output, notes and errors on standard error.

Whether there is a terminal to draw on, and keys to be read from it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from gputel.analysis.document import Document, Item, Section

NO_BREAK = "\N{NO-BREAK SPACE}"
UNIT = re.compile(r"(?<=\d) (?=(%|°C|[A-Za-zµ]{1,5})(?![\w]))")
MOST_NARROW = 40  # columns, below which nothing is folded further
BETWEEN = 3  # columns of a terminal between two columns of a table
LEAST_ROOM = 24  # columns of a terminal, in which sentences are still worth folding


def error(line: str) -> None:
    """The only place that prints an error."""
    click.echo(click.style("error: ", fg="red", bold=True) + line, err=True, color=_color(sys.stderr))


def note(line: str) -> None:
    """A hint, a path, a next command: on standard error, so that data can be piped."""
    click.echo(line, err=True, color=_color(sys.stderr))


def bell() -> None:
    click.echo("\a", nl=False, err=True)


def say(line: str, stream: TextIO | None = None) -> None:
    click.echo(line, file=stream, color=_color(stream or sys.stdout))


def columns_of(stream: TextIO) -> int:
    """How wide its terminal is; elsewhere a line is as long as it must be."""
    return shutil.get_terminal_size().columns if stream.isatty() else 10_000


def folded(line: str, hanging: int = 2, *, stream: TextIO | None = None) -> str:
    """Folds each line at words, with a hanging indent; a number and its unit stay together."""
    width = max(columns_of(stream or sys.stdout), MOST_NARROW)
    return "\n".join(
        textwrap.fill(UNIT.sub(NO_BREAK, one), width, subsequent_indent=" " * hanging, break_on_hyphens=False)
        for one in line.splitlines() or [""]
    ).replace(NO_BREAK, " ")


def as_json(answer: object) -> None:
    """Strict JSON: a NaN that was not made null before is a bug here."""
    click.echo(json.dumps(answer, indent=2, allow_nan=False, ensure_ascii=False))


def document(answer: Document, stream: TextIO | None = None) -> None:
    """Prints a document on standard output or on `stream`, and its next command on standard error.

    Leaves out panels, the text of sections that hold panels only, and folded tables.
    """
    for words in (answer.caution, *(f"doubt: {doubt}" for doubt in answer.doubts), answer.about):
        if words:
            say(folded(words, stream=stream), stream)
    for section in answer.sections:
        for item in section.items:
            _item(item, stream)
        if section.text and not _only_panels(section):
            say(f"\n{section.title}" if section.title else "", stream)
            say(folded(section.text, stream=stream), stream)
    if answer.next:
        note(f"next: {answer.next}")


def _only_panels(section: Section) -> bool:
    from gputel.analysis.document import FactList, Table

    return bool(section.items) and not any(isinstance(item, (FactList, Table)) for item in section.items)


def _item(item: Item, stream: TextIO | None) -> None:
    from gputel.analysis.document import FactList, Table

    if isinstance(item, FactList):
        if item.title:
            say(f"\n{item.title}", stream)
        facts(item.known(), stream=stream)
    elif isinstance(item, Table) and not item.folded:
        say(f"\n{item.title}" if item.title else "", stream)
        filled = [
            i
            for i in range(len(item.columns))
            if not i or item.keep_empty or any(row[i] is not None for row in item.rows)
        ]
        rows = [[row[i] for i in filled] for row in item.rows]
        table([item.columns[i] for i in filled], rows, stream=stream)
        if item.note:
            say(folded(item.note, stream=stream), stream)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    title: str | None = None,
    stream: TextIO | None = None,
) -> None:
    """Numbers to the right, words to the left, `-` where nothing was measured.

    Where a terminal is too narrow for it, sentences in its last column are folded, else it is cut into tables below
    each other, each with the first column; in a pipe it is as wide as it must be.
    """
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    numeric = [
        all(row[i] is None or isinstance(row[i], (int, float)) or _numeric(str(row[i])) for row in rows)
        for i in range(len(columns))
    ]
    stream = stream or sys.stdout
    width = columns_of(stream)
    widest = _widest(columns, cells)
    room = width - sum(widest[:-1]) - BETWEEN * (len(columns) - 1)
    if LEAST_ROOM <= room < widest[-1] and not numeric[-1]:
        cells = [[*row[:-1], _filled(row[-1], room)] for row in cells]
        widest = _widest(columns, cells)
    for number, block in enumerate(_blocks(widest, width)):
        if number:
            say("", stream)
        kept = [[row[i] for i in block] for row in cells]
        _draw([columns[i] for i in block], [numeric[i] for i in block], kept, title, width, stream)
        title = None


def _widest(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    """Letters of the longest line in each column."""
    return [
        max(len(line) for row in [columns, *cells] for line in row[i].split("\n"))
        for i in range(len(columns))
    ]


def _filled(cell: str, room: int) -> str:
    return "\n".join(textwrap.fill(line, room, break_on_hyphens=False) for line in cell.split("\n"))


def _blocks(widest: Sequence[int], width: int) -> Iterator[list[int]]:
    """Which columns stand in one table: as many as there is room for beside the first."""
    block, left = [0], width - widest[0]
    for i, wide in enumerate(widest[1:], 1):
        if wide + BETWEEN > left and len(block) > 1:
            yield block
            block, left = [0], width - widest[0]
        block.append(i)
        left -= wide + BETWEEN
    yield block


def _draw(
    columns: Sequence[str],
    numeric: Sequence[bool],
    cells: Sequence[Sequence[str]],
    title: str | None,
    width: int,
    stream: TextIO,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", show_edge=False, pad_edge=False)
    for name, number in zip(columns, numeric, strict=True):
        drawn.add_column(
            name, justify="right" if number and cells else "left", overflow="fold", no_wrap=number
        )
    for row in cells:
        drawn.add_row(*map(Text, row))
    console = Console(file=stream, width=width, highlight=False, no_color=not _color(stream))
    console.print(drawn, soft_wrap=not stream.isatty())


def facts(pairs: Mapping[str, object], *, indent: int = 0, stream: TextIO | None = None) -> None:
    """`name   value` lines; nested ones indented, unknown ones left out, long ones folded under their value."""
    width = max((len(name) for name, value in pairs.items() if value is not None), default=0)
    for name, value in pairs.items():
        if isinstance(value, Mapping):
            say(" " * indent + name, stream)
            facts(value, indent=indent + 2, stream=stream)
        elif value is not None:
            hanging = indent + width + 2
            first, *others = str(value).splitlines() or [""]
            say(folded(f"{' ' * indent}{name:<{width}}  {first}", hanging, stream=stream), stream)
            for line in others:
                say(folded(" " * hanging + line, hanging, stream=stream), stream)


def stop_writing() -> None:
    """The reader of our pipe has gone (`| head`): Python must not complain about it when it flushes at exit."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123


def _numeric(text: str) -> bool:
    text = text.lstrip("~$")
    return text in ("", "-") or text[:1].isdigit() or (text[:1] in "+-−" and text[1:2].isdigit())


def _color(stream: Any) -> bool:
    return not os.environ.get("NO_COLOR") and stream.isatty()


def taken() -> int | None:
    """The descriptor of what is piped in; standard input is the keyboard from here on. None without a terminal."""
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return None
    if sys.stdin.isatty():
        return 0
    try:
        keyboard = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return None
    piped = os.dup(0)
    os.dup2(keyboard, 0)
    os.close(keyboard)
    return piped
