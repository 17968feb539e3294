"""A picture -> exactly as many lines of text as the terminal has, each as wide as it is.

One run fills the screen. Several lie over one another, or stand side by side.

Several runs as a table, a line each, with the colour that its curve has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from gputel.analysis import text
from gputel.analysis.live.terminal import panes, plots
from gputel.analysis.live.terminal.panes import gpus
from gputel.analysis.live.terminal.snapshots import RunSnapshot, Snapshot
from gputel.analysis.live.terminal.text import clean, elided, fitted, line
from gputel.analysis.live.view import View

WIDE, TALL = 120, 30  # from here on figures stand beside the plots
NARROWEST = 36  # of a run among others
GAP = 2
FEW = 6  # rows below which no plot can be read
MODES = ("overlaid", "beside", "one")
SHARES = (1.0, 0.25, 0.05)


@dataclass(frozen=True)
class Look:
    """What the keys have chosen; `metric` None is the loss, or what there is."""

    mode: str = "overlaid"
    chosen: int = 0
    metric: str | None = None
    share: float = 1.0
    log: bool = False
    events: bool = False


def screen(
    picture: Snapshot, look: Look, width: int, height: int, keys: Sequence[tuple[str, str]] = ()
) -> list[Text]:
    foot = [_keys(keys, width)] if keys else []
    notes = [fitted(line(("· ", "yellow"), (clean(note), "dim")), width) for note in picture.notes[:2]]
    room = height - len(foot) - len(notes)
    return [*padded(_runs(picture, look, width, room), width, room), *notes, *foot]


def chosen(picture: Snapshot, look: Look) -> RunSnapshot:
    return picture.runs[look.chosen % len(picture.runs)]


def metric(runs: Sequence[RunSnapshot], look: Look) -> str:
    known = panes.metrics(runs)
    return look.metric if look.metric in known and look.metric else next(iter(known), "loss")


def padded(lines: Sequence[Text], width: int, height: int) -> list[Text]:
    return [*lines[:height], *[fitted(line(), width)] * (height - len(lines))]


def _runs(picture: Snapshot, look: Look, width: int, height: int) -> list[Text]:
    if not picture.runs:
        return [fitted(line(("waiting for a run", "dim")), width)]
    one = chosen(picture, look)
    if look.events:
        return _events(one, width, height)
    if len(picture.runs) == 1 or look.mode == "one":
        return _one(one, picture, look, width, height)
    if look.mode == "beside":
        return _side_by_side(picture, look, width, height)
    return _overlaid(picture, look, width, height)


def _one(shown: RunSnapshot, picture: Snapshot, look: Look, width: int, height: int) -> list[Text]:
    view = shown.view
    top = [
        *panes.heading(shown, width),
        *panes.progress(view, picture.at, width),
        *panes.figures(view, width, 2 if height >= 20 else 1),
    ]
    if width < WIDE or height < TALL:
        return top + _column(shown, picture, look, width, height - len(top))
    left = (width - GAP) * 3 // 5
    right, rest = width - GAP - left, height - len(top) - 1
    plotted = _plots(shown, look, left, rest)
    return [
        *top,
        fitted(line(), width),
        *beside([plotted, _happening(shown, picture, right, rest)], [left, right]),
    ]


def _column(shown: RunSnapshot, picture: Snapshot, look: Look, width: int, height: int) -> list[Text]:
    """Everything in one column: the plot gets what the rest leaves."""
    view = shown.view
    drawn = panes.strips(view, width, 3)
    coming = panes.coming(view, picture.at, width)[:2]
    told = panes.alarms(shown, width, 2)
    left = height - len(drawn) - len(coming) - len(told) - FEW
    cards = gpus(view.gpus, width, min(max(left - 1, 1), len(view.gpus) + 1))
    left -= len(cards)
    happened = panes.events(view, width, min(max(left, 0), 3 + left // 3))
    plot = panes.curve(
        view, metric([shown], look), width, FEW + max(left - len(happened), 0), look.share, log=look.log
    )
    return [*plot, *drawn, *cards, *coming, *told, *happened][:height]


def _plots(shown: RunSnapshot, look: Look, width: int, height: int) -> list[Text]:
    """The chosen metric large, the next ones below it."""
    first = metric([shown], look)
    names = list(dict.fromkeys([first, *panes.FIRST, *shown.view.evals]))
    below = [name for name in names[1:] if panes.points_of(shown.view, name) and name != "val_loss"]
    below = below[: max(height // 10 - 1, 0)]
    small = height // (len(below) + 2)
    rows = [height - small * len(below), *[small] * len(below)]
    return [
        text
        for name, count in zip([first, *below], rows, strict=True)
        for text in panes.curve(shown.view, name, width, count, look.share, log=look.log and name == first)
    ]


def _happening(shown: RunSnapshot, picture: Snapshot, width: int, height: int) -> list[Text]:
    """GPUs, what comes next, alarms and events, below one another."""
    view = shown.view
    blocks: list[tuple[str, Callable[[int], list[Text]]]] = [
        ("", lambda rows: gpus(view.gpus, width, rows)),
        ("", lambda rows: panes.coming(view, picture.at, width)[:rows]),
        ("alarms", lambda rows: panes.alarms(shown, width, min(rows, height // 3))),
        ("events", lambda rows: panes.events(view, width, rows)),
    ]
    found: list[Text] = []
    for title, draw in blocks:
        lines = draw(height - len(found) - bool(title))
        if lines:
            head = [fitted(line((title, "bold")), width)] if title else []
            found += [*head, *lines, fitted(line(), width)]
    return found[:height]


def _overlaid(picture: Snapshot, look: Look, width: int, height: int) -> list[Text]:
    one = chosen(picture, look)
    rows = table(picture.runs, look.chosen % len(picture.runs), width, max(height // 3, 4))
    cautions = list(dict.fromkeys(shown.view.caution for shown in picture.runs if shown.view.caution))
    warned = [fitted(line((clean(caution), "bold yellow")), width) for caution in cautions[:2]]
    coming = panes.coming(one.view, picture.at, width)[:1]
    told = _called(picture.runs, width, max(height // 5, 2))
    left = height - len(rows) - len(warned) - len(coming) - len(told)
    cards = gpus(one.view.gpus, width, min(left - FEW, len(one.view.gpus) + 1))
    happened = panes.events(one.view, width, min(max(left - len(cards) - 2 * FEW, 0), 5))
    name = metric(picture.runs, look)
    lines, keys = [], []
    for at, shown in enumerate(picture.runs):
        points = panes.points_of(shown.view, name)
        if points is not None:
            lines.append(plots.PlotLine(points, COLOURS[at % len(COLOURS)]))
            keys.append(line(("● ", lines[-1].style), elided(clean(shown.view.name), NAME)))
    size = left - len(cards) - len(happened)
    title = line((panes.label(name), "bold"))
    plot = panes.framed([title, *keys], lines, width, size, look.share, log=look.log)
    return [*rows, *warned, *plot, *cards, *coming, *told, *happened]


def _called(runs: Sequence[RunSnapshot], width: int, rows: int) -> list[Text]:
    """What is wrong with any of them; what there is no room for is counted."""
    said = [
        f"{elided(clean(shown.view.name), NAME)}: {clean(alarm.line)}"
        for shown in runs
        for alarm in shown.active
    ]
    if len(said) > rows:
        said[rows - 1 :] = [f"{len(said) - rows + 1} more"]
    return [fitted(line(("▲ ", "bold red"), (words, "red")), width) for words in said]


def _side_by_side(picture: Snapshot, look: Look, width: int, height: int) -> list[Text]:
    """As many as fit, the chosen one among them."""
    fit = max(1, (width + GAP) // (NARROWEST + GAP))
    at = look.chosen % len(picture.runs)
    start = min(max(at - fit + 1, 0), max(len(picture.runs) - fit, 0))
    runs = picture.runs[start : start + fit]
    each = (width - GAP * (len(runs) - 1)) // len(runs)
    columns = [padded(_one(shown, picture, look, each, height), each, height) for shown in runs]
    return [fitted(text, width) for text in beside(columns, [each] * len(runs))]


def beside(columns: Sequence[list[Text]], widths: Sequence[int]) -> list[Text]:
    height = max(map(len, columns))
    filled = [padded(lines, width, height) for lines, width in zip(columns, widths, strict=True)]
    found = []
    for row in zip(*filled, strict=True):
        text = line(row[0])
        for cell in row[1:]:
            text.append(" " * GAP).append_text(cell)
        found.append(text)
    return found


def _events(shown: RunSnapshot, width: int, height: int) -> list[Text]:
    """Alarms and events, as many as there is room for."""
    top = panes.heading(shown, width)
    told = panes.alarms(shown, width, (height - len(top)) // 2)
    return [*top, *told, *panes.events(shown.view, width, height - len(top) - len(told))]


def _keys(keys: Sequence[tuple[str, str]], width: int) -> Text:
    text = line()
    for key, said in keys:
        text.append(f" {key} ", "reverse").append(f" {said}  ")
    return fitted(text, width)


COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red", "bright_white")
COLUMNS = (("status", 11), ("step", 15), ("loss", 8), ("tok/s", 10), ("MFU", 6), ("ETA", 12), ("cost", 10))
NAME, LEAST = 24, 12


def table(runs: Sequence[RunSnapshot], chosen: int, width: int, rows: int) -> list[Text]:
    """With more runs than rows, those around the chosen one."""
    known = [_cells(shown) for shown in runs]
    columns = [(name, size) for name, size in COLUMNS if any(cells[name] for cells in known)]
    longest = max(len(clean(shown.view.name)) for shown in runs)
    names = min(max(longest + 3, LEAST), NAME if width < 120 else 2 * NAME)
    while len(columns) > 2 and names + sum(size for _, size in columns) > width:
        columns.pop()
    fit = rows - 1
    start = min(max(chosen - fit + 1, 0), max(len(runs) - fit, 0))
    head = "".join(name.rjust(size) if name != "status" else name.ljust(size) for name, size in columns)
    more = f" {len(runs)} runs" if len(runs) > fit else ""
    lines = [line((f"{more.ljust(names)}{head}", "dim"))]
    for at in range(start, min(start + fit, len(runs))):
        lines.append(_row(runs[at], known[at], at, columns, names, at == chosen))
    return [fitted(one, width) for one in lines]


def _row(
    shown: RunSnapshot,
    cells: dict[str, str],
    at: int,
    columns: Sequence[tuple[str, int]],
    names: int,
    is_chosen: bool,
) -> Text:
    name = fitted(line(elided(clean(shown.view.name), names - 3)), names - 3)
    if is_chosen:
        name.stylize("bold reverse")
    row = line(("● ", COLOURS[at % len(COLOURS)]), name, " ")
    for column, size in columns:
        if column == "status":
            mark = "▲ " if shown.active else ""
            style = "bold red" if shown.active else panes.STYLES.get(shown.view.status, "dim")
            row.append(f"{mark}{cells[column]}".ljust(size), style)
        else:
            row.append(cells[column].rjust(size))
    return row


def _cells(shown: RunSnapshot) -> dict[str, str]:
    view: View = shown.view
    total = f"/{view.total_steps}" if view.total_steps else ""

    def last(name: str) -> str:
        return text.short(view.last[name], 5) if name in view.last else ""

    return {
        "status": view.status,
        "step": "" if view.step is None else f"{view.step}{total}",
        "loss": last("loss"),
        "tok/s": last("tok_per_sec"),
        "MFU": last("mfu"),
        "ETA": "" if view.eta_s is None else text.duration(view.eta_s),
        "cost": "" if view.cost is None else text.money(view.cost.spent),
    }
