"""Several runs as a table, a line each, with the colour that its curve has."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from gputel.analysis import text
from gputel.analysis.live.terminal import panes
from gputel.analysis.live.terminal.feed import Shown
from gputel.analysis.live.terminal.wording import clean, elided, fitted, line
from gputel.analysis.live.view import View

COLOURS = ("cyan", "yellow", "magenta", "green", "blue", "red", "bright_white")
COLUMNS = (("status", 11), ("step", 15), ("loss", 8), ("tok/s", 10), ("MFU", 6), ("ETA", 12), ("cost", 10))
NAME, LEAST = 24, 12


def table(runs: Sequence[Shown], chosen: int, width: int, rows: int) -> list[Text]:
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
    shown: Shown,
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


def _cells(shown: Shown) -> dict[str, str]:
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
