"""Lays out a snapshot as lines of text that fill the terminal exactly.

One run fills the screen. Several runs share a plot below a table with a row per run, or stand side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from gputel.analysis import text
from gputel.analysis.live.terminal import panes, plots
from gputel.analysis.live.terminal.gpus import gpus
from gputel.analysis.live.terminal.panes import machines
from gputel.analysis.live.terminal.snapshots import RunSnapshot, Snapshot
from gputel.analysis.live.terminal.text import clean, fit, line, shortened
from gputel.analysis.live.view import View

WIDE, TALL = 120, 30  # from this size on, figures stand beside the plots
NARROWEST = 36  # columns of a run beside others
GAP = 2
FEW = 6  # rows below which a plot is unreadable
MODES = ("overlaid", "beside", "one")
SHARES = (1.0, 0.25, 0.05)
COLORS = ("cyan", "yellow", "magenta", "green", "blue", "red", "bright_white")
COLUMNS = (("status", 11), ("step", 15), ("loss", 8), ("tok/s", 10), ("MFU", 6), ("ETA", 12), ("cost", 10))
NAME, LEAST = 24, 12
KEY = 14
HELP = (
    ("q", "quit; the run goes on"),
    ("tab, arrows", "the next run, the one before"),
    ("v", "several runs: overlaid, side by side, one"),
    ("m, M", "draw the next metric, the one before"),
    ("z", "all steps, the last quarter, the last twentieth"),
    ("l", "log scale"),
    ("e", "only alarms and events"),
    ("ctrl+z", "suspend; fg brings it back"),
    ("?", "this help, and back"),
)


@dataclass(frozen=True)
class ViewOptions:
    """The choices that the user made by keys; `metric` None means the loss, or the first metric there is."""

    mode: str = "overlaid"
    chosen: int = 0
    metric: str | None = None
    share: float = 1.0
    log: bool = False
    events: bool = False
    help: bool = False


def screen(
    snapshot: Snapshot, options: ViewOptions, width: int, height: int, keys: Sequence[tuple[str, str]] = ()
) -> list[Text]:
    foot = [_keys(keys, width)] if keys else []
    notes = [fit(line(("· ", "yellow"), (clean(note), "dim")), width) for note in snapshot.notes[:2]]
    room = height - len(foot) - len(notes)
    if options.help:
        return [*pad(_help(width), width, room), *notes, *foot]
    return [*pad(_runs(snapshot, options, width, room), width, room), *notes, *foot]


def _help(width: int) -> list[Text]:
    rows = [line((f" {key} ".ljust(KEY), "reverse"), f"  {words}") for key, words in HELP]
    return [fit(row, width) for row in (line(("Keys", "bold")), line(), *rows)]


def chosen(snapshot: Snapshot, options: ViewOptions) -> RunSnapshot:
    return snapshot.runs[options.chosen % len(snapshot.runs)]


def metric(runs: Sequence[RunSnapshot], options: ViewOptions) -> str:
    """Name of the metric to draw."""
    names = panes.metrics(runs)
    return options.metric if options.metric in names and options.metric else next(iter(names), "loss")


def pad(lines: Sequence[Text], width: int, height: int) -> list[Text]:
    return [*lines[:height], *[fit(line(), width)] * (height - len(lines))]


def _runs(snapshot: Snapshot, options: ViewOptions, width: int, height: int) -> list[Text]:
    if not snapshot.runs:
        return [fit(line((snapshot.reading or "waiting for a run", "dim")), width)]
    run = chosen(snapshot, options)
    if options.events:
        return _events(run, width, height)
    if len(snapshot.runs) == 1 or options.mode == "one":
        return _one(run, snapshot, options, width, height)
    if options.mode == "beside":
        return _side_by_side(snapshot, options, width, height)
    return _overlaid(snapshot, options, width, height)


def _one(shown: RunSnapshot, snapshot: Snapshot, options: ViewOptions, width: int, height: int) -> list[Text]:
    view = shown.view
    top = [
        *panes.heading(shown, width),
        *panes.progress(view, snapshot.at, width),
        *panes.figures(view, width, 2 if height >= 20 else 1),
    ]
    if width < WIDE or height < TALL:
        return top + _column(shown, snapshot, options, width, height - len(top))
    left = (width - GAP) * 3 // 5
    right, rest = width - GAP - left, height - len(top) - 1
    plotted = _plots(shown, options, left, rest)
    return [
        *top,
        fit(line(), width),
        *beside([plotted, _happening(shown, snapshot, right, rest)], [left, right]),
    ]


def _column(
    shown: RunSnapshot, snapshot: Snapshot, options: ViewOptions, width: int, height: int
) -> list[Text]:
    """One column; the plot gets the rows that everything else leaves."""
    view = shown.view
    drawn = panes.strips(view, width, 3)
    upcoming = panes.upcoming(view, snapshot.at, width)[:2]
    alarms = panes.alarms(shown, width, 2)
    left = height - len(drawn) - len(upcoming) - len(alarms) - FEW
    gpu_rows = gpus(view.gpus, width, min(max(left - 1, 1), len(view.gpus) + 1), view.steps_of_nodes)
    gpu_rows += machines(view.machines, width, left - len(gpu_rows) - 1)
    gpu_rows += panes.step_parts(view.step_parts, width, left - len(gpu_rows) - 1)
    left -= len(gpu_rows)
    events = panes.events(view, width, min(max(left, 0), 3 + left // 3))
    plot = panes.curve(
        view,
        metric([shown], options),
        width,
        FEW + max(left - len(events), 0),
        options.share,
        log=options.log,
    )
    return [*plot, *drawn, *gpu_rows, *upcoming, *alarms, *events][:height]


def _plots(shown: RunSnapshot, options: ViewOptions, width: int, height: int) -> list[Text]:
    """The chosen metric large, others small below it."""
    first = metric([shown], options)
    names = list(dict.fromkeys([first, *panes.FIRST, *shown.view.evals]))
    below = [name for name in names[1:] if panes.points_of(shown.view, name) and name != "val_loss"]
    below = below[: max(height // 10 - 1, 0)]
    small = height // (len(below) + 2)
    rows = [height - small * len(below), *[small] * len(below)]
    return [
        text
        for name, count in zip([first, *below], rows, strict=True)
        for text in panes.curve(
            shown.view, name, width, count, options.share, log=options.log and name == first
        )
    ]


def _happening(shown: RunSnapshot, snapshot: Snapshot, width: int, height: int) -> list[Text]:
    """GPUs, upcoming events, alarms and events, one below the other."""
    view = shown.view
    blocks: list[tuple[str, Callable[[int], list[Text]]]] = [
        ("", lambda rows: gpus(view.gpus, width, rows, view.steps_of_nodes)),
        ("", lambda rows: machines(view.machines, width, rows)),
        ("", lambda rows: panes.step_parts(view.step_parts, width, rows)),
        ("", lambda rows: panes.upcoming(view, snapshot.at, width)[:rows]),
        ("alarms", lambda rows: panes.alarms(shown, width, min(rows, height // 3))),
        ("events", lambda rows: panes.events(view, width, rows)),
    ]
    drawn: list[Text] = []
    for title, draw in blocks:
        lines = draw(height - len(drawn) - bool(title))
        if lines:
            head = [fit(line((title, "bold")), width)] if title else []
            drawn += [*head, *lines, fit(line(), width)]
    return drawn[:height]


def _overlaid(snapshot: Snapshot, options: ViewOptions, width: int, height: int) -> list[Text]:
    run = chosen(snapshot, options)
    rows = table(snapshot.runs, options.chosen % len(snapshot.runs), width, max(height // 3, 4))
    cautions = list(dict.fromkeys(shown.view.caution for shown in snapshot.runs if shown.view.caution))
    cautioned = [fit(line((clean(caution), "bold yellow")), width) for caution in cautions[:2]]
    upcoming = panes.upcoming(run.view, snapshot.at, width)[:1]
    alarms = _active_alarms(snapshot.runs, width, max(height // 5, 2))
    left = height - len(rows) - len(cautioned) - len(upcoming) - len(alarms)
    gpu_rows = gpus(run.view.gpus, width, min(left - FEW, len(run.view.gpus) + 1), run.view.steps_of_nodes)
    events = panes.events(run.view, width, min(max(left - len(gpu_rows) - 2 * FEW, 0), 5))
    name = metric(snapshot.runs, options)
    lines, keys = [], []
    for number, shown in enumerate(snapshot.runs):
        points = panes.points_of(shown.view, name)
        if points is not None:
            lines.append(plots.PlotLine(points, COLORS[number % len(COLORS)]))
            keys.append(line(("● ", lines[-1].style), shortened(clean(shown.view.name), NAME)))
    size = left - len(gpu_rows) - len(events)
    title = line((panes.label(name), "bold"))
    plot = panes.frame([title, *keys], lines, width, size, options.share, log=options.log)
    return [*rows, *cautioned, *plot, *gpu_rows, *upcoming, *alarms, *events]


def _active_alarms(runs: Sequence[RunSnapshot], width: int, rows: int) -> list[Text]:
    """Active alarms of all runs; the last row counts those that do not fit."""
    texts = [
        f"{shortened(clean(shown.view.name), NAME)}: {clean(alarm.line)}"
        for shown in runs
        for alarm in shown.active
    ]
    if len(texts) > rows:
        texts[rows - 1 :] = [f"{len(texts) - rows + 1} more"]
    return [fit(line(("▲ ", "bold red"), (words, "red")), width) for words in texts]


def _side_by_side(snapshot: Snapshot, options: ViewOptions, width: int, height: int) -> list[Text]:
    """Shows as many runs as fit, including the chosen one."""
    room = max(1, (width + GAP) // (NARROWEST + GAP))
    current = options.chosen % len(snapshot.runs)
    start = min(max(current - room + 1, 0), max(len(snapshot.runs) - room, 0))
    runs = snapshot.runs[start : start + room]
    each = (width - GAP * (len(runs) - 1)) // len(runs)
    columns = [pad(_one(shown, snapshot, options, each, height), each, height) for shown in runs]
    return [fit(text, width) for text in beside(columns, [each] * len(runs))]


def beside(columns: Sequence[list[Text]], widths: Sequence[int]) -> list[Text]:
    height = max(map(len, columns))
    filled = [pad(lines, width, height) for lines, width in zip(columns, widths, strict=True)]
    rows = []
    for row in zip(*filled, strict=True):
        text = line(row[0])
        for cell in row[1:]:
            text.append(" " * GAP).append_text(cell)
        rows.append(text)
    return rows


def _events(shown: RunSnapshot, width: int, height: int) -> list[Text]:
    """Alarms and events, as many as fit."""
    top = panes.heading(shown, width)
    alarms = panes.alarms(shown, width, (height - len(top)) // 2)
    return [*top, *alarms, *panes.events(shown.view, width, height - len(top) - len(alarms))]


def _keys(keys: Sequence[tuple[str, str]], width: int) -> Text:
    text = line()
    for key, name in keys:
        text.append(f" {key} ", "reverse").append(f" {name}  ")
    return fit(text, width)


def table(runs: Sequence[RunSnapshot], chosen: int, width: int, rows: int) -> list[Text]:
    """A row per run with the color of its curve; if they do not all fit, those around the chosen one."""
    cells = [_cells(shown) for shown in runs]
    longest_cells = {name: max(len(row[name]) for row in cells) for name, _ in COLUMNS}
    columns = [(name, max(size, longest_cells[name] + 1)) for name, size in COLUMNS if longest_cells[name]]
    longest = max(len(clean(shown.view.name)) for shown in runs)
    names = min(max(longest + 3, LEAST), NAME if width < 120 else 2 * NAME)
    while len(columns) > 2 and names + sum(size for _, size in columns) > width:
        columns.pop()
    room = rows - 1
    start = min(max(chosen - room + 1, 0), max(len(runs) - room, 0))
    head = "".join(name.rjust(size) if name != "status" else name.ljust(size) for name, size in columns)
    more = f" {len(runs)} runs" if len(runs) > room else ""
    lines = [line((f"{more.ljust(names)}{head}", "dim"))]
    for number in range(start, min(start + room, len(runs))):
        lines.append(_row(runs[number], cells[number], number, columns, names, number == chosen))
    return [fit(row, width) for row in lines]


def _row(
    shown: RunSnapshot,
    cells: dict[str, str],
    number: int,
    columns: Sequence[tuple[str, int]],
    names: int,
    is_chosen: bool,
) -> Text:
    name = fit(line(shortened(clean(shown.view.name), names - 3)), names - 3)
    if is_chosen:
        name.stylize("bold reverse")
    row = line(("● ", COLORS[number % len(COLORS)]), name, " ")
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
    total = f"/{view.total_steps:,}" if view.total_steps else ""

    def last(name: str, digits: int = 5) -> str:
        return text.short(view.last[name], digits) if name in view.last else ""

    return {
        "status": view.status,
        "step": "" if view.step is None else f"{view.step:,}{total}",
        "loss": last("loss"),
        "tok/s": last("tok_per_sec"),
        "MFU": last("mfu", 3),
        "ETA": "" if view.eta_s is None else text.duration(view.eta_s),
        "cost": "" if view.cost is None else text.money(view.cost.spent),
    }
