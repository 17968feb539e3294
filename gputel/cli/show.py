"""All that commands print: tables and answers on standard output, notes and errors on standard error.

Characters that a terminal would obey are written as codes such as `\\x1b`: logs, names of files and run.json may
hold them. Also finds out whether there is a terminal to draw on, and keys to be read from it.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TextIO

import click

from gputel.telemetry.characters import escaped_json, visible, visible_line

if TYPE_CHECKING:
    from gputel.analysis.document import Document, Item, Section
    from gputel.analysis.runs.paths import Skipped

aside: ContextVar[Callable[[], AbstractContextManager[None]]] = ContextVar("aside", default=nullcontext)
"""What makes room on the terminal, such as by taking a progress line away, while something is printed."""
NO_BREAK = "\N{NO-BREAK SPACE}"
UNIT = re.compile(r"(?<=\d) (?=(%|°C|[A-Za-zµ]{1,5})(?![\w]))")
MOST_NARROW = 40  # columns, below which nothing is folded further
BETWEEN = 3  # columns of a terminal between two columns of a table
LEAST_ROOM = 24  # columns of a terminal, in which sentences are still worth folding


def error(line: str) -> None:
    """The only place that prints an error: one line."""
    _put(click.style("error: ", fg="red", bold=True) + visible_line(line), sys.stderr)


def note(line: str, **style: Any) -> None:
    """A hint, a path, a next command, in one line: on standard error, so that data can be piped.

    `style` is what `click.style` takes.
    """
    _put(click.style(visible_line(line), **style) if style else visible_line(line), sys.stderr)


def skipped(files: Sequence[Skipped], *, each: bool = False) -> None:
    """Says which files of a folder were not read: how many of which kind, or each of them."""
    if each or len(files) == 1:
        for file in files:
            note(f"{file.path}: skipped: {file.why}")
    elif files:
        kinds = Counter(
            "the same run or file" if file.why.startswith("the same") else file.why for file in files
        )
        counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
        note(f"skipped {len(files):,} files: {counts}")


def bell() -> None:
    click.echo("\a", nl=False, err=True)


def say(text: str, stream: TextIO | None = None) -> None:
    """An answer, in one line or several."""
    _put(visible(text), stream or sys.stdout)


def rows(lines: Iterable[str], *, as_json: bool) -> None:
    """Lines of text, or of a JSON object each, on standard output at once."""
    written = escaped_json if as_json else visible_line
    content = "".join(f"{written(line)}\n" for line in lines).encode()
    with aside.get()():
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()


def _put(text: str, stream: TextIO) -> None:
    with aside.get()():
        click.echo(text, file=stream, color=_color(stream))


def columns_of(stream: TextIO) -> int:
    """How wide its terminal is, or COLUMNS says; elsewhere a line is as long as it must be."""
    is_set = os.environ.get("COLUMNS", "").isdecimal() and os.environ["COLUMNS"].strip("0")
    return shutil.get_terminal_size().columns if is_set or stream.isatty() else 10_000


def folded(line: str, hanging: int = 2, *, stream: TextIO | None = None) -> str:
    """Folds each line at words, with a hanging indent; a number and its unit stay together."""
    width = max(columns_of(stream or sys.stdout), MOST_NARROW)
    return "\n".join(
        textwrap.fill(
            UNIT.sub(NO_BREAK, part), width, subsequent_indent=" " * hanging, break_on_hyphens=False
        )
        for part in visible(line).removesuffix("\n").split("\n")
    ).replace(NO_BREAK, " ")


def as_json(answer: object) -> None:
    """Strict JSON: a NaN that was not made null before is a bug here."""
    import json

    _put(escaped_json(json.dumps(answer, indent=2, allow_nan=False, ensure_ascii=False)), sys.stdout)


def document(answer: Document, stream: TextIO | None = None) -> None:
    """Prints a document on standard output or on `stream`, and its next command on standard error.

    Leaves out panels, the text of sections that hold panels only, and folded tables.
    """
    heads = [answer.caution, *(f"doubt: {doubt}" for doubt in answer.doubts), answer.about]
    for words in filter(None, heads):
        say(folded(words, stream=stream), stream)
    is_first = not any(heads)
    for section in answer.sections:
        for item in section.items:
            _item(item, stream, is_first=is_first)
            is_first = False
        if section.text and not _only_panels(section):
            _heading(section.title, stream, is_first=is_first)
            say(section.text if section.code else folded(section.text, stream=stream), stream)
            is_first = False
    if answer.next:
        note(f"next: {answer.next}")


class _ScreenText(io.StringIO):
    """Text that is laid out as for the terminal of standard output."""

    def isatty(self) -> bool:
        return True


def document_in_pages(answer: Document) -> None:
    """Prints a document on a terminal, page by page where it is longer than the screen."""
    screen = _ScreenText()
    document(replace(answer, next=""), screen)
    text = screen.getvalue()
    if text.count("\n") < shutil.get_terminal_size().lines:
        click.echo(text, nl=False)
    else:
        click.echo_via_pager(text)
    if answer.next:
        note(f"next: {answer.next}")


def _only_panels(section: Section) -> bool:
    from gputel.analysis.document import FactList, Table

    return bool(section.items) and not any(isinstance(item, (FactList, Table)) for item in section.items)


def _heading(title: str, stream: TextIO | None, *, is_first: bool) -> None:
    """A blank line, unless nothing stands above it, and the title, if there is one."""
    if not is_first:
        say("", stream)
    if title:
        say(title, stream)


def _item(item: Item, stream: TextIO | None, *, is_first: bool) -> None:
    from gputel.analysis.document import FactList, Table

    if isinstance(item, FactList):
        if item.title:
            _heading(item.title, stream, is_first=is_first)
        facts(item.known(), stream=stream)
    elif isinstance(item, Table) and not item.folded:
        _heading(item.title, stream, is_first=is_first)
        filled = [
            i
            for i in range(len(item.columns))
            if not i or item.keep_empty or any(row[i] is not None for row in item.rows)
        ]
        rows = [[row[i] for i in filled] for row in item.rows]
        table([item.columns[i] for i in filled], rows, stream=stream)
        if item.note:
            say(folded(item.note, stream=stream), stream)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, stream: TextIO | None = None) -> None:
    """Numbers to the right, words to the left, `-` where nothing was measured.

    Where a terminal is too narrow for it, sentences in its last column are folded, else it is cut into tables below
    each other, each with the first column; in a pipe it is as wide as it must be.
    """
    columns = [visible(name) for name in columns]
    cells = [["-" if cell is None else visible(str(cell)) for cell in row] for row in rows]
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
        shown = [[row[i] for i in block] for row in cells]
        _draw([columns[i] for i in block], [numeric[i] for i in block], shown, width, stream)


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
    width: int,
    stream: TextIO,
) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, number in zip(columns, numeric, strict=True):
        drawn.add_column(
            Text(name), justify="right" if number and cells else "left", overflow="fold", no_wrap=number
        )
    for row in cells:
        drawn.add_row(*map(Text, row))
    color = _color(stream)
    console = Console(
        file=stream, width=width, highlight=False, markup=False, emoji=False, no_color=not color
    )
    with aside.get()():
        console.print(drawn, soft_wrap=not stream.isatty())


def facts(pairs: Mapping[str, str], *, stream: TextIO | None = None) -> None:
    """`name   value` lines, long values folded under themselves."""
    pairs = {visible_line(name): value for name, value in pairs.items()}
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        first, *others = visible(value).split("\n")
        say(folded(f"{name:<{width}}  {first}", width + 2, stream=stream), stream)
        for line in others:
            say(folded(" " * (width + 2) + line, width + 2, stream=stream), stream)


def write_any_character() -> None:
    """Writes what an encoding such as Latin-1 lacks as a code, where Python would end with a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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
