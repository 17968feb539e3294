"""What stands and what stood -> a message for the page: all of it, or what has changed, as a server-sent event.

A message is a list of parts: `[run, kind, name, value]`, null where it is gone, or, of what grows,
`[run, kind, name, drop, keep, more]`: of what the page has, `drop` are left away at the beginning, as many are kept
as `keep` says, and `more` comes behind them.

Views of runs -> the parts of what a page shows, by run, kind and name: facts, rows, and columns of numbers.

A part is what is sent at once when it changes. However many runs there are and however long they last, their curves
come to about as many points together: neighbours are put together from the beginning on, so that a curve that grows
changes at its end only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gputel.analysis.documents.panels import metrics
from gputel.analysis.live.gpus import STRIPS
from gputel.analysis.live.series import Points
from gputel.analysis.render import style
from gputel.telemetry import identity

if TYPE_CHECKING:
    from gputel.analysis.live.alarms import RunAlarms
    from gputel.analysis.live.view import GpuView, RunCost, View

DIGITS = 9  # of a number: more than any log prints
MOST_DROPPED = 16  # what moves on by more is sent whole


def whole(parts: Parts, identity: str) -> bytes:
    return _event("whole", identity, changes({}, parts))


def news(before: Parts, after: Parts, identity: str) -> bytes:
    return _event("news", identity, changes(before, after))


def changes(before: Parts, after: Parts) -> list[list[Any]]:
    """Applied to `before`, they make `after` of it."""
    found: list[list[Any]] = [[*key, None] for key in before if key not in after]
    for key, value in after.items():
        if isinstance(value, np.ndarray):
            found += [[*key, *grown] for grown in _grown(before.get(key), value)]
        elif key not in before or before[key] != value:
            found.append([*key, value])
    return found


def _grown(before: Columns | None, after: Columns) -> list[tuple[int, int, list[Any]]]:
    """Nothing where nothing has changed."""
    drop, keep = (0, 0) if before is None else _kept(before, after)
    if before is not None and drop == 0 and keep == before.shape[1] == after.shape[1]:
        return []
    return [(drop, keep, _numbers(after[:, keep:]))]


def _kept(before: Columns, after: Columns) -> tuple[int, int]:
    """How many of the first are gone, and how many are the same from there on."""
    for drop in range(min(MOST_DROPPED, before.shape[1])):
        size = min(before.shape[1] - drop, after.shape[1])
        differ = _differ(before[:, drop : drop + size], after[:, :size])
        keep = int(differ.argmax()) if differ.any() else size
        if size and keep >= max(size - 1, size // 2):
            return drop, keep
    return 0, 0


def _differ(one: Columns, other: Columns) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = ((one != other) & ~(np.isnan(one) & np.isnan(other))).any(axis=0)
    return found


def _numbers(columns: Columns) -> list[list[float | None]]:
    """NaN and infinity are holes."""
    with np.errstate(all="ignore"):
        powers = 10.0 ** (DIGITS - 1 - np.floor(np.log10(np.abs(columns))))
        short = np.round(columns * powers) / powers
    short = np.where(np.isfinite(short), short, columns)
    return [[value if known else None for value, known in zip(row, finite, strict=True)]
            for row, finite in zip(short.tolist(), np.isfinite(columns).tolist(), strict=True)]  # fmt: skip


def _event(kind: str, identity: str, told: list[list[Any]]) -> bytes:
    data = json.dumps(told, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return f"id: {identity}\nevent: {kind}\ndata: {data}\n\n".encode("utf-8", "replace")


Key: TypeAlias = tuple[int, str, str]
Columns: TypeAlias = npt.NDArray[np.float64]
Parts: TypeAlias = dict[Key, Any]

PAGE = -1  # in place of a run's number: what concerns all of them
FIRST = ("loss", "val_loss", "val_bpb")
MOST_METRICS = 12
MOST_POINTS = 48_000
FEWEST, MOST = 64, 1024  # points of a curve
MOST_EVENTS = 100
LIMITS = ("power_w", "memory_total_mib")


def page_parts(views: Sequence[tuple[View, RunAlarms]]) -> Parts:
    """Numbers of runs are those of `views`, which only ever grow."""
    shown = _shown([view for view, _ in views])
    curves = sum(name in side for view, _ in views for side in (view.curves, view.evals) for name in shown)
    most = _share(curves)
    parts: Parts = {
        (PAGE, "look", ""): {"tints": style.TINTS, "kinds": style.KINDS},
        (PAGE, "panels", ""): _panels(shown, {name for view, _ in views for name in view.curves}),
    }
    for number, (view, judge) in enumerate(views):
        parts[number, "facts", ""] = plain(_facts(view, judge))
        parts[number, "events", ""] = [_event_part(event) for event in list(view.events)[-MOST_EVENTS:]]
        parts[number, "alarms", ""] = [_alarm(alarm) for alarm in list(judge.history)[-MOST_EVENTS:]]
        for name in shown:
            points = view.curves.get(name, view.evals.get(name))
            if points is not None:
                parts[number, "curve", name] = np.stack(thinned(points, most))
        for gpu in view.gpus:
            parts[number, "gpu", f"{gpu.node}/{gpu.gpu}"] = plain(_gpu(gpu))
            parts[number, "strips", f"{gpu.node}/{gpu.gpu}"] = _strips(gpu)
    return parts


def thinned(points: Points, most: int) -> Points:
    """No extreme is lost; a power of two of points becomes one."""
    width = 1
    while math.ceil(len(points.step) / width) > most:
        width *= 2
    if width == 1:
        return points
    starts = np.arange(0, len(points.step), width)
    known = np.isfinite(points.mean)
    count = np.add.reduceat(known.astype(np.float64), starts)
    total = np.add.reduceat(np.where(known, points.mean, 0.0), starts)
    return Points(
        points.step[np.minimum(starts + width, len(points.step)) - 1],
        np.fmin.reduceat(points.least, starts),
        np.divide(total, count, out=np.full(len(starts), np.nan), where=count > 0),
        np.fmax.reduceat(points.largest, starts),
    )


def plain(value: Any) -> Any:
    """What JSON can hold: a loss that is no number stays one in words."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


