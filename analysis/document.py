"""The answer of a command as a document of panels and tables, without a pixel; and any answer as strict JSON.

A curve may lie on several x axes at once, by name, so that a page can switch between steps, tokens and hours.
NaN is what was not measured: the curve has a hole there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from gputel.analysis import text
from gputel.telemetry.secrets import mask

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

Numbers: TypeAlias = "npt.NDArray[Any]"
MOST_EXACT = 2**53  # from here on a float may stand for several whole numbers
Style: TypeAlias = Literal["line", "dashed", "dots", "held"]  # `held`: each value holds until the next


@dataclass(frozen=True)
class PlotAxis:
    """`unit` s is shown as hours and minutes; `start_ns` is the moment since 1970 from which it counts."""

    name: str
    title: str
    unit: str | None = None
    start_ns: int | None = None
    log: bool = False


@dataclass(frozen=True)
class Series:
    """A curve: `x` by the name of the axis. `low` and `high` are the extremes of what each `y` is the mean of."""

    name: str
    x: Mapping[str, Numbers]
    y: Numbers
    low: Numbers | None = None
    high: Numbers | None = None
    run: str | None = None  # what the page switches on and off together
    tint: int = 0  # number of the color
    style: Style = "line"
    measured: int | None = None  # how many values stand behind it, where that is not the length of `y`
    shown: bool = True  # else a page shows it when asked for, and a picture leaves it out
    start_ns: int | None = None  # where its axis of time begins, if the axis itself has no moment

    @property
    def count(self) -> int:
        return len(self.y) if self.measured is None else self.measured


@dataclass(frozen=True)
class Marker:
    """An event at `x`, or from there to `end`, drawn behind the curves."""

    kind: str
    text: str
    x: Mapping[str, float]
    end: Mapping[str, float] | None = None
    run: str | None = None


@dataclass(frozen=True)
class Level:
    """A horizontal line: a limit, a target."""

    value: float
    text: str


@dataclass(frozen=True)
class Curves:
    """`noisy` curves are drawn faint under their running mean; of `steady` ones outliers show when asked for.

    Panels of one `link` are zoomed together.
    """

    name: str
    title: str
    axes: tuple[PlotAxis, ...]  # the first is shown until another is chosen
    y: PlotAxis
    series: tuple[Series, ...]
    marks: tuple[Marker, ...] = ()
    levels: tuple[Level, ...] = ()
    note: str = ""
    noisy: bool = False
    steady: bool = False
    log: bool = False
    link: str = ""


@dataclass(frozen=True)
class Heat:
    """`values` by row (y, upwards) and column (x); both axes by the edges of the cells. `names` are of rows."""

    name: str
    title: str
    x: PlotAxis
    y: PlotAxis
    value: PlotAxis
    x_edges: Numbers
    y_edges: Numbers
    values: Numbers
    levels: tuple[Level, ...] = ()
    note: str = ""
    link: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bars:
    """Stacked bars that lie: a row of `rows`, a part of it of `parts`; `values` by row and part.

    `whole` is what a full row would be, such as the memory of a GPU.
    """

    name: str
    title: str
    unit: str | None
    rows: tuple[str, ...]
    parts: tuple[str, ...]
    values: Numbers
    note: str = ""
    whole: float | None = None


Panel: TypeAlias = Curves | Heat | Bars


@dataclass(frozen=True)
class Conversion:
    """Moments of the panels of one `link` -> another axis, by which a page can draw them, too; both ascend."""

    link: str
    axis: PlotAxis
    seconds: Numbers
    values: Numbers


@dataclass(frozen=True)
class Table:
    """Cells are text or numbers; None was not measured.

    Of a table with a `target` a page filters the rows, and draws them as lines over parallel axes, colored by that
    column. `links` are the addresses that the first cells of rows lead to, relative to the page.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = ""
    folded: bool = False  # shown when it is asked for
    keep_empty: bool = False  # a terminal shows columns without a value, too: they stand for runs
    target: str = ""
    links: Sequence[str | None] = ()

    def __post_init__(self) -> None:
        """Masks secrets, for every output."""
        object.__setattr__(self, "columns", _masked(self.columns))
        object.__setattr__(self, "rows", [_masked(row) for row in self.rows])