@lru_cache(maxsize=4096)
def masked(text: str) -> str:
    """What looks like a key is shown to nobody."""
    return identity.mask(text)


def _share(curves: int) -> int:
    """A power of two, so that another curve seldom changes all of them."""
    share = MOST_POINTS // max(curves, 1)
    return min(max(1 << max(share.bit_length() - 1, 0), FEWEST), MOST)


def _shown(views: Sequence[View]) -> list[str]:
    """Known metrics first, then others in the order in which they were printed."""
    found = dict.fromkeys(
        name
        for view in views
        for side in (view.curves, view.evals)
        for name in side
        if name not in metrics.SO_FAR
    )
    return [
        *(name for name in sorted(metrics.KNOWN, key=lambda name: name not in FIRST) if name in found),
        *(n for n in found if n not in metrics.KNOWN),
    ][:MOST_METRICS]


def _panels(shown: Sequence[str], printed: set[str]) -> list[dict[str, Any]]:
    """A panel a metric; what validates a metric lies on the panel of that."""
    home = {name: name.removeprefix("val_") if name.removeprefix("val_") in shown else name for name in shown}
    panels = []
    for name in shown:
        if home[name] != name:
            continue
        known = metrics.KNOWN.get(name) or metrics.MetricPanel(name, noisy=name in printed)
        series = [{"name": own, "style": _style(own, printed)} for own in shown if home[own] == name]
        facts = {"name": name, "title": known.title, "unit": known.unit, "series": series}
        panels.append({**facts, "noisy": known.noisy, "steady": known.steady})
    return panels


def _style(name: str, printed: set[str]) -> str:
    return metrics.KNOWN[name].style if name in metrics.KNOWN else "line" if name in printed else "dots"


def _facts(view: View, judge: RunAlarms) -> dict[str, Any]:
    evals = {name: float(points.mean[-1]) for name, points in view.evals.items() if len(points.mean)}
    return {
        "name": view.name,
        "source": view.source,
        "status": view.status,
        "cause": view.cause,
        "caution": view.caution,
        "phase": view.phase,
        "attempt": view.attempt,
        "step": view.step,
        "total_steps": view.total_steps,
        "epoch": view.epoch,
        "last": {**evals, **{name: value for name, value in view.last.items() if name not in evals}},
        "seconds_a_step": view.seconds_a_step,
        "elapsed_s": _whole(view.elapsed_s),
        "eta_s": _whole(view.eta_s),
        "silent_s": _whole(view.silent_s) if view.status == "running" else None,
        "coming": [[one.kind, one.step, one.at and round(one.at.timestamp())] for one in view.coming],
        "cost": _cost(view.cost) if view.cost else None,
        "ranks": [[rank, step, _whole(silent)] for rank, (step, silent) in view.ranks.items()],
        "records": view.records,
        "alarms": [alarm.line for alarm in judge.active],
    }


def _cost(cost: RunCost) -> dict[str, Any]:
    return {
        "per_hour": cost.per_hour,
        "spent": round(cost.spent, 2),
        "at_end": cost.at_end and round(cost.at_end, 2),
        "budget": cost.budget,
        "is_over": cost.is_over,
    }


def _gpu(gpu: GpuView) -> dict[str, Any]:
    last = {name: gpu.last[name] for name in STRIPS if name in gpu.last}
    limits = {name: gpu.limits[name] for name in LIMITS if gpu.limits.get(name)}
    facts = {"gpu": gpu.gpu, "node": gpu.node, "host": gpu.host, "name": gpu.name}
    return {**facts, "at": round(gpu.at.timestamp()), "last": last, "limits": limits}


def _strips(gpu: GpuView) -> Columns:
    length = max((len(strip) for strip in gpu.strips.values()), default=0)
    hole = [math.nan] * length
    return np.array([gpu.strips.get(name, hole) for name in STRIPS], dtype=np.float64).reshape(
        len(STRIPS), length
    )


def _event_part(event: Mapping[str, Any]) -> list[Any]:
    """Kind, step, time, text."""
    time = event.get("time")
    said = time if time is None or isinstance(time, str) else f"{time:%Y-%m-%dT%H:%M:%S}Z"
    step = event.get("step")
    text = masked(str(event.get("text") or ""))
    return [str(event.get("kind")), step if isinstance(step, int) else None, said, text]


def _alarm(alarm: Any) -> list[Any]:
    """As an event."""
    kind = "alarm" if alarm.state == "on" else "over"
    return [kind, alarm.step, alarm.at_s, masked(alarm.line)]


def _whole(seconds: float | None) -> int | None:
    return None if seconds is None or not math.isfinite(seconds) else round(seconds)