def _masked(cells: Sequence[Any]) -> Sequence[Any]:
    """The cells of a row, those that are text with secrets masked."""
    masked = (mask(cell) if isinstance(cell, str) else cell for cell in cells)
    return tuple(masked) if isinstance(cells, tuple) else list(masked)


@dataclass(frozen=True)
class FactList:
    """Names and what they are, a line each; None is left out."""

    pairs: Mapping[str, str | None]
    title: str = ""

    def __post_init__(self) -> None:
        """Masks secrets, for every output."""
        pairs = {name: words and mask(words) for name, words in self.pairs.items()}
        object.__setattr__(self, "pairs", pairs)
        object.__setattr__(self, "title", mask(self.title))

    def known(self) -> dict[str, str]:
        return {name: words for name, words in self.pairs.items() if words}


Item: TypeAlias = Panel | Table | FactList


@dataclass(frozen=True)
class Section:
    """`wide` panels stand below each other; others side by side where there is room.

    The text of a `code` section keeps its lines as they are: source, stacks. Only a terminal shows it: it stays out
    of pages and files, which are sent to others.
    """

    title: str = ""
    items: Sequence[Item] = ()
    text: str = ""
    wide: bool = False
    code: bool = False


@dataclass(frozen=True)
class Document:
    """The answer of a command, for every output: terminal, page, notebook, Markdown, pictures.

    `caution` is what must be said of everything on it, `doubts` what cannot all be right; `runs` may be switched on
    and off; `next` is the command to try after it. A terminal shows all but panels, the text of sections of panels
    only, and folded tables.
    """

    title: str
    sections: Sequence[Section]
    about: str = ""
    caution: str | None = None
    doubts: Sequence[str] = ()
    runs: Sequence[str] = ()
    next: str = ""
    conversions: Sequence[Conversion] = ()

    def __post_init__(self) -> None:
        """Masks secrets, for every output; the command to try next stays as it must be typed."""
        object.__setattr__(self, "title", mask(self.title))
        object.__setattr__(self, "about", mask(self.about))
        sections = [replace(section, text=mask(section.text)) for section in self.sections]
        object.__setattr__(self, "sections", sections)

    def without_code(self) -> Document:
        """The document as pages and files hold it."""
        return replace(self, sections=[section for section in self.sections if not section.code])

    def panels(self) -> Iterator[Panel]:
        for section in self.sections:
            for item in section.items:
                if not isinstance(item, (Table, FactList)):
                    yield item


def caution(simulated: object, *, composed: bool = False) -> str | None:
    """The warning that every output of a simulated or synthetic run must show; None for a real one."""
    if simulated:
        return f"SIMULATED: {simulated}; no real GPU data"
    return "synthetic log" if composed else None


def as_json(value: Any) -> Any:
    """Strict JSON of an answer, frames as rows: 16.0 is 16, NaN and infinity are null, moments are ISO 8601."""
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(one) for one in value]
    if isinstance(value, datetime):
        return text.moment(value)
    return list(rows(value)) if hasattr(value, "iter_rows") else value


def rows(frame: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """Each row of a frame as strict JSON; moments keep all nine digits."""
    table = timed(frame)
    names = table.columns
    for values in zip(*map(_plain, table.iter_columns()), strict=True):
        yield dict(zip(names, values, strict=True))


def _plain(column: pl.Series) -> list[Any]:
    values = column.to_list()
    if column.dtype.is_float():
        return [_number(value) for value in values]
    return (
        [as_json(value) for value in values]
        if column.dtype.is_nested() or column.dtype.is_object()
        else values
    )


def _number(value: float | None) -> float | int | None:
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < MOST_EXACT else value


def timed(frame: Frame) -> Frame:
    """The frame, read or lazy, with its moments, which are all in UTC, as `text.moment` writes them."""
    import polars.selectors as cs

    return frame.with_columns(cs.datetime().dt.strftime(text.MOMENTS))
